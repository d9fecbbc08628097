"""Nested tensors equal a loop over their parts, in values and in gradients."""

import copy
import pickle

import pytest

import rushlight as torch

F = torch.nn.functional


def parts(grad=False):
    shapes = [(2, 3), (4, 3), (1, 3)]
    made = [torch.arange(6.0 if n == 2 else 3.0 * n).cos().reshape(n, 3) for n, _ in shapes]
    return [p.double().requires_grad_(grad) for p in made]


LAYOUTS = [torch.jagged, torch.strided]
WEIGHT = torch.arange(6.0, dtype=torch.float64).sin().reshape(2, 3)

FUNCTIONS = {
    "sin": lambda x: torch.sin(x),
    "linear": lambda x: F.linear(x, WEIGHT),
    "softmax": lambda x: torch.softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "product": lambda x: x * x + 2,
    "power": lambda x: 2 / (x**2 + 1),
    "matmul": lambda x: x @ WEIGHT.t(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_ops_are_those_of_the_parts(name, layout):
    f = FUNCTIONS[name]
    ours, theirs = parts(True), parts(True)
    x = torch.nested.as_nested_tensor(ours, layout=layout)
    found = f(x).unbind()
    for a, b in zip(found, theirs, strict=True):
        torch.testing.assert_close(a, f(b))
    sum((a**2).sum() for a in found).backward()
    sum((f(b) ** 2).sum() for b in theirs).backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "prod"])
def test_reductions_over_the_ragged_dimension(name):
    ours, theirs = parts(True), parts(True)
    found = getattr(torch.nested.as_nested_tensor(ours, layout=torch.jagged), name)(1)
    expected = torch.stack([getattr(p, name)(0) for p in theirs])
    torch.testing.assert_close(found, expected)
    (found**2).sum().backward()
    (expected**2).sum().backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


def test_softmax_along_the_ragged_dimension():
    ours = parts()
    found = torch.softmax(torch.nested.as_nested_tensor(ours, layout=torch.jagged), 1)
    for a, b in zip(found.unbind(), ours, strict=True):
        torch.testing.assert_close(a, b.softmax(0))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_stays_within_a_part(causal):
    torch.manual_seed(0)
    pieces = [torch.randn(n, 8, dtype=torch.float64, requires_grad=True) for n in (3, 5)]
    x = torch.nested.as_nested_tensor(pieces, layout=torch.jagged)
    heads = x.unflatten(-1, [2, 4]).transpose(1, 2)
    out = F.scaled_dot_product_attention(heads, heads, heads, is_causal=causal)
    joined = out.transpose(1, 2).flatten(-2)
    for a, p in zip(joined.unbind(), pieces, strict=True):
        h = p.unflatten(-1, [2, 4]).transpose(0, 1)
        own = F.scaled_dot_product_attention(h, h, h, is_causal=causal)
        torch.testing.assert_close(a, own.transpose(0, 1).flatten(-2))
    assert torch.autograd.gradcheck(
        lambda *p: attended(p, causal), tuple(pieces), check_undefined_grad=False
    )


def attended(pieces, causal):
    x = torch.nested.as_nested_tensor(list(pieces), layout=torch.jagged)
    heads = x.unflatten(-1, [2, 4]).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, is_causal=causal).values()


def test_gradients_of_nested_leaves():
    x = torch.nested.nested_tensor(parts(), layout=torch.jagged, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.is_nested
    assert x.grad.layout is torch.jagged
    torch.testing.assert_close(x.grad.values(), 2 * x.values().detach())
    first = x.grad
    (x * x).sum().backward()
    assert x.grad is first
    torch.testing.assert_close(x.grad.values(), 4 * x.values().detach())
    (grad,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(grad.sum(), x)
    torch.testing.assert_close(second.values(), 6 * x.values().detach())


def test_what_stands_for_the_parts_is_never_shown_or_changed():
    x = torch.nested.nested_tensor(parts(), layout=torch.jagged)
    for call in (
        lambda: x.resize_(2, 2),
        lambda: x.set_(torch.ones(2)),
        lambda: x.t_(),
        lambda: x.numpy(),
        lambda: torch.ones(2, 2).copy_(x),
        lambda: torch.utils.swap_tensors(x, torch.ones(2)),
    ):
        with pytest.raises(RuntimeError):
            call()
    with pytest.raises(BufferError, match="layout other than"):
        torch.from_dlpack(x)
    parameter = torch.nn.Parameter(x)
    assert isinstance(parameter, torch.nn.Parameter)
    assert parameter.shape == x.shape
    with pytest.warns(UserWarning, match="copy construct"):
        assert torch.tensor(x).values().equal(x.values())


def test_modules_take_nested_batches():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 1)
    ).double()
    x = torch.nested.as_nested_tensor(parts(), layout=torch.jagged)
    found = model(x)
    for a, p in zip(found.unbind(), parts(), strict=True):
        torch.testing.assert_close(a, model(p))
    found.mean(1).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_padding_and_back():
    x = torch.nested.nested_tensor(parts(), layout=torch.jagged)
    padded = x.to_padded_tensor(-1.0)
    assert padded.shape == (3, 4, 3)
    assert padded[0, 2:].eq(-1).all()
    lengths = x.offsets().diff()
    back = torch.nested.narrow(padded, 1, 0, lengths, layout=torch.jagged)
    assert not back.is_contiguous()
    for a, b in zip(back.contiguous().unbind(), x.unbind(), strict=True):
        assert a.equal(b)
    assert (back * 2).sum().item() == pytest.approx(2 * x.sum().item())
    mask = padded[..., 0] != -1
    assert torch.nested.masked_select(padded[..., 0], mask).offsets().equal(x.offsets())


def test_copies():
    for layout in LAYOUTS:
        x = torch.nested.nested_tensor(parts(), layout=layout, requires_grad=True)
        for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
            assert other.layout is layout
            assert all(a.equal(b) for a, b in zip(other.unbind(), x.unbind(), strict=True))


def test_mistakes_are_explained():
    x = torch.nested.nested_tensor(parts(), layout=torch.jagged)
    with pytest.raises(RuntimeError, match="made apart"):
        x + torch.nested.nested_tensor(parts(), layout=torch.jagged)
    with pytest.raises(RuntimeError, match="lies outside"):
        torch.nested.nested_tensor_from_jagged(torch.ones(3), torch.tensor([0, 9]))
    with pytest.raises(RuntimeError, match="only allows for a single ragged dimension"):
        torch.nested.nested_tensor([torch.ones(1, 2), torch.ones(2, 1)], layout=torch.jagged)
    with pytest.raises(NotImplementedError, match=r"x\.to_padded_tensor\(\)"):
        torch.fft.fft(x)
