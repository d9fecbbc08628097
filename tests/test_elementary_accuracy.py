"""exp, erf and gelu of floats against double precision; pointwise ops and sums of halves."""

import math

import numpy as np
import pytest

import rushlight as torch
from support import values

F = torch.nn.functional
STEP = 4099  # of the bit patterns that are tried: a prime, so that the low bits vary


def every_magnitude():
    """About a million floats, evenly spread over the bit patterns, and those where results turn."""
    bits = np.arange(0, 2**32, STEP, dtype=np.uint64).astype(np.uint32)
    near = [0.2, 0.3, 0.5, 0.9, 1.5, 3.8, 3.9, 3.92, 3.93, 4.0, 4.1, 87.3, 88.7, 88.8, 103.9, 104.1]
    turns = np.concatenate([np.linspace(0.999 * v, 1.001 * v, 501) for v in near])
    plain = np.concatenate([turns, -turns, np.linspace(-4.2, 4.2, 40001)]).astype(np.float32)
    return np.concatenate([bits.view(np.float32), plain])


def exact(function, x):
    def one(v):
        try:
            return function(v)
        except OverflowError:
            return math.inf

    return np.array([one(v) for v in x.tolist()])


def units(actual, expected):
    """The distance in units of the last place of a float, 0 between equal infinities and NaNs."""
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = expected.astype(np.float32)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        same = (actual == rounded) | (np.isnan(actual) & np.isnan(expected))
        return np.where(same, 0, np.abs(actual - expected) / unit)


@pytest.mark.parametrize(("name", "limit"), [("exp", 1.1), ("erf", 2.1)])
def test_a_few_units_in_the_last_place(name, limit):
    x = every_magnitude()
    actual = values(getattr(torch, name)(torch.tensor(x))).astype(np.float64)
    error = units(actual, exact(getattr(math, name), x))
    worst = int(np.argmax(np.nan_to_num(error, nan=np.inf)))
    assert error[worst] <= limit, f"{name}({x[worst]}) = {actual[worst]}: {error[worst]} units off"


def test_erf_at_its_ends():
    x = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1e-38, 3.95, -3.95, 3e38]
    y = values(torch.erf(torch.tensor(x))).tolist()
    assert [math.copysign(1, v) for v in y[:2]] == [1, -1]
    assert y[:4] == [0, 0, 1, -1]
    assert math.isnan(y[4])
    assert y[5:7] == [float(np.float32(1e-45)), -float(np.float32(1e-45))]
    assert y[7] == pytest.approx(1.1283792e-38, rel=2e-7)
    assert y[8:] == [1, -1, 1]


def test_erf_is_odd_and_at_most_one():
    x = every_magnitude()
    x = x[~np.isnan(x)]
    y = values(torch.erf(torch.tensor(x)))
    assert np.array_equal(y, -values(torch.erf(torch.tensor(-x))))
    assert np.abs(y).max() == 1


@pytest.mark.parametrize("count", [1, 7, 16, 17, 100, 5000])
def test_a_result_does_not_depend_on_its_place(count):
    x = torch.linspace(-4, 4, 5000)
    part, whole = x[3 : 3 + count], slice(3, 3 + count)
    for function in (torch.erf, torch.exp, F.gelu, F.silu):
        assert np.array_equal(values(function(part)), values(function(x))[whole])


def test_gelu_and_its_derivative():
    x = np.linspace(-9, 9, 100001).astype(np.float32)
    t = torch.tensor(x).requires_grad_()
    y = F.gelu(t)
    y.sum().backward()
    wide = x.astype(np.float64)
    below = exact(lambda v: 0.5 * math.erfc(-v * math.sqrt(0.5)), x)
    slope = below + wide * np.exp(-wide * wide / 2) / math.sqrt(2 * math.pi)
    # 1 + erf keeps what an error of the last place of 1 leaves, times x.
    assert np.all(np.abs(values(y.detach()) - wide * below) <= 1.5e-7 * np.maximum(np.abs(wide), 1))
    assert np.all(np.abs(values(t.grad) - slope) <= 3e-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("count", [1, 15, 31, 33, 511, 512, 513, 70001])
def test_halves_round_the_float_result_once(dtype, count):
    a, b = torch.randn(2, count).to(dtype)
    assert torch.equal(a * b, (a.float() * b.float()).to(dtype))
    assert torch.equal(a[::2] + b[::2], (a[::2].float() + b[::2].float()).to(dtype))
    assert torch.equal(a * 3, (a.float() * 3).to(dtype))
    assert torch.equal(F.gelu(a), F.gelu(a.float()).to(dtype))
    assert torch.equal(
        a.view(1, -1).expand(3, -1) + b, (a.float() + b.float()).to(dtype).expand(3, -1)
    )
    assert torch.equal(a.sum(), a.float().sum().to(dtype))
    assert torch.equal(a.norm(), a.float().norm().to(dtype))
    assert torch.equal(torch.stack([a, b]).amax(1), torch.stack([a, b]).float().amax(1).to(dtype))
    assert torch.equal(torch.softmax(a, 0), torch.softmax(a.float(), 0).to(dtype))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_special_halves_keep_their_kind(dtype):
    x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-8, 1e30, -1e30]).to(dtype)
    for count in (8, 40):  # the rest of a vector, and whole ones
        y = (x.repeat(5)[:count] * 1.0).float()
        assert np.array_equal(values(y), values(x.float().repeat(5)[:count]), equal_nan=True)
        assert np.array_equal(np.signbit(values(y))[3:5], [False, True])
