"""Modes and classes that see calls as ops of aten, and torch.ops.aten itself."""

import copy
import pickle

import pytest

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.utils._python_dispatch import TorchDispatchMode
from rushlight.utils._pytree import tree_map_only
from rushlight.utils.flop_counter import FlopCounterMode


class Names(TorchDispatchMode):
    def __init__(self):
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


X = torch.arange(6.0).reshape(2, 3) + 1


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: X + 1, ["add.Tensor"]),
        (lambda: 2 - X, ["rsub.Scalar"]),
        (lambda: X**2, ["pow.Tensor_Scalar"]),
        (lambda: X == 1, ["eq.Scalar"]),
        (lambda: X.sum(1), ["sum.dim_IntList"]),
        (lambda: X.view(3, 2), ["view.default"]),
        (lambda: X.reshape(-1), ["view.default"]),
        (lambda: X[0, 1:], ["select.int", "slice.Tensor"]),
        (lambda: X[X > 2], ["gt.Scalar", "index.Tensor"]),
        (lambda: F.linear(X, X), ["t.default", "mm.default"]),
        (lambda: X @ X.t(), ["t.default", "mm.default"]),
        (lambda: F.softmax(X, 1), ["_softmax.default"]),
        (
            lambda: F.cross_entropy(X, torch.tensor([0, 1])),
            ["_log_softmax.default", "nll_loss_forward.default"],
        ),
        (lambda: F.layer_norm(X, (3,)), ["native_layer_norm.default"]),
        (lambda: X.clone().add_(1), ["clone.default", "add_.Tensor"]),
        (lambda: torch.cat([X, X]), ["cat.default"]),
        (lambda: X.max(1), ["max.dim"]),
        (lambda: X.to(torch.float64), ["_to_copy.default"]),
        (lambda: F.conv1d(X[None], X[None]), None),
    ],
)
def test_a_mode_sees_ops_of_aten(call, names):
    plain = call()
    with Names() as mode:
        seen = call()
    if names is not None:
        assert mode.names == names
    assert mode.names
    pairs = [(plain, seen)] if isinstance(plain, torch.Tensor) else zip(plain, seen, strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


def test_modes_nest_and_do_not_see_themselves():
    inner, outer = Names(), Names()
    with outer, inner:
        X.exp()
    assert inner.names == outer.names == ["exp.default"]
    X.exp()
    assert len(outer.names) == 1


def test_a_mode_may_answer_otherwise():
    class Zeros(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return torch.zeros_like(result) if func is torch.ops.aten.exp.default else result

    with Zeros():
        assert X.exp().sum().item() == 0
        assert X.sin().sum().item() != 0


def test_gradients_flow_through_a_mode():
    x = X.clone().requires_grad_()
    with Names():
        loss = F.linear(x, x).relu().sum()
    loss.backward()
    expected = torch.autograd.grad(F.linear(x, x).relu().sum(), x)[0]
    assert torch.equal(x.grad, expected)


def test_printing_is_not_seen():
    with Names() as mode:
        str(X)
    assert mode.names == []


def test_an_error_leaves_the_mode():
    mode = Names()
    with pytest.raises(ZeroDivisionError), mode:
        raise ZeroDivisionError
    X.exp()
    assert mode.names == []


class Wrapped(torch.Tensor):
    """A tensor that holds another."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype
        )

    def __init__(self, inner):
        self.inner = inner

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = tree_map_only(Wrapped, lambda t: t.inner, (args, kwargs or {}))
        return tree_map_only(torch.Tensor, Wrapped, func(*plain[0], **plain[1]))


class TestWrapperSubclasses:
    def test_every_op_comes_to_the_class(self):
        x = Wrapped(X)
        for call in (lambda t: t + 1, lambda t: F.linear(t, t), lambda t: t[0], lambda t: t.T @ t):
            found = call(x)
            assert type(found) is Wrapped
            assert torch.equal(found.inner, call(X))

    def test_facts_are_the_inner_ones(self):
        x = Wrapped(X.t())
        assert (x.shape, x.stride(), x.dtype) == (X.t().shape, X.t().stride(), X.dtype)
        assert x.device.type == "cpu"

    def test_a_class_without_dispatch_is_refused(self):
        class Plain(torch.Tensor):
            pass

        with pytest.raises(RuntimeError, match="requires a class with __torch_dispatch__"):
            torch.Tensor._make_wrapper_subclass(Plain, (2,))

    def test_super_computes(self):
        class Counting(torch.Tensor):
            calls = 0

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                Counting.calls += 1
                return super().__torch_dispatch__(func, types, args, kwargs)

        x = X.as_subclass(Counting)
        assert torch.equal((x + 1).as_subclass(torch.Tensor), X + 1)
        assert Counting.calls == 1


class TestAten:
    def test_calls(self):
        aten = torch.ops.aten
        assert torch.equal(aten.add.Tensor(X, X, alpha=2), 3 * X)
        assert torch.equal(aten.add(X, 1), X + 1)
        assert torch.equal(aten.sum.dim_IntList(X, [1], True), X.sum(1, True))
        assert torch.equal(aten.slice.Tensor(X, 1, 1, 3), X[:, 1:3])
        assert torch.equal(aten.index.Tensor(X, [None, torch.tensor([0, 2])]), X[:, [0, 2]])
        out = torch.empty(2, 3)
        assert aten.exp.out(X, out=out) is out
        assert torch.equal(out, X.exp())

    def test_facts_of_an_overload(self):
        op = torch.ops.aten.add.Tensor
        assert (str(op), op.name(), op._schema.name) == (
            "aten.add.Tensor",
            "aten::add.Tensor",
            "aten::add",
        )
        assert repr(op) == "<OpOverload(op='aten.add', overload='Tensor')>"
        assert [a.name for a in op._schema.arguments] == ["self", "other", "alpha"]
        assert op.overloadpacket is torch.ops.aten.add
        assert isinstance(op, torch._ops.OpOverload)
        assert torch.ops.aten.view.default.is_view
        assert torch.ops.aten.add_.Tensor._schema.is_mutable
        assert copy.deepcopy(op) is op
        assert pickle.loads(pickle.dumps(op)) is op

    def test_what_is_not_there(self):
        with pytest.raises(AttributeError, match="has no attribute 'nope'"):
            torch.ops.aten.nope
        with pytest.raises(AttributeError, match="no overload name 'nope'"):
            torch.ops.aten.add.nope
        with pytest.raises(RuntimeError, match="Unknown keyword argument 'beta'"):
            torch.ops.aten.add.Tensor(X, X, beta=1)

    def test_every_name_is_an_op(self):
        for name in dir(torch.ops.aten):
            packet = getattr(torch.ops.aten, name)
            assert packet.overloads()
            assert str(packet) == f"aten.{name}"


class TestFlops:
    def test_forward_and_backward(self):
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        with FlopCounterMode(display=False) as counter:
            model(torch.ones(3, 4)).sum().backward()
        # 3*4*8 and 3*8*2 products; gradients of weights, and of the second layer's input
        assert counter.get_total_flops() == 2 * (96 + 48 + 96 + 48 + 48)
        assert set(counter.get_flop_counts()) == {
            "Global",
            "Sequential",
            "Sequential.0",
            "Sequential.2",
        }

    def test_convolution_and_attention(self):
        q = torch.ones(1, 2, 3, 4)
        with FlopCounterMode(display=False) as counter:
            F.conv2d(torch.ones(2, 3, 8, 8), torch.ones(5, 3, 3, 3))
            F.scaled_dot_product_attention(q, q, q)
        assert counter.get_total_flops() == 2 * (2 * 5 * 36 * 27) + 2 * (2 * 2 * 3 * 3 * 4)

    def test_table(self, capsys):
        with FlopCounterMode():
            torch.nn.Linear(2, 2)(torch.ones(1, 2))
        shown = capsys.readouterr().out
        assert "Linear" in shown
        assert "aten.addmm" in shown
