"""grad_fn names: programs and tools look for them, so they are PyTorch's."""

import pytest

from oracle.harness import LIBRARIES, describe, same, snippet_names

# expressions of x (2, 3), y (2, 3), p (positive, 2, 3), m (3, 2), v (3,), b (2, 3, 3)
EXPRESSIONS = """
x + y | x + 1 | 1 + x | x - y | x - 1 | 1 - x | x * y | x * 2 | x / y | x / 2 | 1 / x
x ** 2 | x ** y.detach() | p ** y | 2 ** x | x % 2 | -x | abs(x) | x.add(y, alpha=2)
torch.remainder(x, 2) | torch.fmod(x, 2) | torch.fmod(x, y)
x.neg() | x.abs() | x.sign() | x.reciprocal() | x.square() | x.floor() | x.ceil() | x.round()
x.trunc() | x.frac() | x.exp() | x.exp2() | x.expm1() | p.log() | p.log2() | p.log10() | p.log1p()
p.sqrt() | p.rsqrt() | x.sin() | x.cos() | x.tan() | x.sinh() | x.cosh() | x.tanh() | x.atan()
(x / 9).asin() | (x / 9).acos() | x.asinh() | (p + 1).acosh() | (x / 9).atanh() | x.atan2(y)
x.erf() | x.erfc() | x.sigmoid() | x.relu() | F.relu(x) | F.gelu(x) | F.silu(x) | F.softplus(x)
x.clamp(0, 1) | x.clamp(min=0) | x.clamp(max=0) | x.clamp_min(0) | x.clamp_max(1)
torch.maximum(x, y) | torch.minimum(x, y) | torch.max(x, y) | torch.min(x, y)
torch.where(x > 0, x, y) | torch.lerp(x, y, 0.5) | torch.lerp(x, y, p) | torch.addcmul(x, y, p)
torch.addcdiv(x, y, p)
x.sum() | x.sum(0) | x.sum((0, 1)) | x.mean() | x.mean(1) | x.prod() | x.prod(0) | x.amax()
x.amin(0)
x.max() | x.min() | x.max(0)[0] | x.min(1)[0] | x.var() | x.var(0) | x.std() | x.std(1) | x.norm()
x.norm(1) | x.norm(dim=0) | x.logsumexp(0) | x.cumsum(0) | x.softmax(0) | x.log_softmax(1)
F.softmax(x, dim=1) | F.log_softmax(x, dim=1)
x.mm(m) | x @ m | x @ v | v @ m | v @ v | v.dot(v) | x.mv(v) | b.bmm(b) | b @ b | b @ m | b @ v
torch.outer(v, v) | torch.addmm(x @ m, x, m) | F.linear(x, x) | F.linear(x, x, v[:2])
F.linear(b, x)
torch.cat([x, y]) | torch.stack([x, y]) | x.gather(0, i2) | x.scatter(0, i2, y)
x.scatter(0, i2, 1.0)
x.scatter_add(0, i2, y) | x.index_select(0, i1) | x.index_add(0, i1, y)
x.masked_fill(x > 0, 1.0)
x.sort(1)[0] | x.topk(2)[0] | x.flip(0) | x.roll(1, 0) | x.roll(1) | x.tril() | x.triu()
x.repeat(2, 1)
F.pad(x, (1, 1))
x.view(6) | x.view(3, 2) | x.reshape(6) | x.t().reshape(6) | x.permute(1, 0) | x.transpose(0, 1)
x.t()
x.T | b.mT | x.expand(4, 2, 3) | x.unsqueeze(0) | x[:1].squeeze() | x[:1].squeeze(0)
x.select(0, 1)
x.narrow(1, 0, 2) | x.split(1)[0] | x.split([1, 1])[1] | x.chunk(3, 1)[0] | x.unbind()[0]
x.diagonal()
x.unfold(1, 2, 1) | x.as_strided((2,), (1,)) | x.movedim(0, 1) | x.flatten() | b.flatten(1)
x.clone() | x.contiguous().clone() | x.t().contiguous() | x.float() | x.to(torch.float32)
x.to(torch.float16)
x[0] | x[0, 1] | x[:, 1] | x[:, 1:] | x[None] | x[...] | x[[0, 1]] | x[i1] | x[x > 0] | x[:, ::2]
F.mse_loss(x, y) | F.cross_entropy(x, i1) | F.nll_loss(x, i1) | F.cross_entropy(x, y.softmax(1))
F.embedding(i1, x) | F.layer_norm(x, (3,)) | F.layer_norm(x, (3,), v, v)
x.clone().add_(1) | x.clone().mul_(2) | x.clone().exp_() | x.clone().zero_() | x.clone().fill_(2)
x.clone().copy_(y) | x.clone().relu_() | x.clone().clamp_(0, 1)
x.clone().masked_fill_(x > 0, 1.0)
x.clone().neg_().sin_() | put(x.clone()) | x.clone().pow_(2) | x.clone().div_(3)
x.clone().sub_(y)
x.add(x).sum().exp() | (x.sum(0) * v).mean() | x.detach() * y | x.clone().t_()
x.clone().unsqueeze_(0)
b[:1].squeeze((0, 1)) | x.round(decimals=1) | torch.rsub(x, y) | torch.rsub(x, 2) | x.floor()
"""
CASES = [e.strip() for line in EXPRESSIONS.strip().splitlines() for e in line.split("|")]


