"""Runs workloads in processes of their own, so that one that hangs is but a row."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy
import torch

from benchmarks.coverage.verdict import CRASH, Finding, findings
from benchmarks.coverage.workloads import WORKLOADS

SECONDS = 180.0
"""After which a workload is given up."""


@dataclass
class _Task:
    name: str
    process: Any
    pipe: Connection
    begin: float = field(default_factory=time.monotonic)
    found: list[Finding] = field(default_factory=list)


def run(
    names: Sequence[str],
    processes: int,
    say: Callable[[str, float, list[Finding]], None],
) -> list[Finding]:
    """The findings of `names`, in that order; `say` is told of each one's end."""
    context = multiprocessing.get_context("fork")  # the libraries are imported already
    waiting, running = list(names), list[_Task]()
    results: dict[str, list[Finding]] = {}
    while waiting or running:
        while waiting and len(running) < processes:
            name = waiting.pop(0)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(name, theirs), daemon=True)
            process.start()
            theirs.close()
            running.append(_Task(name, process, ours))
        wait([task.pipe for task in running], timeout=1.0)
        for task in list(running):
            if _ended(task):
                running.remove(task)
                results[task.name] = task.found
                say(task.name, time.monotonic() - task.begin, task.found)
    return [finding for name in names for finding in results[name]]


def _ended(task: _Task) -> bool:
    """Takes what a task has found; whether there is no more."""
    try:
        while task.pipe.poll():
            message = task.pipe.recv()
            if message is None:
                task.process.join()
                return True
            task.found.append(message)
    except EOFError:
        task.process.join()
        reason = f"the process ended with status {task.process.exitcode}"
    else:
        if time.monotonic() - task.begin < SECONDS:
            return False
        task.process.kill()
        reason = f"no answer in {SECONDS:.0f} seconds"
    task.found.append(Finding("", CRASH, reason, "", task.name))
    return True


def _work(name: str, pipe: Connection) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the libraries'
    numpy.seterr(all="ignore")
    for finding in _findings(name):
        pipe.send(finding)
    pipe.send(None)


def _findings(name: str) -> Iterator[Finding]:
    try:
        yield from findings(WORKLOADS[name])
    except Exception as error:
        yield Finding("", CRASH, f"{type(error).__name__}: {error}", "", name)
