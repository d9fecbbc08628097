"""Derivatives of high order, in which common subexpressions are shared, against PyTorch."""

import numpy as np
import pytest

from oracle.harness import LIBRARIES, from_numpy, to_numpy

RANDOM = np.random.default_rng(5)
WEIGHTS = [RANDOM.normal(size=shape) / 3 for shape in ((2, 6), (6, 6), (6, 1))]
POINTS = RANDOM.normal(size=(4, 2))


def mlp(library, x, weights):
    for weight in weights[:-1]:
        x = library.tanh(x @ weight)
    return x @ weights[-1]


FUNCTIONS = {
    "mlp": mlp,
    "bias and sine": lambda library, x, w: library.sin(x @ w[0] + w[2].T) @ w[1],
    "quotients": lambda library, x, w: (x * x).sum(1) / (1 + library.exp(x @ w[0])).mean(1),
    "softmax": lambda library, x, w: library.softmax(x @ w[0], 1) * library.sigmoid(x @ w[0]),
    "views": lambda library, x, w: library.tanh(x.t()[0] * x[:, 1]) + x.reshape(-1)[:4].sin(),
    "gelu": lambda library, x, w: library.nn.functional.gelu(x @ w[0]).logsumexp(1),
}


def programme(library, f, order):
    """The derivatives along x up to an order, and the gradients of a sum of them all."""
    x = from_numpy(library, POINTS, requires_grad=True)
    weights = [from_numpy(library, w, requires_grad=True) for w in WEIGHTS]
    y, found = f(library, x, weights), []
    for _ in range(order):
        (y,) = library.autograd.grad(y.sum(), x, create_graph=True)
        found.append(y)
    sum((y * y).mean() for y in found).backward()
    grads = [t.grad for t in (x, *weights) if t.grad is not None]
    return [to_numpy(t) for t in (*found, *grads)]


@pytest.mark.parametrize("order", [2, 3, 5])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_same(name, order):
    ours, theirs = (programme(library, FUNCTIONS[name], order) for library in LIBRARIES)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8 * max(1, np.abs(b).max()))
