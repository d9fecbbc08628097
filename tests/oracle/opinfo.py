"""PyTorch's own samples of its operators (OpInfo), run on both libraries: values, gradients,
gradients of gradients and tangents, in double precision."""

import functools
import sys
import types
import unittest
import warnings

import numpy as np
import torch

import rushlight

if "expecttest" not in sys.modules:  # PyTorch's test tools import it, its samples do not use it
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
from torch.testing._internal.common_methods_invocations import op_db

BY_NAME = {}
for _op in op_db:
    BY_NAME.setdefault(_op.name, []).append(_op)


def ours(value):
    """The same value with rushlight's tensors and dtypes."""
    if isinstance(value, torch.Tensor):
        array = value.detach().resolve_conj().resolve_neg().numpy()
        t = rushlight.tensor(np.array(array))
        return t.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return getattr(rushlight, str(value).removeprefix("torch."))
    if isinstance(value, torch.Size):
        return tuple(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(ours, value))
    if isinstance(value, dict):
        return {k: ours(v) for k, v in value.items()}
    return value


def theirs(value):
    """Leaves of their own, so that samples do not share gradients."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value)(map(theirs, value))
    if isinstance(value, dict):
        return {k: theirs(v) for k, v in value.items()}
    return value


def flat(value, kind):
    if isinstance(value, kind):
        return [value]
    if isinstance(value, dict):
        return [t for v in value.values() for t in flat(v, kind)]
    return [t for v in value for t in flat(v, kind)] if isinstance(value, (list, tuple)) else []


def array(t):
    t = t.detach()
    return (t.resolve_conj().resolve_neg() if isinstance(t, torch.Tensor) else t).numpy()


def weights(results, library):
    """A fixed cotangent for each result."""
    found = []
    for y in results:
        n = max(y.numel(), 1)
        w = np.cos(1.0 + np.arange(y.numel(), dtype=np.float64) * 0.7).reshape(tuple(y.shape)) / n
        w = (w + 0.5j * w[::1]) if y.dtype.is_complex else w
        found.append(library.tensor(w).to(y.dtype))
    return found


def gradients(library, function, arguments, orders):
    """Arrays: the results, their gradients, and those of the gradients' sum of squares."""
    kind = library.Tensor
    results = flat(function(*arguments), kind)
    found = [[array(y) for y in results]]
    inputs = [x for x in flat(arguments, kind) if x.requires_grad]
    moving = [y for y in results if y.requires_grad]
    if orders == 0 or not inputs or not moving:
        return found
    grad = functools.partial(library.autograd.grad, allow_unused=True)
    first = grad(moving, inputs, weights(moving, library), create_graph=orders > 1)
    first = [library.zeros_like(x) if g is None else g for g, x in zip(first, inputs, strict=True)]
    found.append([array(g) for g in first])
    moving = [g for g in first if g.requires_grad]
    if orders > 1 and moving:
        second = grad(moving, inputs, weights(moving, library))
        zeros = library.zeros_like
        pairs = zip(second, inputs, strict=True)
        found.append([array(zeros(x) if g is None else g) for g, x in pairs])
    return found


def tangents(library, function, arguments):
    forward = library.autograd.forward_ad
    kind = library.Tensor

    def dual(value):
        if isinstance(value, kind):
            if not value.requires_grad:
                return value
            x = value.detach()
            return forward.make_dual(x, weights([x], library)[0])
        if isinstance(value, (list, tuple)):
            return type(value)(map(dual, value))
        return {k: dual(v) for k, v in value.items()} if isinstance(value, dict) else value

    with forward.dual_level():
        results = flat(function(*dual(arguments)), kind)
        pairs = [forward.unpack_dual(y) for y in results]
        return [None if p.tangent is None else array(p.tangent) for p in pairs]


def same(actual, expected, tolerance):
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def quiet(function):
    """PyTorch's forward mode warns of its own compiler when it is first used."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return call


def spread(function):
    """The function of a sample: its input, its other arguments, its keywords."""
    return lambda first, args, kwargs: function(first, *args, **kwargs)


@quiet
def check(name, find, *, variant="", dtype=torch.float64, orders=2, jvp=True, limit=12, tol=1e-8):
    """Compares `find(rushlight)` with PyTorch's op over at most `limit` of the op's samples."""
    op = next(o for o in BY_NAME[name] if o.variant_test_name == variant)
    differentiable = op.supports_autograd and dtype in op.supported_backward_dtypes("cpu")
    orders = 0 if not differentiable else min(orders, 1 + op.supports_gradgrad)
    functions = [spread(find(rushlight)), spread(op.op)]

    def both(run, given, *rest):
        actual = run(rushlight, functions[0], ours(given), *rest)
        return actual, run(torch, functions[1], theirs(given), *rest)

    done = 0
    for sample in op.sample_inputs("cpu", dtype, requires_grad=differentiable):
        if done == limit:
            break
        given = (sample.input, tuple(sample.args), dict(sample.kwargs))
        for a, b in zip(*both(gradients, given, orders), strict=True):
            same(a, b, tol)
        if jvp and orders and op.supports_forward_ad:
            actual, expected = both(tangents, given)
            for a, b in zip(actual, expected, strict=True):
                if a is not None and b is not None:
                    np.testing.assert_allclose(a, b, rtol=tol, atol=tol)
                else:
                    assert a is None or not a.any()
                    assert b is None or not b.any()
        done += 1
    assert done
