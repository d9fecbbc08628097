"""The laws of forward mode, for every registered op: no op is named here."""

import re

import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD
from registry import ENTRIES, path, samples_of, tensor_parameters
from samples import Sample, function
from support import check
from test_ops import (
    DIFFERENTIABLE,
    GRADIENTS,
    differentiable_outputs,
    every,
    gradient_cases,
    has_derivative,
    ids,
    leaves,
    refuses,
    works,
)

every_op = pytest.mark.parametrize(
    "op", [*GRADIENTS, *DIFFERENTIABLE], ids=[*GRADIENTS, *ids(DIFFERENTIABLE)]
)


def direction(t, low, high):
    """Numbers of the shape of t, no two alike."""
    numbers = torch.linspace(low, high, t.numel(), dtype=torch.float64).reshape(t.shape)
    return (numbers * (1 - 0.5j)).to(t.dtype) if t.is_complex() else numbers.to(t.dtype)


def inner(left, right):
    """The real inner product of two lists of tensors; what is None is zero."""
    pairs = [(a, b) for a, b in zip(left, right, strict=True) if a is not None and b is not None]
    terms = [(a.conj() * b).real.sum() if a.is_complex() else (a * b).sum() for a, b in pairs]
    return sum(terms, torch.zeros((), dtype=torch.float64))


def push(f, inputs, tangents):
    """The tangents of f(*inputs)."""
    with fwAD.dual_level():
        duals = map(fwAD.make_dual, inputs, tangents)
        return [fwAD.unpack_dual(y).tangent for y in f(*duals)]


def pull(f, inputs, cotangents, create_graph=False):
    """The gradients of the inner product of f(*inputs) and cotangents."""
    given = [(y, u) for y, u in zip(f(*inputs), cotangents, strict=True) if y.requires_grad]
    outputs, weights = zip(*given, strict=True)
    return torch.autograd.grad(
        outputs, inputs, weights, create_graph=create_graph, allow_unused=True
    )


def forward_cases(op, largest, dtype=torch.float64):
    """(inputs, f, tangents, cotangents) where f depends on the inputs."""
    for inputs, f in gradient_cases(op, dtype):
        inputs = [x.detach().requires_grad_() if x.requires_grad else x for x in inputs]
        moving = [x for x in inputs if x.requires_grad]
        outputs = f(*inputs)
        if not any(y.requires_grad for y in outputs) or sum(x.numel() for x in moving) > largest:
            continue

        def g(*given, inputs=inputs, f=f):
            rest = iter(given)
            return f(*(next(rest) if x.requires_grad else x for x in inputs))

        v = [direction(x, -1.1, 0.9 + 0.3 * i) for i, x in enumerate(moving)]
        u = [direction(y, 0.4, 1.7 - 0.2 * k) for k, y in enumerate(outputs)]
        del outputs  # and its graph
        yield moving, g, v, u


@every_op
def test_forward_mode_is_the_adjoint_of_reverse_mode(op):
    for inputs, f, v, u in forward_cases(op, 200):
        moved = push(f, [x.detach() for x in inputs], v)
        for y, t in zip(f(*inputs), moved, strict=True):
            assert t is None or (t.shape, t.dtype) == (y.shape, y.dtype)
        check(inner(u, moved), inner(pull(f, inputs, u), v), rtol=1e-9, atol=1e-11)


@every_op
def test_forward_mode_is_the_adjoint_for_complex_numbers(op):
    try:
        for inputs, f, v, u in forward_cases(op, 200, torch.complex128):
            moved = push(f, [x.detach() for x in inputs], v)
            check(inner(u, moved), inner(pull(f, inputs, u), v), rtol=1e-9, atol=1e-11)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        if not re.search("complex|Complex|implemented|imaginary", str(error)):
            raise


