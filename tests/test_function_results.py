"""What ``Function.apply`` returns, and which tensors may be marked dirty."""

import pytest

import rushlight as torch
from rushlight.autograd import Function
from support import check, leaf


class Identity(Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g


def test_an_input_of_a_subclass_keeps_its_class():
    class Mine(torch.Tensor):
        pass

    plain = torch.ones(2).as_subclass(Mine)
    assert type(Identity.apply(plain)) is Mine
    x = torch.ones(2).as_subclass(Mine).requires_grad_()
    y = Identity.apply(x)
    assert type(y) is Mine
    assert y is not x
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert type(Identity.apply(torch.nn.Parameter(torch.ones(2)))) is torch.Tensor


def test_an_object_returned_twice_is_one_result():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            return y, y

        @staticmethod
        def backward(ctx, first, second):
            return 10 * first + second

    x = leaf([1.0])
    a, b = Both.apply(x)
    assert a is b
    assert a.output_nr == 1
    a.sum().backward()
    check(x.grad, [1.0])


def test_an_input_returned_twice_is_two_results():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            return x, x

        @staticmethod
        def backward(ctx, first, second):
            return 10 * first + second

    x = leaf([1.0])
    a, b = Both.apply(x)
    assert a is not b
    (a + 3 * b).sum().backward()
    check(x.grad, [13.0])


def test_the_backward_of_a_node_can_be_called():
    y = Identity.apply(leaf([3.0]))
    check(y.grad_fn.apply(torch.tensor([2.0])), [2.0])
    check(y.grad_fn(torch.tensor([2.0], dtype=torch.float64)), [2.0])


class Doubled(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_recording_a_dirty_input_that_requires_grad_stays_itself(mode):
    x, plain = leaf([1.0]), torch.ones(1)
    with mode():
        y, z = Doubled.apply(x), Doubled.apply(plain)
    assert y is not x
    assert z is plain
    assert (y.requires_grad, x.requires_grad, x.is_leaf) == (False, True, True)
    assert y.data_ptr() == x.data_ptr()
    check(x, [2.0])


@pytest.mark.parametrize("view", [lambda x: x[:1], lambda x: x.view_as(x)])
def test_a_view_of_an_input_cannot_be_marked_dirty(view):
    class Writes(Function):
        @staticmethod
        def forward(ctx, x):
            part = view(x)
            ctx.mark_dirty(part)
            return part

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.raises(RuntimeError, match="a view of argument 0"):
        Writes.apply(leaf([1.0, 2.0]) * 1)


def test_a_new_tensor_marked_dirty_is_warned_of():
    class Makes(Function):
        @staticmethod
        def forward(ctx, x):
            y = x + 1
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g

    with pytest.warns(UserWarning, match="received a tensor that was not an input"):
        Makes.apply(leaf([1.0]) * 1)
