"""Runs cases in Triton's interpreter: `interpret.py INPUTS OUTPUTS`, two torch files.

It is a process of its own because TRITON_INTERPRET is read when kernels are decorated.
"""

from __future__ import annotations

import sys

import torch
from triton.runtime.errors import InterpreterError

import kernels


def main(source: str, target: str) -> None:
    inputs = torch.load(source, weights_only=False)
    for key, (name, grid, args) in inputs.items():
        case = kernels.CASES[name]
        constexprs = {k: v for k, v in case.constexprs.items() if k not in args}
        try:
            case.fn[grid](**args, **constexprs)
        except (
            InterpreterError,
            ValueError,
        ) as error:  # an old one
            inputs[key] = str(error)
    torch.save(inputs, target)


if __name__ == "__main__":
    main(*sys.argv[1:])