@every([e for e in DIFFERENTIABLE if tensor_parameters(e) > 1])
@pytest.mark.parametrize("other", [torch.int64, torch.float32], ids=["int64", "float32"])
def test_forward_mode_is_the_adjoint_for_mixed_dtypes(entry, other):
    f = function(path(entry))
    for sample in samples_of(entry, torch.float64, 1):
        for i, x in enumerate(sample.args):
            args = [
                a if a is x or a.dtype == torch.bool else (2 * a).to(other) for a in sample.args
            ]
            result = works(f, Sample(args, {}))
            if not is_number(x) or result is None or result.dtype != torch.float64:
                continue

            def g(t, i=i, args=args):
                return (f(*args[:i], t, *args[i + 1 :]),)

            x, v, u = x.detach().requires_grad_(), direction(x, -1, 1.3), direction(result, 0.4, 2)
            if g(x)[0].requires_grad:
                moved = push(g, [x.detach()], [v])
                check(inner([u], moved), inner(pull(g, [x], [u]), [v]), rtol=1e-9, atol=1e-11)


@every([e for e in ENTRIES if {"function", "inplace"} <= set(e["forms"])])
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "view"])
def test_an_in_place_form_leaves_the_tangent_of_the_function(entry, whole):
    f = function(path(entry))
    in_place = function(path(entry) + "_")
    for sample in samples_of(entry, torch.float64):
        first = sample.args[0] if sample.args else None
        if not is_number(first) or refuses_at(sample, f):
            continue
        with fwAD.dual_level():
            args = [
                fwAD.make_dual(a, direction(a, -0.7, 1.1 + i)) if is_number(a) else a
                for i, a in enumerate(sample.args)
            ]
            expected = f(*args, **sample.kwargs)
            if (expected.shape, expected.dtype) != (first.shape, first.dtype):
                continue
            target = args[0].clone() if whole else torch.stack([args[0], args[0]], -1)[..., 1]
            in_place(target, *args[1:], **sample.kwargs)
            check(target, expected)
            check(fwAD.unpack_dual(target).tangent, fwAD.unpack_dual(expected).tangent)
            if not whole:
                check(fwAD.unpack_dual(target._base).tangent[..., 0], tangent_of(args[0]))


def is_number(value):
    return isinstance(value, torch.Tensor) and has_derivative(value)


def refuses_at(sample, f):
    result = works(f, sample)
    if not isinstance(result, torch.Tensor):
        return True
    inputs, wrap = leaves(sample)
    return refuses(differentiable_outputs(wrap(f)), inputs)


def tangent_of(t):
    return fwAD.unpack_dual(t).tangent


@every_op
def test_second_derivatives_agree_in_all_orders_of_modes(op):
    for inputs, f, v, u in forward_cases(op, 40):
        first = pull(f, inputs, u, create_graph=True)
        slope = inner(first, v)
        if not slope.requires_grad:
            continue
        reverse = torch.autograd.grad(slope, inputs, allow_unused=True)
        forward_over_reverse = push(lambda *xs, f=f, u=u: nonzero(pull(f, xs, u), xs), inputs, v)
        slope = inner(u, push(f, inputs, v))
        reverse_over_forward = torch.autograd.grad(slope, inputs, allow_unused=True)
        found = zip(reverse, forward_over_reverse, reverse_over_forward, strict=True)
        for x, grads in zip(inputs, found, strict=True):
            expected, *others = (torch.zeros_like(x) if g is None else g for g in grads)
            for other in others:
                check(other, expected, rtol=1e-8, atol=1e-9)


def nonzero(grads, xs):
    return [torch.zeros_like(x) if g is None else g for x, g in zip(xs, grads, strict=True)]


def along(f, u, v):
    """d/ds <u, f(x + s v)> by a level of forward mode, and by reverse mode."""

    def by_push(*xs):
        return [inner(u, push(f, xs, v))]

    def by_pull(*xs):
        return [inner(pull(f, xs, u, create_graph=True), v)]

    return by_push, by_pull


@every_op
@pytest.mark.parametrize("order", [3, 4])
def test_high_derivatives_by_nested_levels_are_those_of_reverse_mode(op, order):
    for inputs, f, v, u in forward_cases(op, 6):
        pushed = pulled = f
        weights = u
        for _ in range(order):
            pushed, _ = along(pushed, weights, v)
            _, pulled = along(pulled, weights, v)
            weights = [torch.ones((), dtype=torch.float64)]
            if not pulled(*inputs)[0].requires_grad:
                break
        check(pushed(*inputs)[0], pulled(*inputs)[0], rtol=1e-7, atol=1e-8)
