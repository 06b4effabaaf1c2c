"""Judges names in processes of their own, so that one that hangs is but a row."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

import numpy
import torch

SECONDS = 180.0
"""After which a name is given up."""

T = TypeVar("T")


@dataclass(frozen=True)
class Judge(Generic[T]):
    """What is done with a name, in a process of its own.

    Attributes:
        findings: what there is to say about a name.
        lost: what is said of a name and a reason, where that came to no end.
    """

    findings: Callable[[str], Iterator[T]]
    lost: Callable[[str, str], T]


@dataclass
class _Task(Generic[T]):
    name: str
    process: Any
    pipe: Connection
    begin: float = field(default_factory=time.monotonic)
    found: list[T] = field(default_factory=list)


def run(
    names: Sequence[str],
    judge: Judge[T],
    processes: int,
    say: Callable[[str, float, list[T]], None],
) -> list[T]:
    """The findings of `names`, in that order; `say` is told of each one's end."""
    context = multiprocessing.get_context("fork")  # what they need is imported already
    waiting, running = list(names), list[_Task[T]]()
    results: dict[str, list[T]] = {}
    while waiting or running:
        while waiting and len(running) < processes:
            name = waiting.pop(0)
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=_work, args=(name, judge, theirs), daemon=True
            )
            process.start()
            theirs.close()
            running.append(_Task(name, process, ours))
        wait([task.pipe for task in running], timeout=1.0)
        for task in list(running):
            if _ended(task, judge.lost):
                running.remove(task)
                results[task.name] = task.found
                say(task.name, time.monotonic() - task.begin, task.found)
    return [finding for name in names for finding in results[name]]


def _ended(task: _Task[T], lost: Callable[[str, str], T]) -> bool:
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
    task.found.append(lost(task.name, reason))
    return True


def _work(name: str, judge: Judge[Any], pipe: Connection) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # the libraries'
    numpy.seterr(all="ignore")
    try:
        for finding in judge.findings(name):
            pipe.send(finding)
    except Exception as error:
        pipe.send(judge.lost(name, f"{type(error).__name__}: {error}"))
    pipe.send(None)
