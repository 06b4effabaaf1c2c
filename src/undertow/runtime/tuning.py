"""What `triton.autotune` and `triton.heuristics` add to a launch's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor
from triton.runtime.autotuner import Autotuner, Heuristics

from undertow import frontend
from undertow.errors import LaunchError
from undertow.ir import walk
from undertow.runtime.specialisation import Specialisation


class Layers:
    """The tuners and heuristics around a jit function, outermost first.

    Attributes:
        inner: the jit function.
        interpreted: whether it was made for Triton's interpreter.
        tuned: whether there is a tuner.
    """

    def __init__(self, fn: Any) -> None:
        self._layers: list[Autotuner | Heuristics] = []
        while isinstance(fn, Autotuner | Heuristics):
            self._layers.append(fn)
            fn = fn.fn
        self.inner = fn
        self.interpreted = type(fn).__name__ == "InterpretedFunction"
        if not self.interpreted:
            frontend.unwrap(fn)  # raises for what is no jit function
        self.tuned = any(isinstance(layer, Autotuner) for layer in self._layers)

    def __bool__(self) -> bool:
        return bool(self._layers)

    def keywords(
        self, names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> dict[str, Any]:
        """`kwargs` with everything that the jit function inside is given.

        A tuner is taken at the configuration it used last, or at one it may use before
        it used any; all of them compute the same values. A launch asks again
        afterwards, since the tuner may have picked another one for it.

        Raises:
            LaunchError: an argument is also one that the tuner chooses.
        """
        named = dict(zip(names, args, strict=False))
        total = dict(kwargs)
        for layer in self._layers:
            if isinstance(layer, Autotuner):
                chosen = _configuration(layer, named, total).all_kwargs()
                twice = sorted(chosen.keys() & (named | total).keys())
                if twice:
                    raise LaunchError(
                        f"`{twice[0]}` is chosen by autotune, and passed too"
                    )
                total.update(chosen)
            else:
                for name, rule in layer.values.items():
                    total[name] = rule({**named, **total})
        return total

    def refuse_repeated(self, spec: Specialisation, tensors: Sequence[Tensor]) -> None:
        """Refuses a kernel that would go on from what tuning runs left in its outputs.

        A first launch runs it many times, and only the last run is recorded.

        Raises:
            LaunchError: the tuner was not told to put back what an output held.
        """
        for layer in self._layers:
            if isinstance(layer, Autotuner) and _runs_several(layer):
                for name in sorted(spec.changed):
                    if name in layer.restore_value:
                        continue
                    old = tensors[spec.tensors.index(name)]
                    if name not in layer.reset_to_zero or old.requires_grad:
                        raise _repeated(spec, name)


def _runs_several(tuner: Autotuner) -> bool:
    """Whether it tries configurations; hooks of the user's see to the outputs."""
    hooks = tuner.user_defined_pre_hook or any(c.pre_hook for c in tuner.configs)
    return len(tuner.configs) > 1 and not hooks


def _repeated(spec: Specialisation, name: str) -> LaunchError:
    writes = [
        op
        for op in walk(spec.forward.body)
        if op.opcode in ("store", "atomic_add") and op.operands[0].name == name
    ]
    return LaunchError(
        f"autotune would run `{spec.forward.name}` several times on `{name}`, which "
        "each run changes",
        loc=writes[0].loc,
        kernel=spec.forward.name,
        why="the first launch tries every configuration, and then begins with what "
        "these runs left",
        hint=f'pass restore_value=["{name}"] to triton.autotune',
    )


def _configuration(
    tuner: Autotuner, named: Mapping[str, Any], kwargs: Mapping[str, Any]
) -> Any:
    used = getattr(tuner, "best_config", None)
    if used is not None:
        return used
    prune = tuner.early_config_prune
    configs = prune(tuner.configs, dict(named), **kwargs) if prune else tuner.configs
    return configs[0]
