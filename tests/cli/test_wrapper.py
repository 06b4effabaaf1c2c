"""`undertow derive --wrapper`: the file is run by Triton's interpreter, or on a GPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

NORM = """
import torch
import norm_bwd

device = "DEVICE"
torch.manual_seed(0)
x = torch.randn(5, 11, device=device)[:, :9].requires_grad_()
w = torch.randn(9, device=device, requires_grad=True)
y = torch.empty(5, 9, device=device)
y = norm_bwd.RmsNorm.apply((5,), x, w, y, STRIDE, 9, 1e-6)
a, b = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
want = a * torch.rsqrt((a * a).mean(-1, keepdim=True) + 1e-6) * b
torch.testing.assert_close(y.double(), want, rtol=1e-5, atol=1e-5)
for g in (
    torch.randn(9, 5, device=device).t(),
    torch.ones((), device=device).expand(5, 9),
    torch.randn(5, 18, device=device)[:, ::2],
):
    got = torch.autograd.grad(y, (x, w), g, retain_graph=True)
    expected = torch.autograd.grad(want, (a, b), g.double(), retain_graph=True)
    for one, other in zip(got, expected):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)
(d_x,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
assert not d_x.requires_grad
try:
    torch.autograd.grad(y.sum(), x, create_graph=True)
except RuntimeError as error:
    assert "create_graph=True" in str(error)
else:
    raise AssertionError("it was differentiated twice")
print("right")
"""


def run(script: str, folder: Path, *, interpret: bool) -> str:
    """The output of a script in `folder`; stderr if it fails."""
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("TRITON_INTERPRET", None)
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    return done.stdout if done.returncode == 0 else done.stderr


def norm(undertow, tmp_path: Path) -> None:
    """Writes a kernel with separate strides of x and y, and its wrapper."""
    source = (Path(__file__).parent / "kernels_norms.py").read_text()
    source = source.replace("y_ptr + row * stride", "y_ptr + row * n_cols")
    (tmp_path / "norm.py").write_text(source)
    out = tmp_path / "norm_bwd.py"
    words = ("-c", "BLOCK=16", "--wrapper", "--out", str(out))
    result = undertow("derive", f"{tmp_path}/norm.py::rms_norm", *words)
    assert result.exit_code == 0, result.stderr


def test_gradients_in_the_interpreter(undertow, tmp_path: Path) -> None:
    norm(undertow, tmp_path)
    script = NORM.replace("DEVICE", "cpu").replace("STRIDE", "11")
    assert run(script, tmp_path, interpret=True) == "right\n"


def test_conditions_are_tested_at_launch(undertow, tmp_path: Path) -> None:
    norm(undertow, tmp_path)
    script = NORM.replace("DEVICE", "cpu").replace("STRIDE", "1")
    script = script.replace("torch.testing.assert_close(y.double(), want", "dict(y=y")
    error = run(script, tmp_path, interpret=True)
    assert "ValueError: d_x_ptr is stored plainly only if stride >= n_cols" in error


@pytest.mark.gpu
def test_gradients_on_a_gpu(undertow, tmp_path: Path) -> None:
    norm(undertow, tmp_path)
    script = NORM.replace("DEVICE", "cuda").replace("STRIDE", "11")
    assert run(script, tmp_path, interpret=False) == "right\n"


def test_helpers_and_constants_come_along(undertow, tmp_path: Path) -> None:
    out = tmp_path / "flow.py"
    words = ("--wrapper", "--out", str(out))
    assert undertow("derive", "kernels_many.py::by_flow", *words).exit_code == 0
    text = out.read_text()
    assert text.startswith(
        "import torch\nimport triton\nimport triton.language as tl\n"
    )
    assert "SCALE = tl.constexpr(2.0)" in text
    assert "def square(v):" in text
    assert "class ByFlow(torch.autograd.Function):" in text
    script = (
        "import torch, flow\n"
        "x = torch.randn(40, requires_grad=True)\n"
        "y = flow.ByFlow.apply((2,), x, torch.empty(40), 0, 40)\n"
        "y.backward(torch.arange(40.0))\n"
        "torch.testing.assert_close(x.grad, 4 * x.detach() * torch.arange(40.0))\n"
        "print('right')\n"
    )
    assert run(script, tmp_path, interpret=True) == "right\n"


def test_it_is_formatted(undertow, tmp_path: Path) -> None:
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("needs ruff")
    norm(undertow, tmp_path)
    for words in (["format", "--check"], ["check"]):
        command = [sys.executable, "-m", "ruff", *words, "--isolated", "norm_bwd.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout


SUMS = """
import torch
import scatter_bwd

x = torch.randn(20, requires_grad=True)
old = torch.randn(6, requires_grad=True)
index = torch.randint(5, (20,), dtype=torch.int32)
y = scatter_bwd.ScatterAdd.apply((2,), x, index, old * 5, 20)
g = torch.randn(12)[::2]
y.backward(g)
torch.testing.assert_close(x.grad, 2 * x.detach() * g[index])
torch.testing.assert_close(old.grad, 5 * g)
print("right")
"""


def test_additions_pass_the_cotangent_on(undertow, tmp_path: Path) -> None:
    source = Path(__file__).parent / "kernels_odd.py"
    types = "x_ptr:*fp32,index_ptr:*i32,y_ptr:*fp32,n:i32"
    words = ("--signature", types, "-c", "BLOCK=16", "--wrapper", "--out")
    result = undertow(
        "derive", f"{source}::scatter_add", *words, f"{tmp_path}/scatter_bwd.py"
    )
    assert result.exit_code == 0, result.stderr
    assert run(SUMS, tmp_path, interpret=True) == "right\n"


def test_what_cannot_be_copied(undertow, tmp_path: Path) -> None:
    (tmp_path / "odd.py").write_text(
        "import triton\nimport triton.language as tl\n\nSIZES = [16, 32]\n\n\n"
        "@triton.jit\n"
        "def odd(x_ptr, y_ptr, BLOCK: tl.constexpr = len(SIZES)):\n"
        "    at = tl.arange(0, BLOCK)\n"
        "    tl.store(y_ptr + at, tl.exp(tl.load(x_ptr + at)))\n"
    )
    result = undertow("derive", f"{tmp_path}/odd.py", "--wrapper")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: `odd` refers to `SIZES`, which cannot be copied into a file\n"
        "hint: derive without --wrapper, and launch the backward from your own module\n"
    )


def test_overwritten_inputs_are_refused(undertow, tmp_path: Path) -> None:
    (tmp_path / "place.py").write_text(
        "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"
        "def double(x_ptr, BLOCK: tl.constexpr = 16):\n"
        "    at = tl.arange(0, BLOCK)\n"
        "    tl.store(x_ptr + at, 2.0 * tl.load(x_ptr + at))\n"
    )
    result = undertow("derive", f"{tmp_path}/place.py", "--wrapper")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: `double` reads and overwrites `x_ptr`: not with --wrapper\n"
        "hint: wrap the kernel by undertow.differentiable instead\n"
    )


MEETING = """
import triton
import triton.language as tl


@triton.jit
def scatter(x_ptr, index_ptr, y_ptr, dim, BLOCK: tl.constexpr = 16):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * BLOCK + cols)
    index = tl.load(index_ptr + row)
    tl.store(y_ptr + index * dim + cols, x * x)


