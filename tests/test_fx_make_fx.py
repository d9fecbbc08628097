"""Graphs of what functions do with given tensors: they compute the same for other ones."""

import pickle

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.fx.experimental.proxy_tensor import make_fx

F = nn.functional


def views(x):
    y = x.T[1:].clone()
    y[0] = x[0].sum()
    a, b = torch.max(y, dim=1)
    return (a, b), {"u": x.unbind(0)[0], "d": x.data * 2}


def loop(x):
    for row in range(x.shape[0]):
        x = x + x[row] * row
    return x if x.shape[0] == 3 else -x


def layers(x):
    y = F.interpolate(x[None, None], scale_factor=2).flatten(2)
    y = F.layer_norm(y, y.shape[-1:])
    return F.gelu(y).mean(), 1 - y, 2 / (y + 9), y.to(torch.float32)


def in_place(x):
    y = x.clone()
    y.add_(1).mul_(x)
    y += x
    return y, x


@pytest.mark.parametrize("function", [views, loop, layers, in_place])
def test_the_graph_computes_the_same(function):
    torch.manual_seed(0)
    first, second = torch.randn(3, 4), torch.randn(3, 4)
    if function is loop:
        first, second = torch.randn(3, 3), torch.randn(3, 3)
    traced = make_fx(function)(first)
    traced.graph.lint()
    torch.testing.assert_close(traced(second), function(second))
    again = pickle.loads(pickle.dumps(traced))
    torch.testing.assert_close(again(second), function(second))


def test_modules_keep_their_parameters():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    traced = make_fx(net)(torch.ones(2, 3))
    x = torch.randn(5, 3)
    torch.testing.assert_close(traced(x), net(x))
    traced(x).sum().backward()
    assert net[0].weight.grad is not None


def test_random_numbers_are_drawn_anew():
    traced = make_fx(lambda x: x + torch.rand(2))(torch.zeros(2))
    assert not torch.equal(traced(torch.zeros(2)), traced(torch.zeros(2)))


def test_constants_from_outside_are_kept():
    scale = torch.tensor([2.0, 3.0])
    traced = make_fx(lambda x: x * scale)(torch.ones(2))
    assert traced(torch.ones(2)).tolist() == [2.0, 3.0]
    assert [name for name, _ in traced.named_buffers()] == ["_tensor_constant0"]


def test_decompositions_are_traced_in_the_place_of_functions():
    table = {torch.tanh: lambda x: 2 * torch.sigmoid(2 * x) - 1}
    traced = make_fx(lambda x: torch.tanh(x), decomposition_table=table)(torch.ones(2))
    names = [node.name for node in traced.graph.nodes]
    assert "sigmoid" in names
    assert "tanh" not in names
    x = torch.linspace(-1, 1, 5)
    torch.testing.assert_close(traced(x), torch.tanh(x))


def test_gradients_inside_are_refused():
    def f(x):
        return torch.autograd.grad((x * x).sum(), x)

    with pytest.raises(RuntimeError, match=r"make_fx: autograd\.grad inside the function"):
        make_fx(f)(torch.ones(2, requires_grad=True))
    with pytest.raises(RuntimeError, match="make_fx: backward inside the function"):
        make_fx(lambda x: (x * x).sum().backward())(torch.ones(2, requires_grad=True))
    x = torch.ones(2, requires_grad=True)
    assert torch.autograd.grad((x * x).sum(), x)[0].tolist() == [2, 2]
