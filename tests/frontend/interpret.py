"""Runs cases in Triton's interpreter: `interpret.py INPUTS OUTPUTS`, two torch files.

It is a process of its own because TRITON_INTERPRET is read when kernels are decorated.
"""

from __future__ import annotations

import sys

import kernels
import torch


def main(source: str, target: str) -> None:
    inputs = torch.load(source, weights_only=False)
    for name, grid, args in inputs.values():
        case = kernels.CASES[name]
        constexprs = {k: v for k, v in case.constexprs.items() if k not in args}
        case.fn[grid](**args, **constexprs)
    torch.save(inputs, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
