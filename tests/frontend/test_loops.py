"""Loops and products of matrices: captured, and computed as torch does."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

triton = pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from undertow.errors import CaptureError, UnsupportedError  # noqa: E402
from undertow.evaluate import run  # noqa: E402
from undertow.frontend import capture  # noqa: E402
from undertow.ir import Kernel, Op, verify, walk  # noqa: E402
from undertow.transform.induction import induction  # noqa: E402

from . import loop_kernels as kernels  # noqa: E402
from .text import lift, ops  # noqa: E402

VERSION = tuple(int(n) for n in triton.__version__.split(".")[:2])
TYPES = {torch.float32: "*fp32", torch.float16: "*fp16"}
FORMS = {"lifted": lambda kernel: kernel, "closed": induction}

form = pytest.mark.parametrize("form", FORMS)


def taken(fn: Any, args: dict[str, Any], constexprs: dict[str, Any]) -> Kernel:
    signature = {
        name: TYPES[arg.dtype]
        if isinstance(arg, torch.Tensor)
        else "fp32"
        if isinstance(arg, float)
        else "i32"
        for name, arg in args.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # block pointers
        return capture(fn, signature, constexprs)


def launch(
    fn: Any, form: str, args: dict[str, Any], grid: int = 1, **constexprs: Any
) -> Kernel:
    """Captures `fn` for `args`, runs it, and gives what was run."""
    kernel = verify(FORMS[form](taken(fn, args, constexprs)))
    report = run(kernel, args, (grid,), sanitize=True, poison=True)
    assert report.ok, report
    return kernel


def loops(kernel: Kernel) -> list[Op]:
    return [op for op in walk(kernel.body) if op.opcode == "for"]


def carried(kernel: Kernel) -> list[list[str]]:
    return [[str(v.type) for v in loop.results] for loop in loops(kernel)]


@form
@pytest.mark.parametrize("n", [0, 5, 16, 41])
@pytest.mark.parametrize("fn", [kernels.row_sum, kernels.moving_sum])
def test_a_sum_over_blocks(fn: Any, n: int, form: str) -> None:
    x = torch.randn(3, 50)
    args = {"x_ptr": x, "y_ptr": torch.zeros(3), "stride": 50, "n": n}
    kernel = launch(fn, form, args, 3, BLOCK=16)
    torch.testing.assert_close(args["y_ptr"], x[:, :n].sum(1))
    if form == "closed" or fn is kernels.row_sum:
        assert carried(kernel) == [["f32[16]"]]
    else:
        assert sorted(carried(kernel)[0]) == ["f32[16]", "i32", "i64"]


def test_a_pointer_that_moves_evenly_is_carried_as_one_number() -> None:
    args = {"x_ptr": torch.zeros(1), "y_ptr": torch.zeros(1), "stride": 1, "n": 1}
    kernel = taken(kernels.moving_sum, args, {"BLOCK": 16})
    (loop,) = loops(kernel)
    names = {str(a.type): a.name for a in loop.regions[0].args[1:]}
    assert names == {"i64": "", "i32": "left", "f32[16]": "acc"}
    assert {str(r.type): r.name for r in loop.results} == names


@form
@pytest.mark.parametrize("n", [0, 1, 5])
def test_pointers_that_move_unevenly(n: int, form: str) -> None:
    x = torch.randn(200)
    args = {"x_ptr": x, "y_ptr": torch.zeros(16), "n": n}
    launch(kernels.uneven, form, args, BLOCK=8)
    lanes, acc, scalar, other = torch.arange(8), torch.zeros(8), 0, 1
    at = lanes.clone()
    for i in range(n):
        acc += x[at] * x[scalar] + x[other]
        at, scalar, other = at + lanes, scalar + 3 * (i % 2 == 0), i
    torch.testing.assert_close(args["y_ptr"][:8], acc)
    torch.testing.assert_close(args["y_ptr"][8:], x[at] + x[scalar] + x[other])


@form
def test_pointers_that_change_places(form: str) -> None:
    x = torch.randn(16)
    args = {"x_ptr": x, "y_ptr": torch.zeros(1), "n": 5}
    launch(kernels.swapped, form, args)
    p, q, s = 0, 8, 0.0
    for i in range(5):
        s += float(x[p]) * (i + 1)
        p, q = q, p + 1
    torch.testing.assert_close(args["y_ptr"], torch.tensor([s]))


@form
@pytest.mark.parametrize("n", [-1, 0, 1, 7])
def test_a_loop_downwards(n: int, form: str) -> None:
    x = torch.randn(8)
    args = {"x_ptr": x, "y_ptr": torch.zeros(1), "n": n}
    launch(kernels.downwards, form, args)
    s = torch.zeros(1)
    for i in range(n, 0, -2):
        s = s * 0.5 + x[i]
    torch.testing.assert_close(args["y_ptr"], s)


@form
def test_nested_loops_with_a_branch(form: str) -> None:
    n, x = 5, torch.randn(5, 5)
    args = {"x_ptr": x, "y_ptr": torch.zeros(10), "n": n}
    launch(kernels.triangle, form, args)
    sums = x.tril().sum(1)
    torch.testing.assert_close(args["y_ptr"][:n], sums)
    torch.testing.assert_close(args["y_ptr"][n:], sums * (torch.arange(n) > 1))


@form
@pytest.mark.parametrize("n", [16, 20])
def test_a_pointer_through_nested_loops(n: int, form: str) -> None:
    x = torch.randn(3, 24) if n == 20 else torch.randn(3, 16)
    args = {"x_ptr": x, "y_ptr": torch.zeros(1), "m": 3, "n": n}
    kernel = launch(kernels.tiles, form, args, BLOCK=8)
    a, b, c = x.sum(1)
    torch.testing.assert_close(args["y_ptr"][0], a / 8 + b / 4 + c / 2)
    if form == "closed":
        assert carried(kernel) == [["f32"], ["f32"]]


@form
@pytest.mark.parametrize("n", [3, 32, 70])
def test_online_softmax(n: int, form: str) -> None:
    x = torch.randn(4, 80) * 3
    args = {"x_ptr": x, "y_ptr": torch.zeros(4, 80), "stride": 80, "n": n}
    kernel = launch(kernels.online_softmax, form, args, 4, BLOCK=32)
    torch.testing.assert_close(args["y_ptr"][:, :n], x[:, :n].softmax(1))
    assert not args["y_ptr"][:, n:].any()
    assert [op.attrs for op in loops(kernel)] == [{}, {"num_stages": 2}]


@form
def test_layer_norm(form: str) -> None:
    x, w, n = torch.randn(4, 50), torch.randn(50), 50
    args = {"x_ptr": x, "w_ptr": w, "y_ptr": torch.zeros(4, 50), "stride": 50}
    args |= {"n": n, "eps": 1e-5}
    launch(kernels.layer_norm, form, args, 4, BLOCK=16)
    expected = torch.nn.functional.layer_norm(x, (n,), w)
    torch.testing.assert_close(args["y_ptr"], expected)


@form
@pytest.mark.parametrize("dtype", TYPES)
def test_matmul(dtype: Any, form: str) -> None:
    m, n, k = 50, 37, 45
    a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    args = {"a_ptr": a, "b_ptr": b, "c_ptr": torch.zeros(m, n, dtype=dtype)}
    args |= {"M": m, "N": n, "K": k, "sam": k, "sak": 1, "sbk": n, "sbn": 1}
    args |= {"scm": n, "scn": 1}
    tiles = {"BM": 16, "BN": 16, "BK": 16, "GROUP": 3}
    kernel = launch(kernels.matmul, form, args, 12, **tiles)
    torch.testing.assert_close(args["c_ptr"], (a.double() @ b.double()).to(dtype))
    (loop,) = loops(kernel)
    assert loop.attrs == {"num_stages": 3}
    offsets = [] if form == "closed" else ["i64", "i64"]
    assert carried(kernel) == [[*offsets, "f32[16,16]"]]


def test_a_product_of_batches() -> None:
    x = torch.randn(4, 16, 16)
    args = {"x_ptr": x, "y_ptr": torch.zeros(4, 16, 16)}
    kernel = launch(kernels.batched, "lifted", args)
    torch.testing.assert_close(args["y_ptr"], x @ x.mT)
    (dot,) = [op for op in walk(kernel.body) if op.opcode == "dot"]
    assert dot.attrs == {"precision": "ieee"}


@form
@pytest.mark.skipif(VERSION >= (3, 9), reason="Triton 3.9 has no block pointers")
def test_block_pointers(form: str) -> None:
    x = torch.randn(24, 24)
    args = {"x_ptr": x, "y_ptr": torch.zeros(16, 16), "n": 24}
    kernel = launch(kernels.block_pointers, form, args, BLOCK=16)
    expected = x[:16, :16].clone()
    expected[:, :8] += x[:16, 16:]
    torch.testing.assert_close(args["y_ptr"], expected)
    if form == "closed":
        assert carried(kernel) == [["f32[16,16]"]]


@form
def test_a_loop_after_an_early_return(form: str) -> None:
    args = {"x_ptr": torch.randn(4), "y_ptr": torch.zeros(4), "n": 3}
    launch(kernels.after_return, form, args)
    assert torch.equal(args["y_ptr"][:3], args["x_ptr"][:3] + 1)


def test_static_ranges_are_unrolled() -> None:
    args = {"x_ptr": torch.randn(4), "y_ptr": torch.zeros(4)}
    assert not loops(launch(kernels.unrolled, "lifted", args, N=4))
    assert torch.equal(args["y_ptr"], args["x_ptr"] + 1)


def test_a_loop_over_64_bits() -> None:
    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i64"}
    kernel = capture(kernels.wide_loop, signature, {})
    (loop,) = loops(kernel)
    variable = loop.regions[0].args[0]
    assert (str(variable.type), variable.name) == ("i64", "i")
    args = {"x_ptr": torch.arange(6.0), "y_ptr": torch.zeros(1), "n": 6}
    run(kernel, args, (1,))
    assert args["y_ptr"].item() == 15


def test_hints_to_the_compiler_are_known() -> None:
    args = {"x_ptr": torch.zeros(4), "y_ptr": torch.zeros(4), "n": 4}
    kernel = launch(kernels.hints, "lifted", args)
    assert [loop.attrs for loop in loops(kernel)] == [{"num_stages": 4}]
    assert args["y_ptr"].tolist() == [1] * 4


# -- text --


FOR = "scf.for %i = %n to %n step %n"


def test_a_loop_that_carries_nothing() -> None:
    body = f"{FOR} : i32 {{\ntt.store %x_ptr, %a : !tt.ptr<f32>\n}}"
    assert ops(body) == [
        "for(%n, %n, %n) {",
        "(%5: i32)",
        "store(%x_ptr, %a)",
        "yield()",
        "}",
    ]


def test_an_unknown_attribute_of_a_loop_is_an_error() -> None:
    for body in (
        f"{FOR} : i32 {{\n}} {{tt.new = 1 : i32}}",
        f"{FOR.replace('for', 'for unsigned')} : i32 {{\n}}",
    ):
        with pytest.raises(
            CaptureError, match=r"`scf.for` has an attribute `\S+` that"
        ):
            lift(body)


def test_a_loop_over_16_bits_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="a loop over values of type `i16`"):
        lift(f"{FOR.replace('%n', '%m')} : i16 {{\n}}", m="i16")


def test_dot_keeps_its_precision() -> None:
    matrix = "tensor<16x16xf32>"
    line = f"%d = tt.dot %m, %m, %m{{}} : {matrix} * {matrix} -> {matrix}"
    for printed, kept in (
        (", inputPrecision = bf16x3", "bf16x3"),
        (", inputPrecision = TF32x3", "tf32x3"),
        (", inputPrecision = tf32 {maxNumImpreciseAcc = 0 : i32}", "tf32"),
        ("", "ieee"),
    ):
        splat = f"%m = tt.splat %a : f32 -> {matrix}\n"
        (_, dot) = ops(splat + line.format(printed))
        assert f"<precision='{kept}'>" in dot


def test_dot_of_two_types_is_refused() -> None:
    body = """
    %s = arith.truncf %a : f32 to f16
    %m = tt.splat %a : f32 -> tensor<16x16xf32>
    %h = tt.splat %s : f16 -> tensor<16x16xf16>
    %d = tt.dot %m, %h, %m : tensor<16x16xf32> * tensor<16x16xf16> -> tensor<16x16xf32>
    """
    with pytest.raises(UnsupportedError, match=r"`tl\.dot` of `f32` by `f16`"):
        lift(body)