def put(t):
    t[0] = 1.0
    return t


def last_node(library, expression):
    """The type's name and the name() of the result's grad_fn."""
    names = snippet_names(library) | {"put": put}
    torch, var = names["torch"], names["var"]
    names |= {
        "x": var(2, 3),
        "y": (names["seq"](2, 3) * 0.5 + 1).requires_grad_(),
        "p": (names["seq"](2, 3).abs() + 0.5).requires_grad_(),
        "m": var(3, 2),
        "v": var(3),
        "b": var(2, 3, 3),
        "i1": torch.tensor([1, 0]),
        "i2": torch.tensor([[1, 0, 1], [0, 1, 0]]),
    }
    result = eval(expression, names)
    return type(result.grad_fn).__name__, result.grad_fn.name().rsplit("::", 1)[-1]


@pytest.mark.parametrize("expression", CASES)
def test_name_of_the_last_node(expression):
    ours, theirs = (last_node(library, expression) for library in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize(
    "expression", ["x * y", "x + y", "x @ m", "torch.cat([x, y])", "x.sum()", "torch.lerp(x, y, p)"]
)
def test_edges_lead_to_the_same_kinds_of_node(expression):
    def edges(library):
        names = snippet_names(library)
        var = names["var"]
        names |= {"x": var(2, 3), "y": var(2, 3), "p": var(2, 3), "m": var(3, 2)}
        node = eval(expression, names).grad_fn
        return [(names["named"](n), k) for n, k in node.next_functions]

    ours, theirs = (edges(library) for library in LIBRARIES)
    assert ours == theirs


@pytest.mark.parametrize(
    ("expression", "saved"),
    [
        ("x * y", ["self", "other"]),
        ("x / y", ["self", "other"]),
        ("x.exp()", ["result"]),
        ("x.tanh()", ["result"]),
        ("x.sigmoid()", ["result"]),
        ("x.sin()", ["self"]),
        ("x ** 2", ["self", "exponent"]),
        ("x.relu()", ["result"]),
        ("x.mm(m)", ["self", "mat2"]),
        ("x.softmax(1)", ["result", "dim"]),
        ("x.clamp(0, 1)", ["self", "min", "max"]),
    ],
)
def test_saved_values_have_the_same_names(expression, saved):
    def read(library):
        names = snippet_names(library)
        var = names["var"]
        names |= {"x": var(2, 3), "y": var(2, 3), "m": var(3, 2)}
        node = eval(expression, names).grad_fn
        return [describe(getattr(node, "_saved_" + name), library) for name in saved]

    ours, theirs = (read(library) for library in LIBRARIES)
    assert same(ours, theirs), f"rushlight: {ours}\ntorch: {theirs}"
