# ruff: noqa: E501 -- MLIR prints one op a line
import pytest

from undertow.errors import UnsupportedError

from .text import lift, ops

RANGE = "%o = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>"
TENSOR = "tensor<8x!tt.ptr<f32>>"


def accesses(body: str, **args: str) -> list[str]:
    return [
        line.partition(" = ")[2] or line
        for line in ops(body, **args)
        if any(name in line for name in ("load", "store", "atomic"))
    ]


def test_offsets_are_gathered_from_scalars_and_tensors() -> None:
    body = f"""
    {RANGE}
    %p = tt.addptr %x_ptr, %n : !tt.ptr<f32>, i32
    %s = tt.splat %p : !tt.ptr<f32> -> {TENSOR}
    %q = tt.addptr %s, %o : {TENSOR}, tensor<8xi32>
    %r = tt.load %q : {TENSOR}
    tt.store %p, %a : !tt.ptr<f32>
    """
    assert accesses(body.replace("\n\n", "\n")) == [
        "load(%x_ptr, %n, %5) : f32[8]",
        "store(%x_ptr, %a, %n)",
    ]


def test_pointer_tensors_are_expanded_offset_by_offset() -> None:
    body = f"""
    %p = tt.addptr %x_ptr, %n : !tt.ptr<f32>, i32
    {RANGE.strip()}
    %s = tt.splat %p : !tt.ptr<f32> -> {TENSOR}
    %q = tt.addptr %s, %o : {TENSOR}, tensor<8xi32>
    %e = tt.expand_dims %q {{axis = 1 : i32}} : {TENSOR} -> tensor<8x1x!tt.ptr<f32>>
    %b = tt.broadcast %e : tensor<8x1x!tt.ptr<f32>> -> tensor<8x4x!tt.ptr<f32>>
    %t = tt.trans %b {{order = array<i32: 1, 0>}} : tensor<8x4x!tt.ptr<f32>> -> tensor<4x8x!tt.ptr<f32>>
    %r = tt.load %t : tensor<4x8x!tt.ptr<f32>>
    """
    assert ops(body) == [
        "%5 = range() <end=8, start=0> : i32[8]",
        "%6 = expand_dims(%5) <axis=1> : i32[8,1]",
        "%7 = broadcast(%6) : i32[8,4]",
        "%8 = transpose(%7) <order=[1, 0]> : i32[4,8]",
        "%9 = load(%x_ptr, %n, %8) : f32[4,8]",
    ]


def test_an_offset_of_0_is_dropped() -> None:
    body = """
    %z = arith.constant 0 : i32
    %p = tt.addptr %x_ptr, %z : !tt.ptr<f32>, i32
    %r = tt.load %p : !tt.ptr<f32>
    """
    assert accesses(body) == ["load(%x_ptr) : f32"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%r = tt.load %x_ptr, %c : !tt.ptr<f32>", "load(%x_ptr, %c) <mask=True> : f32"),
        ("%r = tt.load %x_ptr, %c, %a : !tt.ptr<f32>",
         "load(%x_ptr, %c, %a) <mask=True, other=True> : f32"),
        ("tt.store %x_ptr, %a, %c : !tt.ptr<f32>", "store(%x_ptr, %a, %c) <mask=True>"),
        ("%r = tt.load %x_ptr cacheModifier = cg evictionPolicy = evict_first : !tt.ptr<f32>",
         "load(%x_ptr) <cache='.cg', evict='evict_first'> : f32"),
        ("%r = tt.load %x_ptr {isVolatile = false} : !tt.ptr<f32>", "load(%x_ptr) : f32"),
        ("%r = tt.load %x_ptr {cachePolicy = #tt.cache_policy<cache_modifier = none, "
         "eviction_policy = evict_last>} : !tt.ptr<f32>", "load(%x_ptr) <evict='evict_last'> : f32"),
        ("tt.store %x_ptr, %a {cachePolicy = #tt.cache_policy<cache_modifier = wt, "
         "eviction_policy = evict_normal>} : !tt.ptr<f32>", "store(%x_ptr, %a) <cache='.wt'>"),
        ("%r = tt.atomic_rmw fadd, acq_rel, gpu, %x_ptr, %a, %c : (!tt.ptr<f32>, f32, i1) -> f32",
         "atomic_add(%x_ptr, %a, %c) <mask=True>"),
        ("%r = tt.atomic_rmw fadd, relaxed, cta, %x_ptr, %a : (!tt.ptr<f32>, f32) -> f32",
         "atomic_add(%x_ptr, %a)"),
    ],
)  # fmt: skip
def test_accesses(line: str, expected: str) -> None:
    assert accesses(line) == [expected]


