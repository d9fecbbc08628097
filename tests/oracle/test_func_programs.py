"""Random functions under random nestings of transforms, in both libraries."""

import random

import numpy as np
import pytest
import torch as reference

import rushlight

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]
MATRIX = np.random.default_rng(0).standard_normal((3, 3)) * 0.5


def written(x, y):
    z = y.clone()
    z[0] = x[1] * 2
    return z


def layer_norm(t, x):
    """PyTorch's own derivatives of high order are wrong for its fused norms: spelled out there."""
    if t is rushlight:
        return t.nn.functional.layer_norm(x, (3,))
    centred = x - x.mean()
    return centred / (centred.pow(2).mean() + 1e-5).sqrt()


def batch_norm(t, rows):
    if t is rushlight:
        return t.nn.functional.batch_norm(rows, None, None, training=True)
    centred = rows - rows.mean(0)
    return centred / (centred.pow(2).mean(0) + 1e-5).sqrt()


def attention(t, x, y):
    q = t.outer(y, x).reshape(1, 1, 3, 3)
    return t.nn.functional.scaled_dot_product_attention(q, q.sin(), q).reshape(3, 3).sum(1)


def convolved(t, x, y):
    kernel = t.tensor(MATRIX[:1]).reshape(1, 1, 3) * x.sum()
    return t.nn.functional.conv1d(y.reshape(1, 1, 3), kernel, padding=1).reshape(3)


def part_written(x, y):
    z = y * 1
    z[1:].mul_(x[:2])
    return z


# Steps from vectors x, the function's argument, and y to another vector.
STEPS = {
    "sin": lambda t, x, y: t.sin(y),
    "product": lambda t, x, y: y * x,
    "matrix": lambda t, x, y: t.tensor(MATRIX) @ y,
    "broadcast": lambda t, x, y: t.tanh(y).sum() + y,
    "joined": lambda t, x, y: t.cat([y[1:], y[:1]]),
    "in place": lambda t, x, y: (y * 1.0).mul_(0.5).add_(x),
    "choice": lambda t, x, y: t.where(y > 0, y * y, y),
    "exp": lambda t, x, y: t.exp(-y * y),
    "softmax": lambda t, x, y: t.softmax(y, 0),
    "indexed": lambda t, x, y: y[t.tensor([2, 0, 1])],
    "quotient": lambda t, x, y: y / (1 + (y * y).sum()),
    "outer": lambda t, x, y: t.outer(y, x).sum(0),
    "views": lambda t, x, y: (y.reshape(3, 1) + x).T.reshape(-1)[::3],
    "written": lambda t, x, y: written(x, y),
    "part written": lambda t, x, y: part_written(x, y),
    "scan": lambda t, x, y: t.cumsum(y, 0),
    "linear": lambda t, x, y: t.nn.functional.linear(y, t.tensor(MATRIX), x),
    "layer norm": lambda t, x, y: layer_norm(t, y) * x,
    "batch norm": lambda t, x, y: batch_norm(t, t.stack([y, x, x * y]))[0] * x,
    "convolution": convolved,
    "attention": attention,
    "cross entropy": lambda t, x, y: (
        t.nn.functional.cross_entropy(t.stack([y, x]), t.tensor([1, 2])) + y * x
    ),
    "sorted": lambda t, x, y: t.sort(y)[0] * x,
    "variance": lambda t, x, y: y.var() * y,
    "einsum": lambda t, x, y: t.einsum("i,j,jk->k", y, x, t.tensor(MATRIX)),
    "expanded": lambda t, x, y: (y.unsqueeze(0).expand(2, 3) * t.stack([x, y])).mean(0),
    "embedding": lambda t, x, y: t.nn.functional.embedding(t.tensor([2, 1]), t.outer(y, x)).sum(0),
    "padded": lambda t, x, y: t.nn.functional.pad(y, (1, 1))[1:4] * x,
    "logsumexp": lambda t, x, y: t.logsumexp(t.outer(y, x), 1),
    "added at": lambda t, x, y: x.index_add(0, t.tensor([0, 0, 2]), y),
    "scattered": lambda t, x, y: t.zeros_like(x).scatter(0, t.tensor([1, 2, 0]), y),
    "taken apart": lambda t, x, y: t.stack([a * b for a, b in zip(y.unbind(), x, strict=True)]),
    "triangle": lambda t, x, y: t.tril(t.outer(y, x)).sum(0),
    "glu": lambda t, x, y: t.nn.functional.glu(t.cat([y, x]), 0),
}


def scales(t):
    return t.tensor([0.5, 1.0, 1.5], dtype=t.float64)


# From a function of vectors to another.
TRANSFORMS = {
    "grad": lambda t, f: lambda x: t.func.grad(lambda x: f(x).sum())(x),
    "jvp": lambda t, f: lambda x: t.func.jvp(f, (x,), (t.ones_like(x) * 0.5,))[1],
    "vjp": lambda t, f: lambda x: t.func.vjp(f, x)[1](t.ones_like(x))[0],
    "vmap over another": lambda t, f: lambda x: t.func.vmap(lambda s: f(x * s))(scales(t)).sum(0),
    "vmap": lambda t, f: lambda x: t.func.vmap(f)(t.stack([x, x * x])).sum(0),
    "vmap of columns": lambda t, f: lambda x: t.func.vmap(f, 1, 1)(t.stack([x, x.sin()], 1))[:, 1],
    "jacrev": lambda t, f: lambda x: t.func.jacrev(f)(x).sum(0),
    "jacfwd": lambda t, f: lambda x: t.func.jacfwd(f)(x).sum(1),
    "hessian": lambda t, f: lambda x: t.func.hessian(lambda x: f(x).sum())(x).sum(0),
}


def composed(t, steps, transforms):
    def f(x):
        y = x
        for step in steps:
            y = STEPS[step](t, x, y)
        return y

    for name in transforms:
        f = TRANSFORMS[name](t, f)
    return f


@pytest.mark.parametrize("seed", range(150))
def test_program(seed):
    choose = random.Random(seed)
    steps = choose.choices(list(STEPS), k=choose.randint(2, 5))
    transforms = choose.choices(list(TRANSFORMS), k=choose.randint(1, 3))
    found = []
    for t in (rushlight, reference):
        x = t.tensor([0.3, -0.7, 1.1], dtype=t.float64)
        try:
            found.append(np.array(composed(t, steps, transforms)(x).tolist()))
        except RuntimeError:
            if t is rushlight:
                raise
            pytest.skip("PyTorch refuses it")
    np.testing.assert_allclose(*found, rtol=1e-8, atol=1e-9, err_msg=f"{steps}, {transforms}")
