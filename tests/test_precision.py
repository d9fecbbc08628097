"""Sums over millions of floats are as good as those over a few: errors do not pile up."""

import numpy as np
import pytest

import rushlight as torch
import rushlight.nn.functional as F
from support import values

COUNT = 4_000_000
CASES = {
    "layer_norm": lambda x, w: F.layer_norm(x, (COUNT,)),
    "layer_norm of many rows": lambda x, w: F.layer_norm(x.reshape(-1, 32), (32,), w, w),
    "rms_norm": lambda x, w: F.rms_norm(x, (COUNT,)),
    "group_norm": lambda x, w: F.group_norm(x.reshape(1, 4, -1), 2, w[:4], w[:4]),
    "group_norm of single numbers": lambda x, w: F.group_norm(x.reshape(1, COUNT), 1),
    "batch_norm": lambda x, w: F.batch_norm(x.reshape(1, 32, -1), None, None, w, w, True),
    "batch_norm of many rows": lambda x, w: F.batch_norm(x.reshape(-1, 32), None, None, w, w, True),
    "batch_norm of one channel": lambda x, w: F.batch_norm(
        x.reshape(4, 1, -1), None, None, w[:1], w[:1], True
    ),
    "instance_norm": lambda x, w: F.instance_norm(x.reshape(1, 2, -1)),
    "instance_norm of one channel": lambda x, w: F.instance_norm(x.reshape(1, 1, -1)),
    "softmax": lambda x, w: torch.softmax(x, 0),
    "log_softmax": lambda x, w: torch.log_softmax(x, 0),
    "cross_entropy": lambda x, w: F.cross_entropy(x[None], torch.tensor([3]), label_smoothing=0.1),
    "logcumsumexp": lambda x, w: torch.logcumsumexp(x, 0),
    "logsumexp": lambda x, w: torch.logsumexp(x, 0),
    "sum": lambda x, w: x.sum(),
    "sum of columns": lambda x, w: x.reshape(-1, 4).sum(0),
    "var": lambda x, w: x.var(),
    "var of columns": lambda x, w: x.reshape(-1, 4).var(0),
    "norm": lambda x, w: x.norm(),
    "cumsum": lambda x, w: x.cumsum(0),
    "mse_loss": lambda x, w: F.mse_loss(x, x.detach().flip(0)),
    "a factor for all": lambda x, w: w[:1] * x,
    "weights of a convolution": lambda x, w: F.conv2d(
        x.detach().reshape(1, 4, 1000, -1), w.reshape(8, 4, 1, 1)
    ),
}


def results(function, dtype):
    """The values, and the gradients of their weighted sum."""
    random = np.random.default_rng(7)
    x = torch.tensor(random.random(COUNT) + 1).to(dtype).requires_grad_()
    w = torch.tensor(random.random(32)).to(dtype).requires_grad_()
    y = function(x, w)
    y.backward(torch.tensor(random.random(tuple(y.shape))).to(dtype))
    return [values(t) for t in (y, x.grad, w.grad) if t is not None]


@pytest.mark.parametrize("name", CASES)
def test_long_sums(name):
    exact = results(CASES[name], torch.float64)
    for found, wanted in zip(results(CASES[name], torch.float32), exact, strict=True):
        # Differences of close numbers leave fewer digits than a float has.
        np.testing.assert_allclose(found, wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())


@pytest.mark.parametrize("scale", [1.0, 30.0, 1e9])
def test_derivatives_of_logcumsumexp_are_weighted_means(scale):
    """Large numbers hide their logarithms' digits; the weights do not need them."""
    random = np.random.default_rng(3)
    x, t = random.random(3000) * 20 + scale, random.standard_normal(3000)
    weights = np.exp(x.astype(np.longdouble) - x.max())
    total = weights.cumsum()
    tangent = torch.func.jvp(lambda v: v.logcumsumexp(0), (torch.tensor(x),), (torch.tensor(t),))[1]
    wanted = (weights * t).cumsum() / total
    np.testing.assert_allclose(values(tangent), wanted.astype(float), rtol=0, atol=1e-11)
    (gradient,) = torch.func.vjp(lambda v: v.logcumsumexp(0), torch.tensor(x))[1](torch.tensor(t))
    wanted = weights * (t / total)[::-1].cumsum()[::-1]
    np.testing.assert_allclose(values(gradient), wanted.astype(float), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [3, 7, 11, 49])
def test_a_mean_is_a_quotient(n, dtype):
    """Times 1 / n it is off by its last digit, and equal numbers seem to vary."""
    x = torch.arange(1, n + 1).to(dtype).mul(3).sub(1).requires_grad_()
    total = np.float64(x.detach().sum().item())
    assert x.mean().item() == values(torch.tensor(total / n, dtype=dtype))
    (gradient,) = torch.autograd.grad(x.mean(), x, torch.tensor(5.0, dtype=dtype))
    assert gradient[0] == torch.tensor(5.0, dtype=dtype) / n
    assert torch.full((3, 3), 0.31, dtype=dtype).cov().eq(0).all()
