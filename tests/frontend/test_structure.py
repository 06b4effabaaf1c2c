# ruff: noqa: E501 -- MLIR prints one op a line
import pytest

from undertow.errors import UnsupportedError

from .text import lift, ops

X = "%x = tt.splat %a : f32 -> tensor<4x8xf32>"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tt.trans %x {order = array<i32: 1, 0>} : tensor<4x8xf32> -> tensor<8x4xf32>",
         "transpose(%5) <order=[1, 0]> : f32[8,4]"),
        ("tt.reshape %x : tensor<4x8xf32> -> tensor<32xf32>", "reshape(%5) : f32[32]"),
        ("tt.reshape %x : tensor<4x8xf32> -> tensor<4x1x8xf32>",
         "expand_dims(%5) <axis=1> : f32[4,1,8]"),
        ("tt.expand_dims %x {axis = 2 : i32} : tensor<4x8xf32> -> tensor<4x8x1xf32>",
         "expand_dims(%5) <axis=2> : f32[4,8,1]"),
        ("tt.join %x, %x : tensor<4x8xf32> -> tensor<4x8x2xf32>", "join(%5, %5) : f32[4,8,2]"),
    ],
)  # fmt: skip
def test_moves(line: str, expected: str) -> None:
    assert ops(f"{X}\n%r = {line}")[1] == f"%6 = {expected}"


def test_sources() -> None:
    body = """
    %r = tt.make_range {end = 12 : i32, start = 4 : i32} : tensor<8xi32>
    %p = tt.get_program_id y : i32
    %q = tt.get_num_programs z : i32
    """
    assert ops(body) == [
        "%5 = range() <end=12, start=4> : i32[8]",
        "%6 = program_id() <axis=1> : i32",
        "%7 = num_programs() <axis=2> : i32",
    ]


def test_splat_and_broadcast_are_broadcasts() -> None:
    body = """
    %x = tt.splat %a : f32 -> tensor<4x1xf32>
    %r = tt.broadcast %x : tensor<4x1xf32> -> tensor<4x8xf32>
    """
    assert ops(body) == [
        "%5 = broadcast(%a) : f32[4,1]",
        "%6 = broadcast(%5) : f32[4,8]",
    ]


def test_split_has_two_results() -> None:
    body = """
    %x = tt.splat %a : f32 -> tensor<4x2xf32>
    %o, %p = tt.split %x : tensor<4x2xf32> -> tensor<4xf32>
    %s = arith.addf %p, %o : tensor<4xf32>
    """
    assert ops(body)[1:] == [
        "%6, %7 = split(%5) : f32[4], f32[4]",
        "%8 = add(%7, %6) : f32[4]",
    ]


def test_unsplat_gives_the_one_element() -> None:
    body = """
    %x = tt.splat %a : f32 -> tensor<1xf32>
    %r = tt.unsplat %x : tensor<1xf32>
    """
    assert ops(body)[1] == "%6 = reshape(%5) : f32"


REORDER = f"{X}\n%r = tt.reshape %x allow_reorder : tensor<4x8xf32> -> tensor<32xf32>"
SUM = """
%s = "tt.reduce"(%r) <{axis = 0 : i32}> ({
^bb0(%p: f32 loc(unknown), %q: f32 loc(unknown)):
%t = arith.addf %p, %q : f32
tt.reduce.return %t : f32
}) : (tensor<32xf32>) -> f32
"""


def test_a_free_order_is_accepted_where_everything_is_reduced() -> None:
    assert ops(REORDER + SUM)[1:] == [
        "%6 = reshape(%5) : f32[32]",
        "%7 = reduce(%6) <axis=0, kind='sum'> : f32",
    ]


def test_a_free_order_is_refused_elsewhere() -> None:
    for body in (
        f"{REORDER}{SUM}%u = arith.negf %r : tensor<32xf32>",
        f"{X}\n%r = tt.reshape %x allow_reorder : tensor<4x8xf32> -> tensor<8x4xf32>",
    ):
        with pytest.raises(UnsupportedError) as error:
            lift(body)
        assert str(error.value) == (
            "`can_reorder=True` is not supported\n"
            "  --> k.py:7, in kernel `k`\n"
            "  = Triton leaves the order of the elements open\n"
            "hint: drop `can_reorder=True`, and use `tl.reshape` in place of `tl.view`"
        )
