"""Control flow. Random graphs are executed as graphs and as what they become."""

import itertools

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from undertow.errors import IRError, UnsupportedError
from undertow.frontend.ttir import parse_module
from undertow.ir import Access, Block, Kernel, Op, Value, walk

from .text import lift, module, ops

PTR = "!tt.ptr<f32>"


def test_if_gives_values() -> None:
    body = """
    %r = scf.if %c -> (f32) {
    %s = arith.negf %a : f32
    scf.yield %s : f32
    } else {
    scf.yield %a : f32
    }
    tt.store %x_ptr, %r : !tt.ptr<f32>
    """
    assert ops(body) == [
        "%5 = if(%c) : f32 {",
        "%6 = neg(%a) : f32",
        "yield(%6)",
        "} {",
        "yield(%a)",
        "}",
        "store(%x_ptr, %5)",
    ]


def test_names_of_sibling_regions_do_not_meet() -> None:
    body = """
    %r = scf.if %c -> (f32) {
    %s = arith.negf %a : f32
    scf.yield %s : f32
    } else {
    %s = math.exp %a : f32
    scf.yield %s : f32
    }
    """
    assert [line for line in ops(body) if "yield" in line] == ["yield(%6)", "yield(%7)"]


def test_if_without_else() -> None:
    assert ops(f"scf.if %c {{\ntt.store %x_ptr, %a : {PTR}\n}}") == [
        "if(%c) {",
        "store(%x_ptr, %a)",
        "yield()",
        "} {",
        "yield()",
        "}",
    ]


def test_a_pointer_out_of_if_is_an_offset() -> None:
    body = f"""
    %r = scf.if %c -> ({PTR}) {{
    %s = tt.addptr %x_ptr, %n : {PTR}, i32
    scf.yield %s : {PTR}
    }} else {{
    scf.yield %x_ptr : {PTR}
    }}
    %v = tt.load %r : {PTR}
    """
    assert ops(body) == [
        "%5 = if(%c) : i64 {",
        "%6 = cast(%n) <signed=True> : i64",
        "yield(%6)",
        "} {",
        "%7 = const() <value=0> : i64",
        "yield(%7)",
        "}",
        "%8 = load(%x_ptr, %5) : f32",
    ]


def test_a_tensor_of_pointers_out_of_if_is_a_tensor_of_offsets() -> None:
    tensor = "tensor<4x!tt.ptr<f32>>"
    body = f"""
    %o = tt.make_range {{end = 4 : i32, start = 0 : i32}} : tensor<4xi32>
    %p = tt.splat %x_ptr : {PTR} -> {tensor}
    %r = scf.if %c -> ({tensor}) {{
    %s = tt.addptr %p, %o : {tensor}, tensor<4xi32>
    scf.yield %s : {tensor}
    }} else {{
    %q = tt.addptr %x_ptr, %n : {PTR}, i32
    %s = tt.splat %q : {PTR} -> {tensor}
    scf.yield %s : {tensor}
    }}
    %v = tt.load %r : {tensor}
    """
    lines = ops(body)
    assert lines[1] == "%6 = if(%c) : i64[4] {"
    assert lines[-1] == "%10 = load(%x_ptr, %6) : f32[4]"


def test_a_choice_between_arguments_is_refused() -> None:
    body = f"""
    %r = scf.if %c -> ({PTR}) {{
    scf.yield %x_ptr : {PTR}
    }} else {{
    scf.yield %y_ptr : {PTR}
    }}
    """
    with pytest.raises(UnsupportedError, match="a pointer chosen at run time"):
        lift(body)


def test_an_early_return_is_an_if_around_the_rest() -> None:
    body = f"""
    cf.cond_br %c, ^bb1, ^bb2
    ^bb1:  // pred: ^bb0
    tt.return
    ^bb2:  // pred: ^bb0
    tt.store %x_ptr, %a : {PTR}
    tt.return
    """
    assert ops(body) == [
        "if(%c) {",
        "yield()",
        "} {",
        "store(%x_ptr, %a)",
        "yield()",
        "}",
    ]


def test_what_two_sides_reach_is_emitted_once() -> None:
    body = f"""
    cf.cond_br %c, ^bb1, ^bb3(%a : f32)
    ^bb1:  // pred: ^bb0
    %d = arith.cmpi sgt, %n, %n : i32
    %b = arith.negf %a : f32
    cf.cond_br %d, ^bb2, ^bb3(%b : f32)
    ^bb2:  // pred: ^bb1
    tt.return
    ^bb3(%v: f32 loc(unknown)):  // 2 preds: ^bb0, ^bb1
    tt.store %x_ptr, %v : {PTR}
    tt.return
    """
    assert ops(body) == [
        "%5, %6 = if(%c) : i1, f32 {",
        "%7 = cmp(%n, %n) <predicate='sgt'> : i1",
        "%8 = neg(%a) : f32",
        "%9 = if(%7) : f32 {",
        "%10 = const() <value=0.0> : f32",
        "yield(%10)",
        "} {",
        "yield(%8)",
        "}",
        "%11 = const() <value=True> : i1",
        "%12 = xor(%7, %11) : i1",
        "yield(%12, %9)",
        "} {",
        "%13 = const() <value=True> : i1",
        "yield(%13, %a)",
        "}",
        "if(%5) {",
        "store(%x_ptr, %6)",
        "yield()",
        "} {",
        "yield()",
        "}",
    ]


