"""once_differentiable: a derivative that would be dropped raises."""

import pytest

import rushlight as torch
from rushlight.autograd import Function
from rushlight.autograd.function import once_differentiable
from support import leaf


class TestOnceDifferentiable:
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            assert not torch.is_grad_enabled()
            return 2 * ctx.saved_tensors[0] * g

    def test_first_order_works(self):
        x = leaf([3.0])
        self.Square.apply(x).sum().backward()
        assert x.grad.item() == 6

    def test_second_order_raises(self):
        x = leaf([3.0])
        v = torch.ones(1, dtype=torch.float64, requires_grad=True)
        (g,) = torch.autograd.grad(self.Square.apply(x), x, v, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            g.sum().backward()

    def test_second_order_by_grad_raises_too(self):
        x = leaf([3.0])
        (g,) = torch.autograd.grad((self.Square.apply(x) * x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            torch.autograd.grad(g.sum(), x)

    def test_a_tensor_kept_on_ctx_counts_as_saved(self):
        class Square(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.x = x
                return x * x

            @staticmethod
            @once_differentiable
            def backward(ctx, g):
                return 2 * ctx.x * g

        x = leaf([3.0])
        (g,) = torch.autograd.grad((Square.apply(x) * x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            torch.autograd.grad(g.sum(), x)

    @pytest.mark.parametrize("by_attribute", [True, False])
    def test_so_does_a_value_computed_in_forward(self, by_attribute):
        class Exp(Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                if by_attribute:
                    ctx.slope = y * 1
                else:
                    ctx.save_for_backward(y * 1)
                return y

            @staticmethod
            @once_differentiable
            def backward(ctx, g):
                return g * (ctx.slope if by_attribute else ctx.saved_tensors[0])

        x = leaf([3.0])
        (g,) = torch.autograd.grad((Exp.apply(x) * x).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="once_differentiable"):
            torch.autograd.grad(g.sum(), x)

    def test_a_linear_function_that_keeps_nothing_has_no_second_derivative(self):
        class Double(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            @once_differentiable
            def backward(ctx, g):
                return g * 2

        x = leaf([3.0])
        (g,) = torch.autograd.grad((Double.apply(x) + x**3).sum(), x, create_graph=True)
        assert torch.autograd.grad(g.sum(), x)[0].item() == 18

    def test_without_a_second_derivative_nothing_is_recorded(self):
        x = leaf([3.0])
        (g,) = torch.autograd.grad(self.Square.apply(x).sum(), x)
        assert g.grad_fn is None