def test_the_constant_mask_of_an_atomic_is_dropped() -> None:
    body = """
    %t = arith.constant true
    %r = tt.atomic_rmw fadd, acq_rel, gpu, %x_ptr, %a, %t : (!tt.ptr<f32>, f32, i1) -> f32
    """
    assert accesses(body) == ["atomic_add(%x_ptr, %a)"]


def test_booleans_are_read_and_written_as_such() -> None:
    body = """
    %z = arith.constant 0 : i8
    %p = tt.bitcast %m_ptr : !tt.ptr<i1> -> !tt.ptr<i8>
    %v = tt.load %p, %c, %z : !tt.ptr<i8>
    %m = arith.cmpi ne, %v, %z : i8
    %r = tt.load %x_ptr, %m : !tt.ptr<f32>
    %w = arith.extui %m : i1 to i8
    tt.store %p, %w : !tt.ptr<i8>
    tt.store %p, %b : !tt.ptr<i8>
    """
    assert [
        line for line in ops(body, m_ptr="!tt.ptr<i1>", b="i8") if "cast" not in line
    ] == [
        "%7 = const() <value=0> : i8",
        "%8 = const() <value=False> : i1",
        "%9 = load(%m_ptr, %c, %8) <mask=True, other=True> : i1",
        "%11 = load(%x_ptr, %9) <mask=True> : f32",
        "store(%m_ptr, %9)",
        "%12 = cmp(%b, %7) <predicate='ne'> : i1",
        "store(%m_ptr, %12)",
    ]


def test_a_choice_between_offsets_of_one_argument() -> None:
    body = """
    %p = tt.addptr %x_ptr, %n : !tt.ptr<f32>, i32
    %q = arith.select %c, %p, %x_ptr : !tt.ptr<f32>
    %r = tt.load %q : !tt.ptr<f32>
    """
    assert ops(body) == [
        "%5 = cast(%n) <signed=True> : i64",
        "%6 = const() <value=0> : i64",
        "%7 = select(%c, %5, %6) : i64",
        "%8 = load(%x_ptr, %7) : f32",
    ]


PTR = "!tt.ptr<f32>"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"%q = arith.select %c, %x_ptr, %y_ptr : {PTR}",
         "a pointer chosen at run time is not supported\n"
         "  --> k.py:7, in kernel `k`\n"
         "  = it may be `x_ptr` or `y_ptr`, and a gradient must know its buffer when the kernel"
         " is built\n"
         "hint: load from both under masks and select the values, or choose by a `tl.constexpr`"),
        (f"%q = tt.bitcast %x_ptr : {PTR} -> !tt.ptr<i32>",
         "a pointer to `f32` used as one to `i32` is not supported\n"
         "  --> k.py:7, in kernel `k`\n"
         "  = argument `x_ptr` would hold values of two types\n"
         "hint: view the tensor as the other dtype outside of the kernel"),
        (f"%q = tt.load %x_ptr {{isVolatile = true}} : {PTR}",
         "`volatile=True` is not supported\n"
         "  --> k.py:7, in kernel `k`\n"
         "  = another program may change the value between two reads\n"
         "hint: drop it if no other program writes there"),
        ("%q = tt.load %pp : !tt.ptr<!tt.ptr<f32>>", "argument `pp` of type"),
        (f"%q = tt.atomic_rmw max, acq_rel, gpu, %x_ptr, %a : ({PTR}, f32) -> f32",
         "`tl.atomic_max` is not supported\n"
         "  --> k.py:7, in kernel `k`\n"
         "  = which program's value stays depends on the data\n"
         "hint: reduce inside the program and store one value to each address"),
        (f"%q = tt.atomic_rmw fadd, acq_rel, gpu, %x_ptr, %a : ({PTR}, f32) -> f32\n"
         "%r = arith.negf %q : f32",
         "the old value that `tl.atomic_add` returns is not supported\n"
         "  --> k.py:7, in kernel `k`\n"
         "  = it depends on the order in which programs run\n"
         "hint: use `tl.atomic_add` for its effect only"),
        (f"%q = arith.cmpi eq, %x_ptr, %y_ptr : {PTR}",
         "a pointer used as a value by `arith.cmpi` is not supported"),
        (f"%q = tt.ptr_to_int %x_ptr : {PTR} -> i64",
         "a pointer turned into an integer is not supported"),
    ],
)  # fmt: skip
def test_refusals(body: str, message: str) -> None:
    with pytest.raises(UnsupportedError) as error:
        lift(body, **({"pp": "!tt.ptr<!tt.ptr<f32>>"} if "%pp" in body else {}))
    assert str(error.value).startswith(message)
