"""Launches of a kernel that the checks make: in its own dtypes, and in float64."""

from __future__ import annotations

from undertow.runtime.differentiable import Differentiable
from undertow.check.example import Example


class Launcher(Differentiable):
    def types(self, example: Example):
        bound = self._bind(example.args, example.kwargs)
        return self._binder.types(bound.values)
