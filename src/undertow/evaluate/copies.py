"""Copies of arguments that keep everything a kernel can see of them."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from undertow.evaluate.launch import Argument


def copied(
    args: Mapping[str, Argument], float_dtype: torch.dtype | None = None
) -> dict[str, Argument]:
    """Copies of the tensors, floats as `float_dtype` if given; numbers as they are.

    Whole storages are copied: strides, what lies between the elements of a slice, and
    which arguments share memory stay as they are.
    """
    storages: dict[tuple[int, torch.dtype], Tensor] = {}
    copies: dict[str, Argument] = {}
    for name, argument in args.items():
        if not isinstance(argument, Tensor):
            copies[name] = argument
            continue
        storage, held = argument.untyped_storage(), argument.dtype
        key = storage.data_ptr(), held
        if key not in storages:
            whole = torch.empty(0, dtype=held, device=argument.device)
            whole.set_(storage, 0, (storage.nbytes() // held.itemsize,), (1,))
            converts = float_dtype is not None and held.is_floating_point
            storages[key] = whole.to(float_dtype) if converts else whole
            if storages[key] is whole or storages[key].data_ptr() == whole.data_ptr():
                storages[key] = whole.clone()
        copies[name] = storages[key].as_strided(
            argument.shape, argument.stride(), argument.storage_offset()
        )
    return copies
