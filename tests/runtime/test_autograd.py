"""Gradients of launches: what is overwritten, saved, shared, and what is refused."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from undertow import LaunchError, UnsupportedError

from .comparison import close, leaf
from .kernels import (
    fill,
    gather,
    launch_rows,
    launch_scale,
    parts,
    rope,
    rows,
    softmax,
)

N = 10


# -- outputs that are views --


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.zeros(2 * N, device=d)[::2],
        lambda d: torch.empty(16, device=d)[3 : 3 + N],
        lambda d: torch.empty(2, N // 2, device=d).view(-1),
    ],
    ids=["step", "part", "view"],
)
def test_a_view_as_the_only_output(make: Callable[[str], Tensor], device: str):
    x, w = leaf(N, 1, device=device), leaf(1, device=device)
    y, ct = make(device), torch.randn(N, device=device)
    rows[(N,)](x, w, y, 1, 1, y.stride(0), 1, 1, BLOCK=1)
    y.backward(ct)
    close(y.detach(), x.detach().sin()[:, 0] * w.detach())
    close(x.grad, (ct * x.detach()[:, 0].cos() * w.detach())[:, None])
    assert y._is_view()


def launch_parts(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    seen = torch.zeros(N, dtype=torch.int32, device=x.device)
    parts[(1,)](x, a, b, seen, N, BLOCK=16)
    return seen


def test_one_of_several_outputs_is_a_view(device: str):
    x, ct = leaf(N, device=device), torch.randn(N, device=device)
    a, b = torch.zeros(2 * N, device=device)[:N], torch.zeros(N, device=device)
    seen = launch_parts(x, a, b)
    a.backward(ct, retain_graph=True)
    close(x.grad, 2 * ct)
    x.grad = None
    b.backward(ct)
    close(x.grad, 2 * x.detach() * ct)
    assert torch.equal(seen.bool(), x.detach() > 0)
    assert not seen.requires_grad


def test_several_outputs_are_views_of_one_tensor(device: str):
    x, ct = leaf(N, device=device), torch.randn(2, N, device=device)
    both = torch.zeros(2, N, device=device)
    launch_parts(x, both[0], both[1])
    both.backward(ct)
    close(x.grad, 2 * ct[0] + 2 * x.detach() * ct[1])


def test_a_view_that_pytorch_forbids_to_overwrite(device: str):
    with torch.no_grad():
        y = torch.zeros(2 * N, device=device)[:N]
    with pytest.raises(RuntimeError, match="created in no_grad mode"):
        fill[(1,)](leaf(N, device=device), y, 0, N, BLOCK=16)
    a, b = torch.zeros(2, N, device=device).unbind()
    with pytest.raises(RuntimeError, match="returns multiple views"):
        launch_parts(leaf(N, device=device), a, b)
    assert not y.any()
    assert not a.any()


# -- outputs that have a history --


@pytest.mark.parametrize(("begin", "end"), [(0, N), (3, 7), (4, 4)])
def test_the_old_value_has_a_gradient_where_it_stays(begin: int, end: int, device: str):
    h, x = leaf(N, device=device), leaf(N, device=device)
    y, ct = h * 5, torch.randn(N, device=device)
    fill[(1,)](x, y, begin, end, BLOCK=16)
    written = torch.zeros(N, device=device)
    written[begin:end] = 1
    y.backward(ct)
    close(x.grad, 3 * ct * written)
    close(h.grad, 5 * ct * (1 - written))


def test_only_the_old_value_needs_a_gradient():
    h, ct = leaf(N), torch.randn(N)
    y = h * 5
    fill[(1,)](torch.randn(N), y, 3, 7, BLOCK=16)
    y.backward(ct)
    ct[3:7] = 0
    close(h.grad, 5 * ct)


def test_a_view_of_a_tensor_with_history(device: str):
    h, x = leaf(20, device=device), leaf(N, device=device)
    whole, ct = h * 5, torch.randn(20, device=device)
    fill[(1,)](x, whole[5:15], 3, 7, BLOCK=16)
    whole.backward(ct)
    expected = 5 * ct
    expected[8:12] = 0
    close(h.grad, expected)
    expected = torch.zeros(N, device=device)
    expected[3:7] = 3 * ct[8:12]
    close(x.grad, expected)


def test_an_output_is_a_leaf(device: str):
    y = leaf(N, device=device)
    before = y.detach().clone()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        fill[(1,)](leaf(N, device=device), y, 0, N, BLOCK=16)
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        fill[(1,)](leaf(N, device=device), y[:5], 0, 5, BLOCK=16)
    assert torch.equal(y.detach(), before)


# -- in place --


def rotated(q: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = q.chunk(2, 1)
    return torch.cat([a * c - b * s, b * c + a * s], 1)


def test_in_place(device: str):
    q = leaf(4, 20, device=device)
    c, s = torch.randn(2, 5, device=device)
    ct = torch.randn(4, 20, device=device)
    copy = q * 1
    rope[(4,)](copy[:, :10], c, s, 20, 5, BLOCK=8)
    copy.backward(ct)
    expected = torch.cat([rotated(q[:, :10], c, s), q[:, 10:]], 1)
    close(q.grad, torch.autograd.grad(expected, q, ct)[0])


def test_in_place_on_a_leaf():
    q = leaf(4, 10)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        rope[(4,)](q, torch.randn(5), torch.randn(5), 10, 5, BLOCK=8)


def test_an_input_is_the_output():
    h, ct = leaf(N), torch.randn(N)
    z = h * 2
    fill[(1,)](z, z, 3, 7, BLOCK=16)
    z.backward(ct)
    ct[3:7] *= 3
    close(h.grad, 2 * ct)


def test_an_input_is_the_output_and_its_old_value_is_needed():
    z = leaf(N) * 1
    before = z.detach().clone()
    with pytest.raises(UnsupportedError, match="its old value is needed"):
        launch_scale(z, leaf(N), z)
    assert torch.equal(z.detach(), before)


# -- arguments that share memory --


def test_one_tensor_for_two_inputs(device: str):
    x, ct = leaf(N, device=device), torch.randn(N, device=device)
    launch_scale(x, x, torch.zeros(N, device=device)).backward(ct)
    close(x.grad, ct * (2 * x.detach() + x.detach().exp()))


@pytest.mark.parametrize(
    "pair",
    [lambda z: (z[:N], z[5 : 5 + N]), lambda z: (z[:N], z[:N].detach())],
    ids=["overlap", "detached"],
)
def test_shared_memory_is_refused(pair: Callable[[Tensor], tuple[Tensor, Tensor]]):
    z = leaf(2 * N) * 1
    before = z.detach().clone()
    with pytest.raises(LaunchError, match="`y_ptr` is written, and shares memory"):
        fill[(1,)](*pair(z), 0, N, BLOCK=16)
    assert torch.equal(z.detach(), before)


def test_interleaved_views(device: str):
    q = leaf(2 * N, device=device)
    z = q * 1
    one = torch.ones(1, device=device)
    rows[(N,)](z[::2], one, z[1::2], 2, 1, 2, 1, 1, BLOCK=1)
    z.sum().backward()
    expected = torch.zeros(2 * N, device=device)
    expected[::2] = 1 + q.detach()[::2].cos()
    close(q.grad, expected)


# -- layouts of inputs --


@pytest.mark.parametrize(
    "view",
    [
        lambda b: b[:],
        lambda b: b.t(),
        lambda b: b[1:, 2:7],
        lambda b: b[::2, ::3],
        lambda b: b.view(-1)[5:45].view(5, 8),
        lambda b: b[:1].expand(6, 8),
        lambda b: b[:, :1].expand(6, 8),
        lambda b: b[:1, :1],
        lambda b: b[:0],
    ],
    ids="dense transposed sliced stepped offset wide tall single empty".split(),
)
def test_layouts_of_inputs(view: Callable[[Tensor], Tensor], device: str):
    b = leaf(6, 8, device=device)
    x = view(b)
    w, ct = leaf(x.shape[1], device=device), torch.randn(x.shape, device=device)
    y = launch_rows(x, w, torch.empty(x.shape, device=device))
    expected = torch.autograd.grad(x.sin() * w, (b, w), ct)
    for actual, e in zip(torch.autograd.grad(y, (b, w), ct), expected, strict=True):
        close(actual, e)


def test_elements_that_share_memory():
    w = leaf(4)
    with pytest.raises(LaunchError, match="elements of `y_ptr` share memory"):
        launch_rows(leaf(3, 4), w, torch.empty(1, 4).expand(3, 4))
    window = leaf(10).unfold(0, 4, 2)
    with pytest.raises(LaunchError, match="elements of `x_ptr` share memory"):
        launch_rows(window, w, torch.empty(4, 4))
    expanded = torch.randn(1, 4).expand(3, 4).requires_grad_()
    with pytest.raises(LaunchError, match="elements of the leaf `x_ptr` share memory"):
        launch_rows(expanded, w, torch.empty(3, 4))


def test_no_elements_and_no_programs(device: str):
    x, w = leaf(0, device=device), leaf(0, device=device)
    launch_scale(x, w, torch.empty(0, device=device)).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (0,)
    x, w, y = (leaf(N, device=device), leaf(N, device=device),
               torch.zeros(N, device=device))  # fmt: skip
    fill[(0,)](x, y, 0, N, BLOCK=16)
    y.sum().backward()
    close(x.grad, torch.zeros(N, device=device))


def test_scalars_without_dimensions(device: str):
    x, w = leaf(device=device), leaf(device=device)
    launch_scale(x, w, torch.empty((), device=device)).backward()
    close(x.grad, w.detach() + x.detach().exp())


# -- versions --


def test_versions_are_bumped(device: str):
    x, w, y = (torch.randn(N, device=device) for _ in range(3))
    launch_scale(x, w, y)
    assert (x._version, w._version) == (0, 0)
    assert y._version > 0
    after = y._version
    launch_scale(x.requires_grad_(), w, y)
    assert x._version == 0
    assert y._version > after


@pytest.mark.parametrize("grad", [False, True])
def test_what_another_node_saved_is_overwritten(grad: bool, device: str):
    p = leaf(N, device=device)
    z = p.exp()
    x = torch.randn(N, device=device, requires_grad=grad)
    with torch.set_grad_enabled(grad):
        launch_scale(x, torch.randn(N, device=device), z)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        (p.exp() + z).sum().backward() if grad else z.sum().backward()


def test_what_the_launch_saved_is_overwritten(device: str):
    x = leaf(N, device=device) * 1
    w = torch.randn(N, device=device)
    y = launch_scale(x, w, torch.zeros(N, device=device))
    x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_saved_tensors_that_a_hook_lays_out_anew(device: str):
    b, w = leaf(8, 6, device=device), leaf(8, device=device)
    ct = torch.randn(6, 8, device=device)
    with torch.autograd.graph.save_on_cpu():
        y = launch_rows(b.t(), w, torch.empty(6, 8, device=device))
    y.backward(ct)
    close(b.grad, (ct * b.detach().t().cos() * w.detach()).t())


def test_checkpoint():
    b, w, ct = leaf(8, 6), leaf(8), torch.randn(6, 8)

    def forward(t: Tensor) -> Tensor:
        return launch_rows(t.t(), w, torch.empty(6, 8))

    checkpoint(forward, b, use_reentrant=False).backward(ct)
    close(b.grad, (ct * b.detach().t().cos() * w.detach()).t())


# -- cotangents --


def node(device: str = "cpu") -> tuple[Tensor, Tensor, Tensor, Callable[..., None]]:
    x, w, ct = (
        leaf(N, device=device),
        leaf(N, device=device),
        torch.randn(N, device=device),
    )
    y = launch_scale(x, w, torch.zeros(N, device=device))
    slope = w.detach() + x.detach().exp()

    def check(given: Tensor, expected: Tensor) -> None:
        x.grad = None
        y.backward(given, retain_graph=True)
        close(x.grad, expected * slope)

    return x, y, ct, check


def test_cotangents_whose_memory_is_not_what_they_are_worth(device: str):
    _, _, ct, check = node(device)
    check(ct.double(), ct)
    negative = torch.complex(torch.zeros_like(ct), -ct).conj().imag
    assert negative.is_neg()
    check(negative, ct)
    check(torch._efficientzerotensor(N, device=device), torch.zeros_like(ct))


def test_sparse_cotangents_are_refused():
    _, y, ct, _ = node()
    with pytest.raises(LaunchError, match="sparse_coo reached `scale`"):
        y.backward(ct.to_sparse())


def test_many_cotangents_at_once_are_refused():
    x, y, ct, _ = node()
    many = torch.eye(ct.numel())
    with pytest.raises(LaunchError, match="backward of `scale` was asked for many"):
        torch.autograd.grad(y, x, many, is_grads_batched=True)
    pull = partial(torch.autograd.grad, y, x)
    with pytest.raises(LaunchError, match="backward of `scale` was asked for many"):
        torch.func.vmap(pull)(many)


def test_hooks_see_and_change_cotangents():
    x, y, ct, check = node()
    y.register_hook(lambda g: 2 * g)
    seen: list[Tensor] = []
    x.register_hook(seen.append)
    check(ct, 2 * ct)
    close(x.grad, seen[0])


def test_an_output_nobody_uses():
    x, a, b = leaf(N), torch.zeros(N), torch.zeros(N)
    launch_parts(x, a, b)
    ct = torch.randn(N)
    b.backward(ct)
    close(x.grad, 2 * x.detach() * ct)


def test_only_some_gradients_are_asked_for():
    x, w, ct = leaf(N), leaf(N), torch.randn(N)
    y = launch_scale(x, w, torch.zeros(N))
    (d_w,) = torch.autograd.grad(y, w, ct)
    close(d_w, x.detach() * ct)
    assert x.grad is None


def test_derivatives_of_derivatives_are_refused():
    x, w, ct = leaf(N), leaf(N), leaf(N)
    y = launch_scale(x, w, torch.zeros(N))
    (d_x,) = torch.autograd.grad(y, x, ct, create_graph=True)
    close(d_x, ct.detach() * (w + x.exp()).detach())
    with pytest.raises(LaunchError, match="cannot be differentiated"):
        d_x.sum().backward()


def test_a_gradient_that_depends_on_what_was_saved_is_not_differentiated():
    x, w = leaf(N).double(), leaf(N).double()
    y = launch_scale(x, w, torch.zeros(N, dtype=torch.float64))
    (d_x,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    assert d_x.requires_grad
    with pytest.raises(LaunchError, match="the backward of `scale` cannot be diff"):
        (d_x * d_x).sum().backward()

    def f(x: Tensor, w: Tensor) -> Tensor:
        return launch_scale(x, w, torch.zeros(N, dtype=torch.float64))

    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    with pytest.raises(LaunchError, match="cannot be differentiated"):
        torch.autograd.gradgradcheck(f, (x, w))
    f(x, w).sum().backward(create_graph=True)  # allowed, if it goes no further
    assert x.grad is not None
    close(x.grad.detach(), (w + x.exp()).detach())


def test_create_graph_through_a_checkpoint():
    x, w = leaf(N), leaf(N)
    y = checkpoint(lambda: launch_scale(x, w, torch.zeros(N)), use_reentrant=False)
    (d_x,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    close(d_x.detach(), (w + x.exp()).detach())
    with pytest.raises(LaunchError, match="cannot be differentiated"):
        d_x.sum().backward()


# -- determinism --


def test_deterministic_algorithms(device: str):
    x, ct = leaf(N, device=device), torch.randn(30, device=device)
    index = torch.randint(0, N, (30,), device=device)
    y = torch.zeros(30, device=device)
    gather[(1,)](x, index, y, 30, BLOCK=32)
    try:
        torch.use_deterministic_algorithms(True)
        with pytest.raises(LaunchError, match="`x_ptr` in `gather` is summed"):
            y.backward(ct, retain_graph=True)
        torch.use_deterministic_algorithms(True, warn_only=True)
        with pytest.warns(UserWarning, match="order is not deterministic"):
            y.backward(ct)
    finally:
        torch.use_deterministic_algorithms(False)
    slope = torch.zeros(N, device=device).index_add(0, index, ct)
    close(x.grad, slope * 2 * x.detach())


# -- memory --


def test_the_node_keeps_nothing_it_does_not_need():
    x, a, b = leaf(N) * 1, torch.zeros(N), torch.zeros(N)
    seen = launch_parts(x, a, b)
    gone = [weakref.ref(t) for t in (b, seen)]
    q = leaf(4, 10) * 1
    rope[(4,)](q, torch.randn(5), torch.randn(5), 10, 5, BLOCK=8)
    assert q.grad_fn is not None
    assert len(q.grad_fn.saved_tensors) == 2
    y = softmax_of(leaf(3, 7))
    gone.append(weakref.ref(y))
    gc.disable()
    try:
        del b, seen, y
        assert [r() for r in gone] == [None] * 3
    finally:
        gc.enable()


def softmax_of(x: Tensor) -> Tensor:
    y = torch.empty_like(x, requires_grad=False)
    softmax[(x.shape[0],)](x, y, x.stride(0), x.shape[1], BLOCK=8)
    return y
