"""Helpers shared by the tests: values in, values out, comparison, numerical derivatives."""

import numpy as np

import rushlight as torch


def values(t):
    """The numbers of a tensor as a NumPy array, whatever its dtype, layout or history."""
    t = t.detach()
    if t.dtype in (torch.bfloat16, torch.float16):
        t = t.to(torch.float32)
    return np.array(t.tolist(), dtype=np.dtype(str(t.dtype).removeprefix("torch."))).reshape(
        tuple(t.shape)
    )


def check(actual, expected, rtol=1e-10, atol=1e-12):
    """Assert that a tensor has the shape and the numbers of an array, nested list or tensor."""
    if isinstance(expected, torch.Tensor):
        expected = values(expected)
    expected = np.asarray(expected)
    assert tuple(actual.shape) == expected.shape
    np.testing.assert_allclose(values(actual), expected, rtol=rtol, atol=atol)


def leaf(data, dtype=None):
    """A floating point leaf that requires grad, float64 unless told otherwise."""
    return torch.tensor(data, dtype=dtype or torch.float64, requires_grad=True)


def randn(*shape, seed=0):
    """A float64 tensor of normal numbers that depends on nothing but the arguments."""
    return torch.tensor(np.random.default_rng(seed).standard_normal(shape))


def randleaf(*shape, seed=0):
    return randn(*shape, seed=seed).requires_grad_()


def numerical_grad(f, x, eps=1e-6):
    """Central differences of the scalar f at the float64 tensor x."""
    base = values(x)
    out = np.zeros(base.shape)
    for index in np.ndindex(base.shape):
        ends = []
        for sign in (1, -1):
            moved = base.copy()
            moved[index] += sign * eps
            with torch.no_grad():
                ends.append(float(f(torch.tensor(moved))))
        out[index] = (ends[0] - ends[1]) / (2 * eps)
    return out


def location_text(error):
    """Everything a user sees of an exception: its text and its notes."""
    return "\n".join([str(error), *getattr(error, "__notes__", [])])
