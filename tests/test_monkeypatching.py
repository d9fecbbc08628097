"""Tensor is an ordinary class: programs add methods, replace them and put them back."""

import gc
import operator
import pickle
from unittest import mock

import pytest

import rushlight as torch


@pytest.fixture(autouse=True)
def _restored():
    before = dict(vars(torch.Tensor))
    yield
    assert dict(vars(torch.Tensor)) == before


class Sub(torch.Tensor):
    pass


KINDS = [
    pytest.param(lambda: torch.ones(2), id="tensor"),
    pytest.param(lambda: torch.nn.Parameter(torch.ones(2)), id="parameter"),
    pytest.param(lambda: torch.ones(2).as_subclass(Sub), id="subclass"),
]


@pytest.mark.parametrize("make", KINDS)
def test_attributes_of_all_kinds(make):
    x = make()
    torch.Tensor.twice = lambda self, k=2: self.detach() * k
    torch.Tensor.rank = property(lambda self: self.dim())
    torch.Tensor.label = "any"
    torch.Tensor.zeros = classmethod(lambda cls, n: torch.zeros(n))
    try:
        assert x.twice().tolist() == [2, 2]
        assert (x.rank, x.label) == (1, "any")
        assert torch.Tensor.zeros(1).tolist() == [0]
    finally:
        for name in ("twice", "rank", "label", "zeros"):
            delattr(torch.Tensor, name)
    assert not hasattr(x, "twice")


@pytest.mark.parametrize("make", KINDS)
@pytest.mark.parametrize("name", ["to", "cuda", "sum", "add_", "backward", "requires_grad_"])
def test_methods_are_replaced_and_come_back(make, name):
    x = make()
    with mock.patch.object(torch.Tensor, name, lambda self, *args: ("mine", args)):
        assert getattr(x, name)(1) == ("mine", (1,))
    assert getattr(x, name) != "mine"
    assert (x.detach() + 1).sum().item() == 4


OPERATORS = {
    "__add__": lambda x: x + 1,
    "__radd__": lambda x: 1 + x,
    "__mul__": lambda x: x * 2,
    "__rsub__": lambda x: 3 - x,
    "__matmul__": lambda x: x @ x,
    "__neg__": operator.neg,
    "__eq__": lambda x: x == 1,
    "__lt__": lambda x: x < 3,
    "__getitem__": lambda x: x[0],
    "__pow__": lambda x: x**2,
    "__len__": len,
    "__bool__": lambda x: bool(x[0]),
    "__float__": lambda x: float(x[0]),
    "__repr__": repr,
    "__iadd__": lambda x: operator.iadd(x.clone(), 1),
    "__contains__": lambda x: 1 in x,
    "__iter__": lambda x: [float(v) for v in x],
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_are_replaced_and_come_back(name):
    x = torch.ones(2)
    before = repr(OPERATORS[name](x))
    calls = []
    original = getattr(torch.Tensor, name)

    def counted(self, *args):
        calls.append(name)
        return original(self, *args)

    with mock.patch.object(torch.Tensor, name, counted):
        assert repr(OPERATORS[name](x)) == before
        assert calls
        calls.clear()
        OPERATORS[name](x.as_subclass(Sub))
        assert calls
    calls.clear()
    assert repr(OPERATORS[name](x)) == before
    assert not calls


def test_the_class_of_a_tensor_may_change():
    for make in (kind.values[0] for kind in KINDS):
        for target in (Sub, torch.nn.Parameter, torch.Tensor):
            x = make()
            x.__class__ = target
            assert type(x) is target
            assert x.tolist() == [1, 1]
            assert type(pickle.loads(pickle.dumps(x))) is target
            del x
    gc.collect()
    assert torch.ones(1000).sum().item() == 1000


def test_printing_goes_through_repr():
    x = torch.ones(2, 3)
    original = torch.Tensor.__repr__
    with mock.patch.object(torch.Tensor, "__repr__", lambda t: f"{tuple(t.shape)} {original(t)}"):
        assert str(x).startswith("(2, 3) tensor([[")
        assert f"{x}" == repr(x) == str(x)
        assert "(2, 3)" in str([x])
        assert "(2, 3)" in repr(torch.nn.Parameter(x))
    assert str(x).startswith("tensor")


class TestModules:
    """Module as well, and every class of layers."""

    def test_calls(self):
        class Child(torch.nn.Linear):
            pass

        calls = []
        original = torch.nn.Module.__call__

        def counted(self, *args):
            calls.append(type(self).__name__)
            return original(self, *args)

        model = torch.nn.Sequential(torch.nn.Linear(2, 2), Child(2, 2))
        for owner, expected in (
            (torch.nn.Module, ["Sequential", "Linear", "Child"]),
            (torch.nn.Linear, ["Linear", "Child"]),
            (Child, ["Child"]),
        ):
            with mock.patch.object(owner, "__call__", counted):
                model(torch.ones(1, 2))
            assert calls == expected
            calls.clear()
            model(torch.ones(1, 2))
            assert not calls

    def test_conversions_call_the_tensors_methods(self):
        for name in ("to", "half", "cuda"):
            calls = []
            with mock.patch.object(
                torch.Tensor, name, lambda t, *args, calls=calls, **options: calls.append(1) or t
            ):
                module = torch.nn.Linear(1, 1)
                module.to(torch.float64) if name == "to" else getattr(module, name)()
            assert calls == [1, 1]
