"""Nested tensors: one expression on rushlight and on PyTorch, of values and of gradients."""

import re
import warnings

import numpy as np
import pytest
import torch

import rushlight

LIBRARIES = (rushlight, torch)


def environment(t, grad=False):
    f64 = {"dtype": t.float64}
    parts = [
        np.arange(6.0).reshape(2, 3) / 5,
        np.cos(np.arange(12.0)).reshape(4, 3),
        np.ones((1, 3)),
    ]
    parts = [t.tensor(p, **f64) for p in parts]
    jagged = t.nested.nested_tensor(parts, layout=t.jagged, requires_grad=grad)
    plain = t.nested.nested_tensor(parts, requires_grad=grad)
    wide = t.nested.nested_tensor(
        [t.tensor(np.sin(np.arange(4.0 * n)).reshape(n, 4)) for n in (2, 3)],
        layout=t.jagged, requires_grad=grad,
    )  # fmt: skip
    ids = t.nested.nested_tensor([t.tensor([0, 1]), t.tensor([1])], layout=t.jagged)
    w = t.tensor(np.cos(np.arange(6.0)).reshape(2, 3), requires_grad=grad)
    return {"t": t, "F": t.nn.functional, "j": jagged, "n": plain, "w": w, "q": wide, "ids": ids,
            "parts": parts}  # fmt: skip


def described(value, t):
    """Shapes and elements."""
    if isinstance(value, t.Tensor) and value.is_nested:
        found = [str(value.layout), value.dim(), value.size(0)]
        if value.layout is t.jagged:
            found.append(re.sub(r"j\d+", "j", str(tuple(value.shape))))
        return ("nested", found, [p.detach().numpy().tolist() for p in value.unbind()])
    if isinstance(value, t.Tensor):
        return ("tensor", tuple(value.shape), str(value.dtype), value.detach().numpy().tolist())
    if isinstance(value, (tuple, list)) and not str(value).startswith("torch.Size"):
        return [described(v, t) for v in value]
    return re.sub(r"j\d+", "j", str(value))


def assert_same(a, b):
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_same(x, y)
    elif isinstance(a, float):
        assert a == pytest.approx(b, rel=1e-9, abs=1e-12, nan_ok=True)
    else:
        assert a == b