@triton.jit
def rows(x_ptr, y_ptr, down, across, n, BLOCK: tl.constexpr = 16):
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * BLOCK + cols, mask=cols < n)
    tl.store(y_ptr + row * down + cols * across, x * x, mask=cols < n)
"""


def test_stores_that_may_meet_are_refused(undertow, tmp_path: Path) -> None:
    (tmp_path / "meet.py").write_text(MEETING)
    words = ("--signature", "index_ptr:*i64", "--wrapper")
    result = undertow("derive", f"{tmp_path}/meet.py::scatter", *words)
    assert result.exit_code == 2
    assert result.stderr == (
        "error: `scatter` may write an element of `y_ptr` several times: not with "
        "--wrapper\n"
        "  = the address depends on `index`, a value of each program\n"
        "hint: if indices never repeat, say so by --unique; else wrap the kernel by "
        "undertow.differentiable instead\n"
    )
    promised = undertow(
        "derive", f"{tmp_path}/meet.py::scatter", *words, "--unique", "index_ptr"
    )
    assert promised.exit_code == 0
    assert "if not _apart((1, 16), (dim, 4611686018427387904)):" in promised.stdout


ROWS = """
import torch
import rows_bwd

x = torch.randn(4, 16, requires_grad=True)
for shape, strides in (((4, 16), (16, 1)), ((4, 16), (1, 4)), ((4, 16), (0, 1)),
                       ((4, 16), (4, 1))):
    y = torch.empty(80)
    try:
        y = rows_bwd.Rows.apply((4,), x, y, *strides, 9)
        (got,) = torch.autograd.grad(y.as_strided((4, 9), strides).sum(), x)
        torch.testing.assert_close(got[:, :9], 2 * x.detach()[:, :9])
        print("right")
    except ValueError as error:
        print(error)
