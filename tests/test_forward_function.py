"""Custom Functions in forward mode: what a jvp receives, returns, and may save."""

import gc
import weakref

import pytest

import rushlight as torch
import rushlight.autograd.forward_ad as fwAD
from rushlight.autograd import Function, gradcheck, gradgradcheck
from support import check
from test_forward_ad import derivative, dual, tangent, vector

__all__ = ["dual"]  # a fixture


class Cube(Function):
    """x ** 3 that saves for both modes."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g

    @staticmethod
    def jvp(ctx, t):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * t


class CubeSetup(Function):
    """The same with a setup_context, through its output and an attribute."""

    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.x = inputs[0]
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        return Cube.backward(ctx, g)

    @staticmethod
    def jvp(ctx, t):
        (y,) = ctx.saved_tensors
        return 3 * y / ctx.x * t


@pytest.mark.parametrize("cube", [Cube, CubeSetup])
def test_nested_levels_through_a_custom_jvp(cube):
    x = vector(1.5, 2)
    f = cube.apply
    for expected in (x**3, 3 * x**2, 6 * x, 6 * torch.ones_like(x), 0 * x):
        check(f(x), expected)
        f = derivative(f)


@pytest.mark.parametrize("cube", [Cube, CubeSetup])
def test_custom_functions_in_mixed_modes(cube):
    x = vector(1.5, 2).requires_grad_()
    assert gradcheck(cube.apply, (x,), check_forward_ad=True)
    assert gradgradcheck(cube.apply, (x,), check_fwd_over_rev=True)


def test_what_a_jvp_receives():
    seen = []

    class Product(Function):
        @staticmethod
        def forward(ctx, a, b, k, n):
            assert tangent(a) is None  # forward mode is off
            ctx.set_materialize_grads(k > 0)
            ctx.save_for_forward(a, b)
            mask = a > 0
            ctx.mark_non_differentiable(mask)
            return a * b, mask, n

        @staticmethod
        def jvp(ctx, ta, tb, tk, tn):
            seen.append((ta, tb, tk, tn))
            a, b = ctx.saved_tensors
            return ta * b + (0 if tb is None else a * tb), None, None

    x = vector(1, 2)
    with fwAD.dual_level():
        d = fwAD.make_dual(x, vector(3, 4))
        y, mask, n = Product.apply(d, x, 2.0, torch.tensor(3))
        check(tangent(y), [3, 8])
        assert [tangent(mask), tangent(n)] == [None, None]
        check(seen[0][1], [0, 0])
        assert seen[0][2:] == (None, None)
        Product.apply(d, x, -1.0, torch.tensor(3))
        assert seen[1][1] is None
        with torch.no_grad():
            check(tangent(Product.apply(d, x, 2.0, 3)[0]), [3, 8])
    assert len(seen) == 3
    Product.apply(x, x, 2.0, 3)
    assert len(seen) == 3


def test_a_function_without_a_jvp_names_itself():
    class Plain(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with fwAD.dual_level():
        d = fwAD.make_dual(vector(1), vector(1))
        with pytest.raises(NotImplementedError, match=r"implement the jvp function.*Plain"):
            Plain.apply(d)
        assert Plain.apply(d.detach()).tolist() == [2]


def function_with_jvp(returned, change=False):
    class Custom(Function):
        @staticmethod
        def forward(ctx, x):
            if change:
                ctx.mark_dirty(x)
                return x.mul_(2)
            return x * 2

        @staticmethod
        def jvp(ctx, t):
            return returned(t)

    return Custom.apply


def test_wrong_results_of_a_jvp(dual):
    with pytest.raises(RuntimeError, match=r"number of forward gradients \(expected 1 but got 2\)"):
        function_with_jvp(lambda t: (t, t))(dual)
    with pytest.raises(RuntimeError, match=r"size \[3\] while .* is of size \[5\]"):
        function_with_jvp(lambda t: torch.ones(5))(dual)
    with pytest.raises(RuntimeError, match=r"expected Variable or None \(got int\)"):
        function_with_jvp(lambda t: 3)(dual)
    check(tangent(function_with_jvp(lambda t: None)(dual)), [0, 0, 0])


def test_a_function_that_changes_its_input(dual):
    for jvp in (lambda t: t * 2, lambda t: t.mul_(2)):
        x = dual * 1
        y = function_with_jvp(jvp, change=True)(x)
        assert y is x
        check(tangent(x), [2, 20, 200])


def test_a_function_that_returns_its_input_or_a_view_of_it(dual):
    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def jvp(ctx, t):
            return 7 * t

    class Row(Function):
        @staticmethod
        def forward(ctx, x):
            return x[1:]

        @staticmethod
        def jvp(ctx, t):
            return 5 * t[1:]

    check(tangent(Same.apply(dual)), [7, 70, 700])
    check(tangent(Row.apply(dual)), [50, 500])
    check(tangent(dual), [1, 10, 100])


def test_a_backward_that_is_once_differentiable_refuses_tangents():
    class Once(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x**2 * g

        @staticmethod
        def jvp(ctx, t):
            return t

    x = vector(2).requires_grad_()
    with fwAD.dual_level():
        y = Once.apply(fwAD.make_dual(x, vector(1)))
        with pytest.raises(RuntimeError, match="differentiate twice"):
            torch.autograd.grad(y, x)


def test_no_cycle_is_left_by_a_jvp_that_saved_its_output():
    x = vector(2).requires_grad_()
    with fwAD.dual_level():
        y = CubeSetup.apply(fwAD.make_dual(x, vector(1)))
        dead = weakref.ref(y)
        del y
    gc.collect()
    assert dead() is None


def test_jvp_sees_what_was_saved_for_forward_and_nothing_else():
    seen = []

    class Square(Function):
        @staticmethod
        def forward(ctx, x, kept):
            ctx.save_for_backward(x)
            if kept:
                ctx.save_for_forward(x, x * 3)
            return x * x

        @staticmethod
        def jvp(ctx, t, _):
            seen.append([s.tolist() for s in ctx.saved_tensors])
            return t

        @staticmethod
        def backward(ctx, g):
            seen.append([s.tolist() for s in ctx.saved_tensors])
            return g, None

    x = torch.tensor([2.0], requires_grad=True)
    with fwAD.dual_level():
        for kept in (True, False):
            Square.apply(fwAD.make_dual(x, torch.ones(1)), kept).sum().backward()
    assert seen == [[[2.0], [6.0]], [[2.0]], [], [[2.0]]]