VALUES = """
n; j; j.shape; n.size(0); n.size(2); j.size(); j.size(1); n.layout; j.layout; n.is_nested
n.dim(); n.numel(); j.numel(); j.offsets(); j.values(); j.lengths(); n.values(); j._max_seqlen
j._min_seqlen; n.unbind(); j.unbind(); n.to_padded_tensor(0.); j.to_padded_tensor(-1.); len(j)
repr(n); repr(j); t.nested.to_padded_tensor(j, 0., (3, 5, 3)); n + n; j + j; n * 2; j * 2; j + 1
j + w[0]; j.tanh(); j * t.ones(3, 1, 3); j.sum(); j.sum(1); j.sum(-1); j.mean(1)
j.sum(1, keepdim=True); j.amax(1); n.sum(-1, keepdim=True); t.softmax(j, -1); t.softmax(j, 1)
t.softmax(n, -1); j.log_softmax(-1); F.layer_norm(j, (3,)); F.rms_norm(j, (3,)); F.linear(j, w)
F.linear(n, w); j @ w.t(); F.gelu(j); t.matmul(j, t.ones(3, 3, 2, dtype=t.float64))
j.transpose(1, 2); n.transpose(1, 2); j[0]; n[0]; j.unflatten(-1, [3, 1]); j.view(3, -1, 3, 1)
j.reshape(3, -1, 3, 1); j.unsqueeze(-1); j[1, 0]; j.chunk(3, -1); j[..., 0]; j.clone()
j.detach(); j.contiguous(); j.is_contiguous(); t.relu(j); t.sin(n); j.to(t.float32); j == j
t.zeros_like(j); t.cat([j, j], -1); F.dropout(j, 0.); -j; 2 - j; j / 2; j ** 2; j.exp()
j.masked_fill(j > 0.5, 0.); t.where(j > 0.5, j, j * 0); j.argmax(-1); j.prod(1)
j.split([1, 2], -1); j.any(); j.narrow(-1, 0, 2); j.select(-1, 0); t.ones_like(j)
j.permute(0, 2, 1); F.embedding(ids, w); j.mean(); j.mean(-1); j.bool(); j.transpose(1, 2).shape
t.nested.narrow(w, 1, t.tensor([0, 1]), t.tensor([2, 1]), layout=t.jagged)
t.nested.masked_select(w, w > 0)
t.nested.nested_tensor_from_jagged(t.arange(8.), t.tensor([0, 3, 8]))
t.nested.nested_tensor_from_jagged(t.arange(8.), t.tensor([0, 3, 8]), t.tensor([2, 4])).numel()
t.nested.as_nested_tensor(w, layout=t.jagged); t.nested.as_nested_tensor(w)
j.shape == (j + 1).shape; t.nested.nested_tensor([t.ones(2, 3), t.ones(2, 2)], layout=t.jagged)
t.nested.nested_tensor([[1, 2], [3]])
F.scaled_dot_product_attention(*[q.unflatten(-1, [2, 2]).transpose(1, 2)] * 3)
F.scaled_dot_product_attention(*[q.unflatten(-1, [2, 2]).transpose(1, 2)] * 3).transpose(1, 2).flatten(-2)
t.nn.Linear(3, 2).double()(j).shape; t.nn.LayerNorm(3).double()(j); t.nn.ReLU()(j)
"""  # noqa: E501


@pytest.mark.parametrize(
    "text", [p.strip() for line in VALUES.split("\n") for p in line.split(";") if p.strip()]
)
def test_values(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [described(eval(text, environment(t)), t) for t in LIBRARIES]
    assert_same(*found)


@pytest.mark.parametrize("text", [
    "F.linear(j, w).values() ** 2", "t.softmax(j, -1).values() ** 2",
    "F.layer_norm(j, (3,)).values() ** 3", "j.to_padded_tensor(2.0) ** 2", "j.unbind()[1] ** 2",
    "(j + w[0]).values() ** 2", "(j @ w.t()).to_padded_tensor(0.0) ** 2",
    "F.scaled_dot_product_attention(*[q.unflatten(-1, [2, 2]).transpose(1, 2)] * 3).values() ** 2",
    "n.to_padded_tensor(0.0) ** 2", "n.unbind()[0] ** 2", "F.linear(n, w).values() ** 2",
    "t.nested.as_nested_tensor([w[0], w[1, :2]], layout=t.jagged).values() ** 2",
])  # fmt: skip
def test_gradients(text):
    found = []
    for t in LIBRARIES:
        names = environment(t, grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            eval(text, names).sum().backward()
            grads = [names[k].grad for k in ("j", "n", "w", "q")]
        found.append([described(g, t)[-1] if g is not None else None for g in grads])
    assert_same(*found)


@pytest.mark.parametrize("text", [
    "n.shape", "n.size(1)", "n.offsets()", "j.sum(0)", "j[:, 0]", "t.stack([j, j])", "j.view(-1)",
    "j + t.nested.nested_tensor(parts, layout=t.jagged)", "t.nested.nested_tensor(3)",
    "t.nested.nested_tensor([], layout=t.jagged)", "j.flatten(1)", "j.numpy()", "j.item()",
    "t.nested.nested_tensor([t.ones(2), t.ones(2, 2)])", "t.nested.to_padded_tensor(w, 0.)",
    "t.nested.nested_tensor([t.ones(2, 3), t.ones(3, 2)], layout=t.jagged)",
    "t.nested.nested_tensor_from_jagged(w)", "t.nested.as_nested_tensor(3)",
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
