"""Checks a kernel and its derived backward against float64, on example arguments."""

from undertow.check.example import Example, make_example, sizes
from undertow.check.run import Check, Options, check

__all__ = ["Check", "Example", "Options", "check", "make_example", "sizes"]
