"""One kernel for one set of dtypes and constexprs: its IR, roles and backwards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from undertow import evaluate
from undertow.analysis.launch import Launch
from undertow.analysis.exclusive import Exclusive
from undertow.errors import LaunchError
from undertow.ir import Block, Kernel, Op, Value, walk
from undertow.runtime.derivation import Derivation
from undertow.transform.differentiate import OutputStores, Roles, differentiate, roles

MAX_PLANS = 4096
"""Plans kept in memory for a specialisation; training repeats a handful."""

TORCH: dict[str, torch.dtype] = {
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}


@dataclass
class Specialisation:
    """A captured kernel, with everything derived from it so far.

    Attributes:
        forward: the kernel as captured, or with aliased parameters made one.
        roles: what it does with each pointer.
    """

    forward: Kernel
    roles: Roles
    derivations: dict[object, Derivation] = field(default_factory=lambda: dict[object, Derivation]())
    aliased: dict[tuple[tuple[str, str], ...], Specialisation] = field(
        default_factory=lambda: dict[tuple[tuple[str, str], ...], Specialisation]()
    )
    plans: dict[object, Any] = field(default_factory=lambda: dict[object, Any]())

    @staticmethod
    def of(forward: Kernel) -> Specialisation:
        return Specialisation(forward, roles(forward))

    def derivation(
        self, wrt: frozenset[str], outputs: frozenset[str], atomic: frozenset[str] = frozenset()
    ) -> Derivation:
        """The backward for these inputs and outputs. UnsupportedError if there is none."""
        key = wrt, outputs, atomic
        found = self.derivations.get(key)
        if found is None:
            found = Derivation(differentiate(self.forward, wrt, outputs, atomic=atomic))
            self.derivations[key] = found
        return found

    def with_aliases(self, pairs: tuple[tuple[str, str], ...]) -> Specialisation:
        """The kernel in which each (parameter, other) pair is one buffer, the other's."""
        found = self.aliased.get(pairs)
        if found is None:
            found = Specialisation.of(merge_parameters(self.forward, dict(pairs)))
            self.aliased[pairs] = found
        return found

    def remember(self, key: object, plan: Any) -> Any:
        if len(self.plans) >= MAX_PLANS:
            self.plans.clear()
        self.plans[key] = plan
        return plan


def merge_parameters(kernel: Kernel, merge: Mapping[str, str]) -> Kernel:
    """`kernel` in which accesses to one parameter go to another one."""
    replace: dict[Value, Value] = {kernel.param(a): kernel.param(b) for a, b in merge.items()}
    env: dict[Value, Value] = {}

    def copy(block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            operands = tuple(replace.get(v, env.get(v, v)) for v in op.operands)
            results = tuple(Value(r.type, r.name) for r in op.results)
            regions = tuple(copy(region) for region in op.regions)
            env.update(zip(op.results, results, strict=True))
            ops.append(Op(op.opcode, operands, results, op.attrs, regions, op.loc))
        return Block(ops)

    body = copy(kernel.body)
    return Kernel(kernel.name, kernel.params, body, kernel.loc, kernel.constexprs)


def run_on_cpu(kernel: Kernel, values: Mapping[str, Any], grid: tuple[int, int, int]) -> None:
    """Executes `kernel` with the evaluator."""
    evaluate.run(kernel, {p.name: values[p.name] for p in kernel.params}, grid)


def check_stores(kernel: Kernel, stores: tuple[OutputStores, ...], launch: Launch) -> None:
    """Refuses a launch in which programs are known to write one element several times.

    Each of them would read the element's cotangent, and the gradient would be a multiple
    of the right one.
    """
    for store in stores:
        if store.guarded:
            continue
        finding = store.finding
        if isinstance(finding, Exclusive):
            repeated = [axis for axis in finding.unread if launch[f"grid{axis}"] > 1]
            reason = f"no program looks at grid axis {repeated[0]}" if repeated else ""
        else:
            axis = finding.axis
            several = axis is not None and launch[f"grid{axis}"] > 1
            reason = finding.reason if several or finding.certain else ""
        if reason:
            place = next(
                op.loc for op in walk(kernel.body)
                if op.opcode == "store" and op.operands[0].name == store.of
            )  # fmt: skip
            raise LaunchError(
                f"an element of `{store.of}` is written several times, so that its gradient "
                "is not defined",
                loc=place,
                kernel=kernel.name,
                why=reason,
            )


def bump_versions(tensors: list[Tensor]) -> None:
    """Tells autograd that `tensors` were overwritten."""
    for tensor in tensors:
        if not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)
