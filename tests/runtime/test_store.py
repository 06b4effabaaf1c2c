"""Captured kernels on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from undertow import frontend
from undertow.ir import print_kernel
from undertow.runtime import derivation, store
from undertow.runtime.derivation import capture, derive

from .kernels import options, scale

TYPES = {"x_ptr": "*fp32", "w_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[object]:
    """What Triton's front end was asked for, with a cache of its own."""
    monkeypatch.setenv("UNDERTOW_CACHE_DIR", str(tmp_path))
    made: list[object] = []

    def counted(*args: Any) -> Any:
        made.append(args)
        return frontend.capture(*args)

    monkeypatch.setattr(derivation, "frontend", _Frontend(counted))
    return made


class _Frontend:
    """`frontend` with another `capture`."""

    def __init__(self, capture: Any) -> None:
        self.capture = capture
        self.parameters, self.unwrap = frontend.parameters, frontend.unwrap


def entries(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def test_a_kernel_is_captured_once(captures: list[object], tmp_path: Path):
    first = capture(scale.fn, TYPES, {"BLOCK": 64})
    again = capture(scale.fn, TYPES, {"BLOCK": 64})
    assert len(captures) == 1
    assert len(entries(tmp_path)) == 1
    assert print_kernel(first, locations=True) == print_kernel(again, locations=True)
    assert first.constexprs == again.constexprs


def test_what_is_kept_is_complete(captures: list[object]):
    """Defaults of constexprs are the kernel's, whether it was captured or read."""
    types = {**TYPES, "factor": "fp32", "doubled": "i1"}
    cold, warm = (derive(options.fn, types, {}, wrt=["x_ptr"]) for _ in range(2))
    assert len(captures) == 1
    assert cold.source == warm.source
    assert cold.forward.constexprs == warm.forward.constexprs == {
        "SHIFT": 0.0, "BLOCK": 32,
    }  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"types": {"x_ptr": "*fp16"}},
        {"types": {"n": "i64"}},
        {"constexprs": {"BLOCK": 128}},
        {"version": "0"},
        {"triton": "0"},
        {"lifting": "0"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_what_a_kernel_depends_on(change: Any, monkeypatch: pytest.MonkeyPatch):
    jit = frontend.unwrap(scale.fn)
    before = store.key_of(jit, TYPES, {"BLOCK": 64})
    if "version" in change:
        monkeypatch.setattr(store, "__version__", "0")
    if "triton" in change:
        monkeypatch.setattr(store.triton, "__version__", "0")
    if "lifting" in change:
        monkeypatch.setattr(store, "_lifting", lambda: "0")
    types = {**TYPES, **change.get("types", {})}
    constexprs = change.get("constexprs", {"BLOCK": 64})
    assert store.key_of(jit, types, constexprs) != before


def test_constexprs_of_other_types_have_other_names():
    jit = frontend.unwrap(scale.fn)
    values = (1, True, 1.0, "1", None, -1.0)
    assert len({store.key_of(jit, TYPES, {"BLOCK": v}) for v in values}) == len(values)
    assert store.key_of(jit, TYPES, {"BLOCK": object()}) is None


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[]", b'{"ir": 3}', None])
def test_a_damaged_entry_is_rebuilt(
    damage: bytes | None, captures: list[object], tmp_path: Path
):
    whole = capture(scale.fn, TYPES, {"BLOCK": 64})
    (entry,) = entries(tmp_path)
    if damage is None:  # valid IR, but another one
        text = json.loads(entry.read_text())
        text["ir"] = text["ir"].replace("64", "32")
        damage = json.dumps(text).encode()
    entry.write_bytes(damage)
    with pytest.warns(UserWarning, match="rebuilding the cache entry"):
        again = capture(scale.fn, TYPES, {"BLOCK": 64})
    assert print_kernel(again) == print_kernel(whole)
    assert len(captures) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        capture(scale.fn, TYPES, {"BLOCK": 64})
    assert len(captures) == 2


def test_a_folder_that_cannot_be_written(
    captures: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("UNDERTOW_CACHE_DIR", str(blocked / "cache"))
    derived = derive(scale.fn, TYPES, {"BLOCK": 64})
    assert derived.function.arg_names[0] == "d_y_ptr"
    assert len(captures) == 1


def test_where_entries_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("UNDERTOW_CACHE_DIR", str(tmp_path))
    assert store.directory() == tmp_path
    monkeypatch.delenv("UNDERTOW_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert store.directory() == tmp_path / "xdg" / "undertow"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert store.directory().parts[-2:] == (".cache", "undertow")


def test_a_derived_module_that_was_damaged_is_written_again(captures: list[object]):
    derived = derive(scale.fn, TYPES, {"BLOCK": 64})
    path = Path(derived.function.fn.__code__.co_filename)
    path.write_bytes(b"\xff not python")
    again = derive(scale.fn, TYPES, {"BLOCK": 64})
    assert again.function.arg_names == derived.function.arg_names
    assert path.read_text() == derived.source


@pytest.mark.slow
def test_processes_at_the_same_time(tmp_path: Path):
    script = """
from runtime.kernels import scale
from runtime.test_store import TYPES
from undertow.runtime.derivation import derive
for block in (16, 32, 64):
    print(len(derive(scale.fn, TYPES, {"BLOCK": block}).function.arg_names))
"""
    root = Path(__file__).parents[2]
    path = os.pathsep.join([str(root / "src"), str(root / "tests")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "UNDERTOW_CACHE_DIR": str(tmp_path),
    }
    command = [sys.executable, "-W", "error::UserWarning:undertow", "-c", script]
    both = [
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(2)
    ]
    results = [process.communicate() for process in both]
    assert results[0][0] == results[1][0], results
    assert all(process.returncode == 0 for process in both), results
    assert len(entries(tmp_path)) == 3
    assert not list(tmp_path.glob("*.tmp"))
