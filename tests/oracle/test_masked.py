"""Masked reductions and masked tensors beside PyTorch's."""

import warnings

import numpy as np
import pytest
import torch

import rushlight

LIBRARIES = (rushlight, torch)


def environment(t):
    d = t.tensor(np.arange(6.0).reshape(2, 3), dtype=t.float32)
    m = t.tensor([[True, False, True], [False, True, True]])
    x = t.masked.masked_tensor(d, m)
    return {"t": t, "d": d, "m": m, "x": x, "y": t.masked.masked_tensor(d + 1, m), "M": t.masked,
            "none": t.zeros(2, 3, dtype=t.bool), "i": t.arange(6).reshape(2, 3)}  # fmt: skip


VALUES = """
x; x.get_data(); x.get_mask(); x.to_tensor(9.); x + y; x * 2; 2 * x; x - y; x / y; x + d; 2 / y
t.sin(x); -x; x.abs(); x.sum(); x.sum(1); x.mean(); x.mean(1); x.amax(1); x.amin(0); x.prod(1)
x.argmax(1); x.argmin(); x.all(); x.std(); x.var(1); x.t(); x.reshape(3, 2); x.view(6); x[0]
x[0, 1]; x[:, 1]; x.clone(); x.detach(); x.requires_grad; x.dtype; x.shape; x.layout; len(x)
x == y; x > 2; x.softmax(1); t.softmax(x, 1); x.double(); x.to(t.float64); M.is_masked_tensor(x)
t.stack([x, x]); t.cat([x, x]); x.unsqueeze(0); x.expand(2, 2, 3); x.transpose(0, 1)
t.where(m, x, y); t.ones_like(x); x.is_contiguous(); x.pow(2); x ** 2; x.sqrt()
x.sum(0, keepdim=True); float(x.sum()); x.int(); x.bool(); t.maximum(x, y); x.clamp(0, 3)
x.flatten(); x.select(0, 1); x.nan_to_num(); x.sign(); x.isnan(); x.narrow(1, 0, 2); x.split(1)
t.eq(x, y); x.floor(); x.mean(0, keepdim=True); x.add_(y); x.mul_(2)
M.masked_tensor(t.tensor(1.), t.tensor(True)); M.masked_tensor(t.tensor(1.), t.tensor(False))
M.masked_tensor(i, m); M.masked_tensor(i > 2, m); M.MaskedTensor(d, m); M.as_masked_tensor(d, m)
M.masked_tensor(d.reshape(1, 2, 3), m.reshape(1, 2, 3)); M.sum(x, 1); M.amax(d, 1, mask=none)
M.mean(d, 1, mask=none); M.softmax(d, 1, mask=none); M.median(d, 1, mask=none)
M.amax(i, 1, mask=none); M.sum(d, 1, mask=m[0]); M.sum(d, 1, mask=m.float())
M.var(d, (0, 1), mask=m); M.norm(d, 0, 1, mask=m); M.sum(i, 1, mask=m); M.prod(i, 1, mask=m)
M.argmax(d); M.sum(d, 1, keepdim=True, dtype=t.float64, mask=m)
M.std(d, 1, correction=0, mask=m); M.var(d, 1, False, mask=m); M.cumsum(i, 1, mask=m)
"""


@pytest.mark.parametrize(
    "text", [p.strip() for line in VALUES.split("\n") for p in line.split(";") if p.strip()]
)
def test_values(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = (eval(text, environment(t)) for t in LIBRARIES)
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("text", [
    "(x * x).sum()", "x.exp().mean()", "(x.sqrt() * 2).sum()", "x.sum(1).sum()",
    "x.softmax(1).amax()",
    "(x / x).sum()", "x.prod()", "x.t().sum(0).sum()",
])  # fmt: skip
def test_gradients(text):
    found = []
    for t in LIBRARIES:
        d = t.tensor([[1.0, -1.0, 2.0], [0.0, 4.0, 5.0]], requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x = t.masked.as_masked_tensor(d, environment(t)["m"])
            eval(text, {"x": x, "t": t}).backward()
        grad = d.grad
        if isinstance(grad, t.masked.MaskedTensor):
            grad = grad.to_tensor(0)
        found.append(grad.numpy())
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("text", [
    "x + M.masked_tensor(d, ~m)", "M.masked_tensor(d, d)", "M.masked_tensor([1], m)", "x.item()",
    "M.masked_tensor(x, m)", "M.masked_tensor(d * 1j, m)", "M.masked_tensor(d, m[0])", "x.numpy()",
    "M.sum(d, 7, mask=m)", "M.mean(i, 1, mask=m)", "M.sum(d, 1, mask=t.ones(3, 3).bool())",
    "M.var(d, 1, True, correction=1)", "M.sum(d, mask=m.unsqueeze(0))",
])  # fmt: skip
def test_errors_have_pytorchs_class(text):
    kinds = []
    for t in LIBRARIES:
        with warnings.catch_warnings(), pytest.raises(Exception) as caught:
            warnings.simplefilter("ignore")
            eval(text, environment(t))
        kinds.append(caught)
    ours, theirs = kinds
    assert issubclass(ours.type, theirs.type), (ours.value, theirs.value)
