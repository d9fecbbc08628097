"""In-place writes through views and to regions of one storage."""

import numpy as np
import pytest

import rushlight as torch
from support import check, leaf, numerical_grad, randleaf, values
from test_inplace import CONFLICT

DISJOINT = {
    "element": (lambda t: t[0, 0].sin(), lambda t: t[1, 1].mul_(2)),
    "rows": (lambda t: t[0].exp() * t[0], lambda t: t[1].zero_()),
    "columns": (lambda t: t[:, 0] ** 2, lambda t: t[:, 1].mul_(3)),
    "setitem": (lambda t: t[1].sin(), lambda t: t.__setitem__(0, 7.0)),
    "setitem_from_itself": (lambda t: t[1].sin(), lambda t: t.__setitem__(0, t[1].cos())),
    "steps": (lambda t: t.view(-1)[::2] ** 2, lambda t: t.view(-1)[1::2].exp_()),
    "corner": (lambda t: t[:2, :2] ** 3, lambda t: t[2].add_(1)),
    "transposed": (lambda t: t.t()[0] ** 2, lambda t: t[:, 2].mul_(2)),
    "before_the_result": (lambda t: t[1:].tanh(), lambda t: t[:1].mul_(0.5)),
}
OVERLAPPING = {
    "whole": (lambda t: t[0] ** 2, lambda t: t.add_(1)),
    "element": (lambda t: t**2, lambda t: t[1, 1].add_(1)),
    "row_and_column": (lambda t: t[0] ** 2, lambda t: t[:, 0].mul_(2)),
    "shifted": (lambda t: t.view(-1)[:5] ** 2, lambda t: t.view(-1)[4:].mul_(2)),
    "transposed": (lambda t: t.t()[1] ** 2, lambda t: t[2, 1].zero_()),
    "diagonal": (lambda t: t[1] ** 2, lambda t: t.diagonal().mul_(2)),
    "mask": (lambda t: t[1] ** 2, lambda t: t.masked_fill_(t.detach() > -9, 1.0)),
}