def test_a_pointer_may_be_the_argument_of_a_block() -> None:
    body = f"""
    cf.cond_br %c, ^bb1, ^bb3(%x_ptr : {PTR})
    ^bb1:  // pred: ^bb0
    %d = arith.cmpi sgt, %n, %n : i32
    %p = tt.addptr %x_ptr, %n : {PTR}, i32
    cf.cond_br %d, ^bb2, ^bb3(%p : {PTR})
    ^bb2:  // pred: ^bb1
    tt.return
    ^bb3(%v: {PTR} loc(unknown)):  // 2 preds: ^bb0, ^bb1
    tt.store %v, %a : {PTR}
    tt.return
    """
    assert "store(%x_ptr, %a, %6)" in ops(body)


def test_a_cycle_is_refused() -> None:
    body = """
    cf.br ^bb1
    ^bb1:  // 2 preds: ^bb0, ^bb1
    cf.cond_br %c, ^bb1, ^bb2
    ^bb2:  // pred: ^bb1
    tt.return
    """
    with pytest.raises(
        UnsupportedError, match="a loop with an early exit is not supported"
    ):
        lift(body)


def test_another_terminator_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"a block that ends in `cf\.unreachable`"
    ):
        lift("cf.unreachable")


# -- random graphs --


@st.composite
def graphs(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Successors of each block: none (return), one or two later ones."""
    size = draw(st.integers(2, 8))
    return [
        tuple(
            draw(st.lists(st.integers(i + 1, size - 1), max_size=2))
            if i < size - 1
            else ()
        )
        for i in range(size)
    ]


def text(graph: list[tuple[int, ...]], bare: set[int]) -> str:
    """Block `i` stores its argument plus `i` at offset `i`, and passes it on.

    Blocks of `bare` that return do nothing else.
    """
    reached = {0}
    for i, successors in enumerate(graph):
        reached |= set(successors) if i in reached else set()
    lines: list[str] = []
    for i, successors in enumerate(graph):
        if i not in reached:
            continue
        if i:
            lines.append(f"^bb{i}(%v{i}: i32 loc(unknown)):")
        value = f"%v{i}" if i else "%n"
        if successors or i not in bare:
            lines += [
                f"%k{i} = arith.constant {i} : i32",
                f"%s{i} = arith.addi {value}, %k{i} : i32",
                f"%p{i} = tt.addptr %z, %k{i} : !tt.ptr<i32>, i32",
                f"tt.store %p{i}, %s{i} : !tt.ptr<i32>",
            ]
        targets = [f"^bb{j}(%s{i} : i32)" for j in successors]
        if len(targets) == 2:
            lines.append(f"cf.cond_br %f{i}, {targets[0]}, {targets[1]}")
        else:
            lines.append(f"cf.br {targets[0]}" if targets else "tt.return")
    return "\n".join(lines)


def follow(
    graph: list[tuple[int, ...]], bare: set[int], flags: dict[str, bool]
) -> list:
    """What the graph stores: pairs of offset and value."""
    at, value, stored = 0, 100, []
    while True:
        if graph[at] or at not in bare:
            value += at
            stored.append((at, value))
        if not graph[at]:
            return stored
        taken = len(graph[at]) == 2 and not flags[f"f{at}"]
        at = graph[at][int(taken)]


def execute(kernel: Kernel, flags: dict[str, bool]) -> list[tuple[int, int]]:
    """What the lifted kernel stores."""
    env: dict[Value, int] = {p: flags.get(p.name, 100) for p in kernel.params}
    stored: list[tuple[int, int]] = []

    def run(block: Block) -> list[int]:
        for op in block.ops:
            values = [env[v] for v in op.operands if v in env]
            if op.opcode == "yield":
                return values
            if op.opcode == "store":
                access = Access.of(op)
                assert access.value is not None
                stored.append((sum(env[o] for o in access.offsets), env[access.value]))
            elif op.opcode == "if":
                results = run(op.regions[0 if values[0] else 1])
                env.update(zip(op.results, results, strict=True))
            else:
                env[op.result] = compute(op, values)
        return []

    run(kernel.body)
    return stored


def compute(op: Op, values: list[int]) -> int:
    match op.opcode:
        case "const":
            return int(op.attrs["value"])  # type: ignore[arg-type]
        case "add":
            return values[0] + values[1]
        case "xor":
            return values[0] ^ values[1]
        case other:
            raise IRError(f"`{other}` was not expected")


@given(graphs(), st.sets(st.integers(0, 7)))
def test_restructuring_keeps_what_is_executed(
    graph: list[tuple[int, ...]], bare: set[int]
) -> None:
    args = {f"f{i}": "i1" for i in range(len(graph))}
    source = module(text(graph, bare), z="!tt.ptr<i32>", **args)
    assert parse_module(source)
    try:
        kernel = lift(text(graph, bare), z="!tt.ptr<i32>", **args)
    except UnsupportedError as error:
        assume("meets in several places" not in error.fact)
        raise
    stores = [op for op in walk(kernel.body) if op.opcode == "store"]
    places = [tuple(o.op for o in Access.of(s).offsets) for s in stores]
    assert len(places) == len(set(places)), "a block was emitted twice"
    branching = [f"f{i}" for i, successors in enumerate(graph) if len(successors) == 2]
    for chosen in itertools.product([False, True], repeat=len(branching)):
        flags = {
            **dict.fromkeys(args, False),
            **dict(zip(branching, chosen, strict=True)),
        }
        assert execute(kernel, flags) == follow(graph, bare, flags)
