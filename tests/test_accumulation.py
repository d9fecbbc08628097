"""AccumulateGrad: ownership, layout and dtype of .grad."""

import pytest

import rushlight as torch
from rushlight.autograd import grad
from support import check, leaf


class TestAccumulation:
    def test_first_gradient_is_taken_without_a_copy(self):
        x = leaf([1.0, 2.0])
        pointers = []

        class Keep(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a.clone()

            @staticmethod
            def backward(ctx, g):
                out = g * 2
                pointers.append(out.data_ptr())
                return out

        Keep.apply(x).sum().backward()
        assert x.grad.data_ptr() == pointers[0]

    def test_gradient_held_by_the_user_is_copied(self):
        x = leaf([1.0])
        g = torch.ones(1, dtype=torch.float64)
        x.backward(g)
        assert x.grad.data_ptr() != g.data_ptr()
        kept = []
        y = leaf([1.0])
        y.register_hook(kept.append)
        (y * 2).sum().backward()
        assert y.grad.data_ptr() != kept[0].data_ptr()

    def test_later_gradients_are_added_in_place(self):
        x = leaf([1.0])
        (x * 2).sum().backward()
        first, pointer = x.grad, x.grad.data_ptr()
        (x * 2).sum().backward()
        assert x.grad is first
        assert x.grad.data_ptr() == pointer
        assert first.item() == 4

    def test_grad_is_the_same_object_each_time(self):
        x = leaf([1.0])
        x.sum().backward()
        assert x.grad is x.grad

    def test_gradient_takes_the_layout_of_a_dense_leaf(self):
        x = torch.ones(2, 3, dtype=torch.float64).t().requires_grad_()
        (x * 2).sum().backward()
        assert x.grad.stride() == (1, 3)
        e = torch.ones(3, dtype=torch.float64).expand(2, 3).requires_grad_()
        (e * 2).sum().backward()
        assert e.grad.stride() == (3, 1)

    def test_shared_gradients_are_not_shared_between_leaves(self):
        x, w = leaf([1.0]), leaf([1.0])
        (x + w).sum().backward()
        x.grad.mul_(100)
        assert w.grad.item() == 1

    @pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
    def test_create_graph_keeps_the_gradient_differentiable(self):
        x = leaf(2.0)
        (x**3).backward(create_graph=True)
        assert x.grad.requires_grad
        assert x.grad.item() == 12
        assert grad(x.grad, x)[0].item() == 12
        first = x.grad
        (x**3).backward(create_graph=True)
        assert x.grad is not first
        assert x.grad.item() == 24
        x.grad = None

    def test_backward_with_create_graph_needs_no_warning(self):
        x = leaf(2.0)
        (x**3).backward(create_graph=True)
        assert x.grad.requires_grad

    def test_a_gradient_without_history_is_added_to_out_of_place(self):
        x = leaf(2.0)
        (x**2).backward()
        first = x.grad
        (x**2).backward(create_graph=True)
        assert x.grad is not first
        assert (first.item(), x.grad.item()) == (4, 8)

    def test_a_gradient_given_by_the_user_is_added_to_in_place(self):
        x = leaf([1.0])
        given = torch.ones(1, dtype=torch.float64)
        x.grad = given
        (x * 2).sum().backward()
        assert x.grad is given
        assert given.item() == 3

    class Rows(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a):
            return a.clone()

        @staticmethod
        def backward(ctx, g):
            return torch.ones(3, 2, dtype=torch.float64)

    def strides_of_grad(self):
        x = torch.ones(2, 3, dtype=torch.float64).t().requires_grad_()
        self.Rows.apply(x).sum().backward()
        return x.grad.stride()

    def test_the_layout_policy(self):
        assert self.strides_of_grad() == (1, 3)
        with torch.autograd.enforce_grad_layout_policy(False):
            assert self.strides_of_grad() == (2, 1)
            with torch.autograd.grad_mode.enforce_grad_layout_policy(True):
                assert self.strides_of_grad() == (1, 3)
        assert self.strides_of_grad() == (1, 3)

    def test_the_layout_policy_acts_when_made(self):
        policy = torch.autograd.enforce_grad_layout_policy(False)
        try:
            assert self.strides_of_grad() == (2, 1)
        finally:
            policy.__exit__(None, None, None)

    def test_grad_dtype(self):
        x = leaf([1.0, 2.0], torch.bfloat16)
        assert x.grad_dtype == torch.bfloat16
        x.grad_dtype = torch.float32
        (x * 3).sum().backward()
        assert x.grad.dtype == torch.float32
        with pytest.raises(RuntimeError, match="dtype"):
            x.grad_dtype = torch.float64
        x.grad = None
        x.grad_dtype = torch.bfloat16
        (x * 3).sum().backward()
        assert x.grad.dtype == torch.bfloat16

    @pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1, 1)])
    def test_shapes_at_the_edges(self, shape):
        x = torch.ones(shape, dtype=torch.float64, requires_grad=True)
        for _ in range(2):
            (x * 3).sum().backward()
        assert x.grad.shape == shape
        assert (x.grad == 6).all()

    def test_a_retained_gradient_is_added_to_anew(self):
        """What was there may have been saved, or be somebody's."""
        x = leaf([1.0, 2.0])
        y = x * 1
        y.retain_grad()
        y.grad = first = (x * 3).clone()
        z = first * first
        y.sum().backward()
        check(y.grad, [4.0, 7.0])
        check(first, [3.0, 6.0])
        z.sum().backward()
