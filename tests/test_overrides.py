"""__torch_function__ of subclasses, and modes."""

import threading
from typing import ClassVar

import pytest

import rushlight as torch
from rushlight.overrides import (
    BaseTorchFunctionMode,
    TorchFunctionMode,
    handle_torch_function,
    has_torch_function,
    is_tensor_like,
    is_tensor_method_or_property,
    resolve_name,
    wrap_torch_function,
)


class Logged(torch.Tensor):
    log: ClassVar[list] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.log.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


class Plain(torch.Tensor):
    pass


class Names(TorchFunctionMode):
    def __init__(self):
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))


def logged(*values):
    Logged.log = []
    return torch.tensor(values).as_subclass(Logged)


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("a + 1", "add"), ("1 + a", "add"), ("a - b", "sub"), ("2 - a", "__rsub__"),
        ("a / 2", "div"), ("2 / a", "__rtruediv__"), ("a ** 2", "pow"), ("2 ** a", "__rpow__"),
        ("a // 2", "floor_divide"), ("7 // a", "__rfloordiv__"), ("a % 2", "remainder"),
        ("7 % a", "__rmod__"), ("a @ b", "matmul"), ("-a", "neg"), ("abs(a)", "abs"),
        ("a < 1", "lt"), ("a[0]", "__getitem__"), ("b + a", "add"), ("torch.cat([a, b])", "cat"),
        ("torch.exp(a)", "exp"), ("a.exp()", "exp"), ("torch.where(a > 0, b, a)", "where"),
        ("a.sum(dim=0)", "sum"), ("torch.stack((b, a))", "stack"),
    ],
)  # fmt: skip
def test_subclass_is_asked(expression, name):
    a, b = logged(1.0, 2.0), torch.ones(2)
    result = eval(expression, {"a": a, "b": b, "torch": torch})
    assert Logged.log[-1] == name
    assert type(result) is Logged
    plain = eval(expression, {"a": a.as_subclass(torch.Tensor), "b": b, "torch": torch})
    assert type(plain) is torch.Tensor
    assert result.tolist() == plain.tolist()


def test_in_place_and_writing():
    a = logged(1.0, 2.0)
    before = a
    a += 1
    a[0] = 7
    a.mul_(2)
    assert a is before
    assert Logged.log == ["add_", "__setitem__", "mul_"]
    assert a.as_subclass(torch.Tensor).tolist() == [14.0, 6.0]


def test_named_tuples_are_converted():
    result = logged(3.0, 1.0).sort()
    assert type(result).__name__ == "sort"
    assert type(result.values) is Logged


def test_gradients_pass_through_overrides():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = (x.as_subclass(Logged) * 3).exp().sum()
    y.backward()
    assert torch.allclose(x.grad, 3 * (3 * x.detach()).exp())


