"""Random programs: values, first and second derivatives, in both modes, must be PyTorch's.

A program is a list of steps over a growing list of float64 tensors. Each step names its operands
by number, modulo how many fit, so that any drawn program is valid; steps whose operands do not
fit are skipped in the same way for both libraries.
"""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rushlight
from oracle.harness import LIBRARIES, from_numpy, to_numpy

LIMIT = 4_000

# Smooth everywhere on the reals and of moderate growth: no kinks, no poles.
UNARY = {
    "sin": lambda L, a: a.sin(),
    "cos": lambda L, a: a.cos(),
    "tanh": lambda L, a: a.tanh(),
    "sigmoid": lambda L, a: a.sigmoid(),
    "atan": lambda L, a: a.atan(),
    "erf": lambda L, a: a.erf(),
    "exp": lambda L, a: (a.tanh()).exp(),
    "log": lambda L, a: (a * a + 1).log(),
    "sqrt": lambda L, a: (a * a + 1).sqrt(),
    "reciprocal": lambda L, a: (a * a + 1).reciprocal(),
    "square": lambda L, a: a.tanh().square(),
    "pow": lambda L, a: (a * a + 1) ** 1.5 / (a * a + 2),
    "neg": lambda L, a: -a,
    "scale": lambda L, a: 0.5 * a + 1.25,
    "softplus": lambda L, a: L.nn.functional.softplus(a),
    "gelu": lambda L, a: L.nn.functional.gelu(a),
    "silu": lambda L, a: L.nn.functional.silu(a),
}
BINARY = {
    "add": lambda L, a, b: a + b,
    "sub": lambda L, a, b: a - b,
    "mul": lambda L, a, b: a.tanh() * b.sin(),
    "div": lambda L, a, b: a / (b * b + 1),
    "pow": lambda L, a, b: (a * a + 1) ** b.tanh(),
    "atan2": lambda L, a, b: L.atan2(a, b * b + 1),
    "where": lambda L, a, b: L.where(L.ones_like(a, dtype=L.bool), a, b),
    "lerp": lambda L, a, b: L.lerp(a, b + 0 * a, 0.3),
    "addcmul": lambda L, a, b: L.addcmul(a, b, b.cos(), value=0.1),
}
REDUCTIONS = {
    "sum": lambda L, a, d, k: a.sum(d, keepdim=k),
    "mean": lambda L, a, d, k: a.mean(d, keepdim=k),
    "logsumexp": lambda L, a, d, k: a.logsumexp(d, keepdim=k),
    "var": lambda L, a, d, k: a.var(d, unbiased=False, keepdim=k),
    "norm": lambda L, a, d, k: (a + 3).norm(dim=d, keepdim=k),
    "prod": lambda L, a, d, k: a.tanh().prod(d, keepdim=k),
    "softmax": lambda L, a, d, k: a.softmax(d),
    "log_softmax": lambda L, a, d, k: a.log_softmax(d),
    "cumsum": lambda L, a, d, k: a.cumsum(d) * 0.5,
    "flip": lambda L, a, d, k: a.flip(d),
    "roll": lambda L, a, d, k: a.roll(1, d),
    "narrow": lambda L, a, d, k: a.narrow(d, 0, 1),
}
VIEWS = {
    "transpose": lambda L, a, n: a.transpose(0, -1) if a.ndim else a,
    "flatten": lambda L, a, n: a.reshape(-1),
    "unsqueeze": lambda L, a, n: a.unsqueeze(n % (a.ndim + 1)) if a.ndim < 4 else a,
    "squeeze": lambda L, a, n: a.squeeze(),
    "slice": lambda L, a, n: a[n % a.shape[0] :] if a.ndim else a,
    "step": lambda L, a, n: a[::2] if a.ndim else a,
    "select": lambda L, a, n: a[n % a.shape[0]] if a.ndim else a,
    "expand": lambda L, a, n: a.expand(2, *a.shape) if a.ndim < 3 else a,
    "index": lambda L, a, n: a[[n % a.shape[0], 0]] if a.ndim else a,
    "last": lambda L, a, n: a[..., n % a.shape[-1], None] if a.ndim else a,
    "diagonal": lambda L, a, n: a.diagonal() if a.ndim == 2 else a,
    "split": lambda L, a, n: a.split(1)[0] if a.ndim else a,
    "repeat": lambda L, a, n: a.repeat(2) if a.ndim == 1 else a,
    "tril": lambda L, a, n: a.tril() if a.ndim >= 2 else a,
    "clone": lambda L, a, n: a.clone(),
    "permute": lambda L, a, n: a.permute(tuple(reversed(range(a.ndim)))),
}


