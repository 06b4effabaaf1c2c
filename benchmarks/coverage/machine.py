"""Stands in for a GPU: libraries ask for its properties before they launch anything.

Nothing of Triton or PyTorch is used in a new way; the answers are those of an H100 with
few multiprocessors, so that grids of one program for each of them have rows left over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner, Config

MULTIPROCESSORS = 3
SHARED_MEMORY = 232_448


class Driver:
    """What Triton's driver says of the device."""

    def __init__(self) -> None:
        self.utils = SimpleNamespace(get_device_properties=lambda _: PROPERTIES)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, _: int) -> None: ...

    def get_current_stream(self, _: int) -> int:
        return 0

    def get_device_interface(self) -> Any:
        return torch.cuda


PROPERTIES = {
    "multiprocessor_count": MULTIPROCESSORS,
    "max_shared_mem": SHARED_MEMORY,
    "max_num_regs": 65_536,
    "warpSize": 32,
}

_TORCH = SimpleNamespace(
    name="NVIDIA H100",
    major=9,
    minor=0,
    multi_processor_count=MULTIPROCESSORS,
    total_memory=80 << 30,
    shared_memory_per_block_optin=SHARED_MEMORY,
    L2_cache_size=50 << 20,
    warp_size=32,
)


class _Device:
    """`torch.cuda.device`, which selects nothing."""

    def __init__(self, *_: Any) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: Any) -> None: ...


_CUDA: dict[str, Any] = {
    "is_available": lambda: True,
    "is_bf16_supported": lambda *_, **__: True,
    "device_count": lambda: 1,
    "current_device": lambda: 0,
    "set_device": lambda _: None,
    "get_device_name": lambda *_: _TORCH.name,
    "get_device_capability": lambda *_: (9, 0),
    "get_device_properties": lambda *_: _TORCH,
    "current_stream": lambda *_: SimpleNamespace(cuda_stream=0),
    "synchronize": lambda *_: None,
    "device": _Device,
    "device_of": _Device,
}


@contextlib.contextmanager
def driven() -> Iterator[None]:
    """Has Triton take `Driver` for its driver."""
    before = driver._active
    driver.set_active(Driver())  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        driver._active = before


@contextlib.contextmanager
def stand_in() -> Iterator[None]:
    """Has a device to be found, on which tuners take their smallest configuration."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(driven())
        for name, answer in _CUDA.items():
            stack.enter_context(mock.patch.object(torch.cuda, name, answer))
        stack.enter_context(mock.patch.object(Autotuner, "_bench", _size))
        yield


def _size(_: Any, *args: Any, config: Config, **kwargs: Any) -> list[float]:
    """In place of the time that a configuration takes: how much a program works on."""
    size = 1.0
    for value in config.kwargs.values():
        size *= value if isinstance(value, int) and value > 0 else 1
    return [size + len(str(config)) * 1e-6] * 3