class TestRegions:
    """Only writes to the very elements that were saved are conflicts."""

    @pytest.mark.parametrize("name", DISJOINT)
    def test_a_write_elsewhere_leaves_the_gradient_exact(self, name):
        def f(x):
            t = x * 1.5
            saved, write = DISJOINT[name]
            y = saved(t).sum()
            write(t)
            return y + (t**2).sum()

        x = randleaf(3, 3)
        f(x).backward()
        np.testing.assert_allclose(values(x.grad), numerical_grad(f, x), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("name", OVERLAPPING)
    def test_a_write_into_what_was_saved_raises(self, name):
        t = randleaf(3, 3) * 1.5
        saved, write = OVERLAPPING[name]
        y = saved(t).sum()
        write(t)
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.backward()

    def test_many_writes_elsewhere(self):
        x = randleaf(100)
        t = x * 1
        y = (t[:1] ** 2).sum()
        for i in range(1, 100):
            t[i] = float(i)
        y.backward()
        assert x.grad[0].item() == pytest.approx(2 * x[0].item())

    def test_the_one_bad_write_among_many_is_named(self):
        t = randleaf(50) * 1
        y = (t[7:9] ** 2).sum()
        for i in range(20, 40):
            t[i].zero_()
        t[8].exp_()
        for i in range(20, 40):
            t[i].mul_(2)
        with pytest.raises(RuntimeError, match=r"overwritten by exp_ at .*t\[8\]\.exp_\(\)"):
            y.backward()

    def test_the_recurrence_of_a_table(self):
        x = leaf([1.0, 1.0])
        t = torch.zeros(10, dtype=torch.float64)
        t[:2] = x
        for i in range(2, 10):
            t[i] = t[i - 1] * 2 + t[i - 2]
        t[9].backward()
        assert x.grad.tolist() == [408, 985]


class TestViewsThatTorchRefuses:
    """Writes that torch forbids although their gradient is defined."""

    @pytest.mark.parametrize(
        "parts",
        [
            lambda t: t.split(1),
            lambda t: t.chunk(3),
            lambda t: t.unbind(),
            lambda t: t.split([1, 1, 1]),
            lambda t: t.tensor_split(3),
        ],
    )
    def test_outputs_of_split_and_its_kind(self, parts):
        def f(x):
            t = x * 1.5
            a, b, c = parts(t)
            a.mul_(3)
            b.exp_()
            return (t**2).sum() + a.sum() + (c**3).sum()

        x = randleaf(3, 3)
        f(x).backward()
        np.testing.assert_allclose(values(x.grad), numerical_grad(f, x), rtol=1e-5, atol=1e-6)

    def test_the_parts_after_their_base_changed(self):
        x = leaf([1.0, 2.0])
        t = x * 1
        a, b = t.unbind()
        t.mul_(10)
        assert a.grad_fn is not None
        (a + b * b).backward()
        assert x.grad.tolist() == [10, 400]

    def test_a_view_made_under_no_grad(self):
        x = leaf([1.0, 2.0])
        t = x * 1
        with torch.no_grad():
            v = t[:1]
        v.mul_(3)
        (t * t).sum().backward()
        assert x.grad.tolist() == [18, 4]

    def test_a_view_made_and_written_under_no_grad_is_not_tracked(self):
        x = leaf([1.0, 2.0])
        t = x * 1
        with torch.no_grad():
            t[:1].mul_(3)
        t.sum().backward()
        assert x.grad.tolist() == [1, 1]

    def test_a_view_made_by_a_function(self):
        class Flat(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.shape = x.shape
                return x.view(-1)

            @staticmethod
            def backward(ctx, g):
                return g.view(ctx.shape) * 10

        x = randleaf(2, 2)
        y = Flat.apply(x * 1)
        y.mul_(3)
        y.sum().backward()
        assert x.grad.tolist() == [[30, 30], [30, 30]]

    @pytest.mark.parametrize(
        "write", [lambda t, v: t.mul_(2), lambda t, v: t[:1].mul_(2), lambda t, v: v[:1].mul_(2)]
    )
    def test_a_write_beside_a_view_made_by_a_function_would_lose_its_backward(self, write):
        class Flat(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.view(-1)

            @staticmethod
            def backward(ctx, g):
                return g * 10

        t = leaf([1.0, 2.0]) * 1
        v = Flat.apply(t)
        with pytest.raises(RuntimeError, match="Output 0 of Flat is a view"):
            write(t, v)
            v.sum().backward()

    def test_so_would_a_write_to_one_of_several(self):
        class Parts(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x[:1], x[1:]

            @staticmethod
            def backward(ctx, a, b):
                return torch.cat([a, b]) * 10

        a, b = Parts.apply(leaf([1.0, 2.0]) * 1)
        with pytest.raises(RuntimeError, match="Output 1 of Parts is a view"):
            a.mul_(3)
            (a.sum() + b.sum()).backward()

    def test_results_saved_by_writes_to_parts(self):
        x = leaf([1.0, 2.0, 3.0])
        t = x * 1
        t.split(1)[2].tanh_()
        (g,) = torch.autograd.grad((t**2).sum(), x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
        y = np.tanh(3.0)
        check(g, [2.0, 4.0, 2 * y * (1 - y**2)])
        check(h, [2.0, 2.0, 2 * (1 - y**2) ** 2 - 4 * y**2 * (1 - y**2)])

    def test_an_argument_that_a_function_returned(self):
        class Same(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, g):
                return g * 10

        x = leaf([1.0, 2.0])
        y = Same.apply(x * 1)
        y.mul_(3)
        y.sum().backward()
        assert x.grad.tolist() == [30, 30]

    def test_a_leaf_stays_protected_in_all_these_ways(self):
        x = leaf([1.0, 2.0])
        with torch.no_grad():
            v = x[:1]
        for write in (lambda: x.unbind()[0].add_(1), lambda: v.add_(1)):
            with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
                write()
        assert x.tolist() == [1, 2]


class TestViews:
    def test_the_base_is_the_root(self):
        t = torch.zeros(2, 3)
        v = t[0]
        w = v[1:]
        assert v._base is t
        assert w._base is t
        assert t._base is None
        assert not t._is_view()
        assert w._is_view()

    def test_detach_is_no_view_for_the_graph(self):
        t = leaf([1.0]) * 1
        assert not t.detach()._is_view()
        assert t.detach()._base is None

    def test_the_grad_fn_of_a_view_follows_its_base(self):
        t = leaf([1.0, 2.0]) * 1
        v = t[1:]
        assert v.grad_fn.name() == "SliceBackward0"
        t.mul_(2)
        assert v.grad_fn.name() == "AsStridedBackward0"
        v.mul_(2)
        assert t.grad_fn.name() == "CopySlices"

    def test_requires_grad_on_a_view_of_a_plain_base(self):
        t = torch.zeros(3)
        v = t[:2].requires_grad_()
        assert v.is_leaf
        assert not t.requires_grad
        t.add_(1)
        assert v.tolist() == [1, 1]

    def test_views_cannot_be_detached_in_place(self):
        v = (leaf([1.0, 2.0]) * 1)[:1]
        with pytest.raises(RuntimeError, match="Can't detach views in-place"):
            v.detach_()

    @pytest.mark.parametrize("shape", [(0,), (2, 0)])
    def test_empty_tensors(self, shape):
        x = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        t = x * 1
        t.add_(1)
        t[:0] = 3.0
        t.view(-1).mul_(2)
        (t**2).sum().backward()
        assert x.grad.shape == shape

    def test_a_0d_tensor(self):
        x = leaf(2.0)
        t = x * 1
        t.view(1).mul_(3)
        t[...] = t.clone() + x
        (t * t).backward()
        assert x.grad.item() == 2 * 8 * 4