def add_in_place(L, t, b, n):
    t.add_(b.sum())


def scale_in_place(L, t, b, n):
    t.mul_(0.75)


def write_row(L, t, b, n):
    if t.ndim:
        t[n % t.shape[0]] = b.mean().tanh()


def write_slice(L, t, b, n):
    if t.ndim:
        t[n % t.shape[0] :] += b.sum().sin()


def write_indices(L, t, b, n):
    if t.ndim:
        t[[0, n % t.shape[0]]] = b.sum().cos()


def write_through_view(L, t, b, n):
    if t.is_contiguous():
        t.view(-1)[:1].mul_(b.mean())


IN_PLACE = [
    add_in_place,
    scale_in_place,
    write_row,
    write_slice,
    write_indices,
    write_through_view,
]


def fits(a, b):
    """Whether the shapes broadcast, and how large the result would be."""
    try:
        return int(np.prod(np.broadcast_shapes(tuple(a.shape), tuple(b.shape)))) <= LIMIT
    except ValueError:
        return False


def step_result(L, tensors, kind, name, i, j, n, flag):
    a, b = tensors[i % len(tensors)], tensors[j % len(tensors)]
    if kind == "unary":
        return UNARY[name](L, a)
    if kind == "binary":
        return BINARY[name](L, a, b) if fits(a, b) else None
    if kind == "reduction":
        return (
            REDUCTIONS[name](L, a, n % a.ndim - (a.ndim if flag else 0), flag) if a.ndim else None
        )
    if kind == "view":
        return VIEWS[name](L, a, n)
    if kind == "in_place":
        t = a.clone()
        name(L, t, b, n)
        return t
    if kind == "matmul":
        inner = a.ndim in (1, 2) and b.ndim in (1, 2) and a.shape[-1] == b.shape[0]
        return (a @ b).tanh() if inner else None
    same = a.ndim and a.shape == b.shape and a.numel() <= LIMIT // 2
    if not same:
        return None
    return L.cat([a, b], n % a.ndim) if flag else L.stack([a, b], n % (a.ndim + 1))


KINDS = st.one_of(
    st.tuples(st.just("unary"), st.sampled_from(sorted(UNARY))),
    st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY))),
    st.tuples(st.just("binary"), st.sampled_from(sorted(BINARY))),
    st.tuples(st.just("reduction"), st.sampled_from(sorted(REDUCTIONS))),
    st.tuples(st.just("view"), st.sampled_from(sorted(VIEWS))),
    st.tuples(st.just("in_place"), st.sampled_from(IN_PLACE)),
    st.tuples(st.just("matmul"), st.just("")),
    st.tuples(st.just("join"), st.just("")),
)
NUMBER = st.integers(0, 7)
STEPS = st.lists(st.tuples(KINDS, NUMBER, NUMBER, NUMBER, st.booleans()), min_size=5, max_size=30)
SHAPES = st.lists(
    st.sampled_from([(), (3,), (2, 3), (3, 3), (3, 2), (1, 3), (2, 1, 3), (1,)]),
    min_size=2,
    max_size=3,
)


def run_steps(L, leaves, steps):
    tensors = list(leaves)
    for (kind, name), i, j, n, flag in steps:
        result = step_result(L, tensors, kind, name, i, j, n, flag)
        if result is not None and 0 < result.numel() <= LIMIT:
            tensors.append(result)
    return tensors