"""


def test_what_keeps_stores_apart_is_tested(undertow, tmp_path: Path) -> None:
    """In whichever order the strides tell rows and columns apart."""
    (tmp_path / "meet.py").write_text(MEETING)
    out = tmp_path / "rows_bwd.py"
    result = undertow(
        "derive", f"{tmp_path}/meet.py::rows", "--wrapper", "--out", str(out)
    )
    assert result.exit_code == 0, result.stderr
    meets = "an element of y_ptr is written several times"
    assert run(ROWS, tmp_path, interpret=True).splitlines() == [
        "right",
        "right",
        meets,
        meets,
    ]


RECURRENCES = """
import triton
import triton.language as tl


@triton.jit
def states(x_ptr, y_ptr, T, n, BLOCK: tl.constexpr = 16):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.zeros((BLOCK,), tl.float32)
    for t in range(T):
        x = tl.load(x_ptr + t * n + cols, mask=cols < n)
        state = tl.sin(state + x)
        tl.store(y_ptr + t * n + cols, state, mask=cols < n)


@triton.jit
def ragged(x_ptr, y_ptr, T, BLOCK: tl.constexpr = 16):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    state = tl.load(x_ptr + at)
    for _ in range(tl.program_id(0), T):
        state = tl.sin(state)
    tl.store(y_ptr + at, state)
"""

STATES = """
import torch
import states_bwd

for T in (0, 1, 3):
    x = torch.randn(T, 20, requires_grad=True)
    state, rows = torch.zeros(20), []
    for row in x:
        state = torch.sin(state + row)
        rows.append(state)
    want = torch.stack(rows) if rows else x * 0
    y = states_bwd.States.apply((2,), x, torch.empty(T, 20), T, 20)
    for g in (
        torch.randn(T, 20),
        torch.complex(torch.randn(T, 20), torch.randn(T, 20)).conj().imag,
        torch._efficientzerotensor((T, 20)),
    ):
        got = torch.autograd.grad(y, x, g, retain_graph=True)
        expected = torch.autograd.grad(want, x, g.clone(), retain_graph=True)
        torch.testing.assert_close(got, expected)
negated = torch.complex(x, x).conj().imag
try:
    states_bwd.States.apply((2,), negated, torch.empty(T, 20), T, 20)
except AssertionError:
    print("right")
"""


def test_a_tape_is_made_for_each_backward(undertow, tmp_path: Path) -> None:
    """And cotangents that are lazy are written out."""
    (tmp_path / "rec.py").write_text(RECURRENCES)
    out = tmp_path / "states_bwd.py"
    result = undertow(
        "derive", f"{tmp_path}/rec.py::states", "--wrapper", "--out", str(out)
    )
    assert result.exit_code == 0, result.stderr
    assert "        t_turns = max(1, T)\n" in out.read_text()
    assert run(STATES, tmp_path, interpret=True) == "right\n"


def test_a_tape_of_several_lengths_is_refused(undertow, tmp_path: Path) -> None:
    (tmp_path / "rec.py").write_text(RECURRENCES)
    result = undertow("derive", f"{tmp_path}/rec.py::ragged", "--wrapper")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: `ragged` needs a tape of `state`, whose length is not the same in each "
        "program and turn: not with --wrapper\n"
        "hint: wrap the kernel by undertow.differentiable instead\n"
    )