def test_disabled_override_gives_plain_results():
    class Off(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    assert type(torch.ones(2).as_subclass(Off) + 1) is torch.Tensor


def test_inherited_override_and_priority():
    asked = []

    class Child(Logged):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append((cls, set(types)))
            return super().__torch_function__(func, types, args, kwargs)

    parent, child = logged(1.0), torch.ones(1).as_subclass(Child)
    assert type(parent + child) is Child
    assert asked == [(Child, {Logged, Child})]


def test_not_implemented_and_errors():
    class Refuses(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    class Fails(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            raise ValueError("no")

    with pytest.raises(TypeError, match="returned NotImplemented"):
        torch.exp(torch.ones(2).as_subclass(Refuses))
    with pytest.raises(ValueError, match="no"):
        torch.ones(2).as_subclass(Fails)[0]
    assert (torch.ones(2) + 1).tolist() == [2.0, 2.0]


def test_subclass_without_override_keeps_its_class():
    p = torch.ones(2).as_subclass(Plain)
    assert type(p + 1) is type(p[0]) is type(torch.cat([torch.ones(1), p])) is Plain
    assert not has_torch_function([p])


def test_modes_nest_and_end():
    x = torch.ones(2)
    with Names() as outer:
        with Names() as inner:
            (x + 1)[0] = 3
        torch.zeros(3)
    x.exp()
    assert inner.names == ["add", "__setitem__"]
    assert outer.names == ["add", "__setitem__", "zeros"]


def test_mode_is_out_of_force_while_it_answers_and_comes_back_after_errors():
    class Doubles(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {})) * 2

    with Doubles():
        assert torch.ones(1).item() == 2.0
        with pytest.raises(RuntimeError):
            torch.ones(2).add(torch.ones(3))
        assert torch.ones(1).item() == 2.0
    with pytest.raises(ZeroDivisionError), Doubles():
        raise ZeroDivisionError
    assert torch.ones(1).item() == 1.0


def test_modes_come_before_subclasses_and_belong_to_a_thread():
    a = logged(1.0)
    seen = []
    with Names() as mode:
        a.exp()
        worker = threading.Thread(target=lambda: seen.append(torch.ones(1) + 1))
        worker.start()
        worker.join()
    assert mode.names == Logged.log == ["exp"]
    assert seen[0].item() == 2.0


def test_a_mode_without_a_method_says_so():
    with pytest.raises(NotImplementedError, match="TorchFunctionMode"), TorchFunctionMode():
        torch.ones(2)
    with BaseTorchFunctionMode():
        assert torch.ones(2).tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="left without having been entered"):
        TorchFunctionMode().__exit__()


def test_python_functions_can_be_overridden():
    @wrap_torch_function(lambda x: (x,))
    def twice(x):
        return x * 2

    class Special:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "special", func is twice

    assert twice(torch.ones(1)).item() == 2.0
    assert twice(Special()) == ("special", True)
    assert is_tensor_like(Special())
    assert is_tensor_like(torch.ones(1))
    assert not is_tensor_like(1.0)
    with pytest.raises(TypeError, match="no implementation found"):
        handle_torch_function(torch.exp, [torch.ones(1)])


def test_names():
    assert is_tensor_method_or_property(torch.Tensor.exp)
    assert not is_tensor_method_or_property(torch.exp)
    assert resolve_name(torch.exp) == "rushlight.exp"
    assert resolve_name(torch.Tensor.exp) == "rushlight.Tensor.exp"


class Named:
    """No tensor, but ops ask it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, types


def test_other_classes_are_asked_too():
    x, other = torch.ones(2), Named()
    for result, name in [
        (x + other, "add"),
        (x @ other, "matmul"),
        (x < other, "lt"),
        (other - x, "__rsub__"),
        (torch.add(x, other), "add"),
        (torch.sum(other, 0), "sum"),
        (torch.cat([x, other]), "cat"),
        (x.mul(other), "mul"),
    ]:
        assert result == (name, (Named,))
    with torch._C.DisableTorchFunctionSubclass(), pytest.raises(TypeError):
        x + other


def test_as_subclass_is_a_view_with_the_history():
    class Kind(torch.Tensor):
        pass

    x = torch.ones(3, requires_grad=True)
    y = x * 2
    kind = y.as_subclass(Kind)
    assert type(kind) is Kind
    assert kind._base is y
    kind.mul_(3)  # a write that y sees, history included
    y.sum().backward()
    assert x.grad.tolist() == [6, 6, 6]
    plain = torch.ones(3)
    assert type(plain.as_subclass(Kind).data) is Kind
    assert (
        torch.func.jvp(lambda v: v.as_subclass(Kind) * 2, (plain,), (plain,))[1].tolist() == [2] * 3
    )
    assert torch.vmap(lambda v: v.as_subclass(Kind).sum())(torch.ones(2, 3)).tolist() == [3, 3]
    with pytest.raises(TypeError, match="must be a subclass of Tensor"):
        plain.as_subclass(int)
    with pytest.raises(TypeError, match="must be a subclass of Tensor"):
        plain.as_subclass(3)


def test_names_of_functions_methods_and_attributes():
    name = torch.overrides.resolve_name
    assert name(torch.Tensor.grad.__get__) == "rushlight.Tensor.grad.__get__"
    assert name(torch.nn.functional.relu) == "rushlight.nn.functional.relu"