def run_program(L, shapes, steps, seed, second_order):
    generator = np.random.default_rng(seed)
    leaves = [from_numpy(L, generator.standard_normal(shape), True) for shape in shapes]
    tensors = run_steps(L, leaves, steps)
    loss = summed(tensors)
    grads = L.autograd.grad(loss, leaves, create_graph=second_order)
    found = [loss, *tensors, *grads]
    if second_order:
        penalty = sum((g * g).sum() for g in grads)
        found += L.autograd.grad(penalty, leaves)
    return [to_numpy(t) for t in found]


def summed(tensors):
    return sum((t.tanh() * (k + 1)).sum() for k, t in enumerate(tensors))


def run_forward(L, shapes, steps, seed):
    """The tangents of all results, and the Hessian of their sum times the same direction."""
    forward_ad, grad = L.autograd.forward_ad, L.autograd.grad
    draw = np.random.default_rng(seed).standard_normal
    leaves = [from_numpy(L, draw(shape), True) for shape in shapes]
    directions = [from_numpy(L, draw(shape)) for shape in shapes]
    with forward_ad.dual_level():
        duals = map(forward_ad.make_dual, leaves, directions)
        tensors = run_steps(L, duals, steps)
        found = [forward_ad.unpack_dual(t).tangent for t in tensors]
        if L is rushlight:
            grads = grad(summed(tensors), leaves)
            found += [forward_ad.unpack_dual(g).tangent for g in grads]
    if L is torch:  # which has not every backward formula in forward mode
        grads = grad(summed(run_steps(L, leaves, steps)), leaves, create_graph=True)
        found += grad(grads, leaves, directions)
    return [to_numpy(t) for t in found]


def assert_same_numbers(shapes, steps, seed, second_order):
    assert_close(*(run_program(L, shapes, steps, seed, second_order) for L in LIBRARIES))


def assert_close(ours, theirs):
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        scale = max(1.0, float(np.max(np.abs(b), initial=0.0)))
        np.testing.assert_allclose(a / scale, b / scale, rtol=1e-8, atol=1e-9)


CONFIGURATION = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
}


@settings(max_examples=200, **CONFIGURATION)
@given(SHAPES, STEPS, st.integers(0, 1000))
def test_values_and_gradients(shapes, steps, seed):
    assert_same_numbers(shapes, steps, seed, second_order=False)


@settings(max_examples=100, **CONFIGURATION)
@given(SHAPES, STEPS, st.integers(0, 1000))
def test_second_order(shapes, steps, seed):
    assert_same_numbers(shapes, steps, seed, second_order=True)


def test_every_kind_of_step_is_reachable():
    """Each named step runs on some operand; a step that never fits would test nothing."""
    for table, kind in ((UNARY, "unary"), (BINARY, "binary"), (REDUCTIONS, "reduction")):
        for name in table:
            steps = [((kind, name), 0, 1, 1, False)]
            assert_same_numbers([(2, 3), (2, 3)], steps, 0, second_order=True)
    for name in VIEWS:
        for shape in ((3, 3), (3,)):
            assert_same_numbers([shape, (3,)], [(("view", name), 0, 0, 1, True)], 0, True)
    for write in IN_PLACE:
        assert_same_numbers([(2, 3), (3,)], [(("in_place", write), 0, 1, 1, True)], 0, True)
    for flag in (True, False):
        assert_same_numbers([(3, 3), (3, 3)], [(("join", ""), 0, 1, 1, flag)], 0, True)
        assert_same_numbers([(3, 3), (3,)], [(("matmul", ""), 0, 1, 1, flag)], 0, True)


@pytest.mark.filterwarnings("ignore")  # PyTorch's, when it first makes a dual
@settings(max_examples=100, **CONFIGURATION)
@given(SHAPES, STEPS, st.integers(0, 1000))
def test_tangents_and_forward_over_reverse(shapes, steps, seed):
    # A place that is written twice counts twice in a gradient, which then is none.
    steps = [step for step in steps if step[0][1] is not write_indices]
    assert_close(*(run_forward(L, shapes, steps, seed) for L in LIBRARIES))
