"""Tensors with a shape and no elements, and parameters of classes of one's own."""

import copy

import pytest

import rushlight as torch
from rushlight._subclasses import FakeTensor, FakeTensorMode
from rushlight._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    is_fake,
)
from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp


def test_ops_answer_with_shapes():
    with FakeTensorMode():
        x = torch.ones(2, 3)
        y = torch.nn.Linear(3, 4)(x)
        z = torch.zeros(3, device="cuda") + 1
    assert is_fake(x)
    assert x.device.type == "cpu"
    assert not x.is_meta
    assert isinstance(y, FakeTensor)
    assert y.shape == (2, 4)
    assert repr(x[0].long()) == "FakeTensor(..., size=(3,), dtype=torch.int64)"
    assert z.device.type == "cuda"


def test_ops_in_place_give_the_same_tensor():
    x = FakeTensorMode().from_tensor(torch.ones(2, 3))
    assert x.add_(1) is x
    assert x.t().stride() == (1, 3)


def test_what_needs_elements_raises():
    x = FakeTensorMode().from_tensor(torch.ones(2, 3))
    for ask in (lambda: x.sum().item(), lambda: bool(x.sum() > 0), x.tolist):
        with pytest.raises(DataDependentOutputException, match="_local_scalar_dense"):
            ask()
    with pytest.raises(DynamicOutputShapeException, match="nonzero"):
        x.nonzero()


def test_real_tensors_are_refused():
    mode = FakeTensorMode()
    x = mode.from_tensor(torch.ones(2))
    assert (x * torch.tensor(3.0)).shape == (2,)
    with pytest.raises(AssertionError, match="convert all Tensors to FakeTensors first"):
        x * torch.ones(2)
    allowed = FakeTensorMode(allow_non_fake_inputs=True)
    assert (allowed.from_tensor(torch.ones(2)) * torch.ones(3, 2)).shape == (3, 2)


def test_shapes_of_a_graph():
    graph = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()))
    out = FakeTensorProp(graph).propagate(torch.ones(2, 3, 8, 8))
    assert out.shape == (2, 4, 6, 6)
    assert [n.meta["tensor_meta"].shape for n in graph.graph.nodes] == [
        (2, 3, 8, 8), (2, 4, 6, 6), (2, 4, 6, 6), (2, 4, 6, 6),
    ]  # fmt: skip


class Marked(torch.Tensor):
    pass


def test_parameters_keep_their_class():
    weight = torch.nn.Parameter(torch.ones(1, 2).as_subclass(Marked))
    assert type(weight) is Marked
    assert isinstance(weight, torch.nn.Parameter)
    assert not isinstance(weight, torch.nn.parameter.UninitializedParameter)
    assert type(torch.nn.Parameter(weight)) is Marked
    assert isinstance(copy.deepcopy(weight), torch.nn.Parameter)
    layer = torch.nn.Linear(2, 1)
    layer.weight = weight
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    layer(torch.ones(2)).sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0]]
    assert not isinstance(torch.ones(1).as_subclass(Marked), torch.nn.Parameter)
