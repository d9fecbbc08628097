"""In-place operations: versions, what they forbid, and gradients through mutated views."""

import numpy as np
import pytest

import rushlight as torch
from support import check, leaf, numerical_grad, randleaf, values

CONFLICT = "modified by an inplace operation"


class TestVersions:
    def test_each_in_place_operation_counts_once(self):
        t = torch.ones(3)
        assert t._version == 0
        for n, op in enumerate(
            (
                lambda: t.add_(1),
                lambda: t.mul_(2),
                lambda: t.zero_(),
                lambda: t.fill_(3),
                lambda: t.copy_(torch.zeros(3)),
                lambda: t.exp_(),
                lambda: t.clamp_(0, 1),
                lambda: t.masked_fill_(t > 0, 2.0),
                lambda: t.__setitem__(0, 1.0),
                lambda: t.uniform_(),
                lambda: torch.add(t, 1, out=t),
            )
        ):
            op()
            assert t._version == n + 1

    def test_reading_does_not_count(self):
        t = torch.ones(3)
        t.sum(), t + 1, t[0], t.tolist(), t.clone(), t.detach(), t.numpy()
        assert t._version == 0

    def test_views_and_detached_tensors_share_the_counter(self):
        t = torch.ones(4)
        v, d = t[1:], t.detach()
        v.add_(1)
        d.add_(1)
        assert t._version == v._version == d._version == 2

    def test_in_place_under_no_grad_counts_too(self):
        t = torch.ones(4)
        with torch.no_grad():
            t.add_(1)
        assert t._version == 1

    def test_in_place_returns_the_same_object(self):
        t = torch.ones(2)
        assert t.add_(1) is t
        assert t.zero_() is t
        assert t.unsqueeze_(0) is t
        assert t.shape == (1, 2)
        assert t.squeeze_(0) is t
        assert t.shape == (2,)


# An operation that saves t for its backward, and what it saved.
SAVERS = {
    "mul": lambda t, x: t * x,
    "square": lambda t, x: t * t,
    "pow": lambda t, x: t**2,
    "sin": lambda t, x: t.sin(),
    "div": lambda t, x: x / t,
    "matmul": lambda t, x: t.view(1, -1) @ x.view(-1, 1),
    "log": lambda t, x: t.log(),
    "view_saved": lambda t, x: t.view(3, 1) * x,
    "maximum": lambda t, x: torch.maximum(t, x),
    "norm": lambda t, x: t.norm(),
}


class TestConflicts:
    @pytest.mark.parametrize("name", SAVERS)
    def test_overwriting_a_saved_value_raises_in_backward(self, name):
        x = leaf([1.0, 2.0, 3.0])
        t = x * 1.5
        y = SAVERS[name](t, x)
        t.add_(1)
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.sum().backward()

    @pytest.mark.parametrize("op", ["exp", "sigmoid", "tanh", "sqrt"])
    def test_overwriting_a_saved_result_raises_in_backward(self, op):
        y = getattr(leaf([1.0, 2.0]), op)()
        y.add_(1)
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.sum().backward()

    def test_the_message_tells_shape_and_versions(self):
        x = leaf([1.0, 2.0, 3.0], torch.float32)
        y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match=CONFLICT) as info:
            y.sum().backward()
        text = str(info.value)
        assert "torch.FloatTensor [3]" in text
        assert "is at version 1; expected version 0" in text

    def test_values_that_were_not_saved_may_be_overwritten(self):
        x = leaf([1.0, 2.0])
        y = (x + 1).mul_(3).add_(2)
        y.sum().backward()
        assert x.grad.tolist() == [3, 3]

    def test_writing_through_a_view_of_a_saved_tensor_raises(self):
        x = leaf([1.0, 2.0])
        t = x * 1
        y = t * t
        t[0] = 5.0
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.sum().backward()

    def test_writing_the_region_that_a_view_saved_raises(self):
        a = leaf([[1.0, 2.0], [3.0, 4.0]]) * 1
        y = a[1].sin()
        a[1] = 0.0
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.sum().backward()

    def test_writing_through_detach_is_seen_too(self):
        x = leaf([1.0, 2.0])
        t = x * 1
        y = t * t
        t.detach().zero_()
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.sum().backward()

    def test_updating_a_parameter_between_forward_and_backward_raises(self):
        w = leaf([[1.0, 2.0], [3.0, 4.0]])
        x = leaf([[1.0, 1.0]])
        y = x @ w
        with torch.no_grad():
            w.sub_(0.1)
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.sum().backward()

    def test_the_conflict_leaves_the_engine_usable(self):
        x = leaf([1.0])
        y = x.exp()
        y.add_(1)
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.sum().backward()
        assert x.grad is None
        x.exp().sum().backward()
        assert x.grad.item() == pytest.approx(np.e)

    def test_retained_graphs_see_later_writes(self):
        x = leaf([2.0])
        t = x * 1
        y = (t * t).sum()
        y.backward(retain_graph=True)
        t.add_(1)
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.backward()


class TestLeafProtection:
    @pytest.mark.parametrize(
        "write",
        [
            lambda x: x.add_(1),
            lambda x: x.zero_(),
            lambda x: x.copy_(torch.ones(3)),
            lambda x: x.clamp_(0, 1),
            lambda x: torch.nn.functional.relu(x, inplace=True),
        ],
    )
    def test_a_leaf_that_requires_grad_cannot_be_written(self, write):
        x = leaf([1.0, 2.0, 3.0])
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            write(x)
        assert x.tolist() == [1, 2, 3]
        assert x._version == 0

    @pytest.mark.parametrize(
        "write",
        [
            lambda x: x.view(3, 1).add_(1),
            lambda x: x[1:].zero_(),
            lambda x: x.__setitem__(0, 9.0),
            lambda x: x.__setitem__(slice(None), torch.zeros(3)),
        ],
    )
    def test_nor_can_a_view_of_it(self, write):
        x = leaf([1.0, 2.0, 3.0])
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            write(x)
        assert x.tolist() == [1, 2, 3]
        assert x._version == 0

    def test_a_plain_leaf_may_be_written_and_joins_the_graph(self):
        w = leaf([2.0])
        t = torch.ones(1, dtype=torch.float64)
        t.mul_(w)
        assert t.requires_grad
        assert not t.is_leaf
        t.sum().backward()
        assert w.grad.item() == 1

    def test_out_argument_refuses_gradients(self):
        x, out = leaf([1.0]), torch.zeros(1, dtype=torch.float64)
        with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
            torch.add(x, 1, out=out)
        assert out.item() == 0

    @pytest.mark.parametrize("op", [torch.lt, torch.ne, torch.isnan, torch.logical_not])
    def test_out_of_what_has_no_derivative(self, op):
        x, out = leaf([1.0, 2.0]), torch.empty(2, dtype=torch.bool)
        args = (x, x) if op in (torch.lt, torch.ne) else (x,)
        assert op(*args, out=out) is out
        assert out.tolist() == op(*args).tolist()
        assert not out.requires_grad


# name -> function of a leaf that mutates a non-leaf through views
MUTATIONS = {
    "whole": lambda t: t.mul_(3).sin_(),
    "slice": lambda t: t[1:].mul_(3),
    "row": lambda t: t[0].exp_(),
    "column_of_transposed": lambda t: t.t()[1].sin_(),
    "chained_views": lambda t: t.view(-1)[2:7].mul_(2).add_(1),
    "diagonal": lambda t: t.diagonal().zero_(),
    "setitem_with_history": lambda t: t.__setitem__(0, (t[1].clone() ** 2)),
    "setitem_mask": lambda t: t.__setitem__(t.detach() > 0, 0.5),
    "masked_fill": lambda t: t.masked_fill_(t.detach() > 0, 2.0),
    "copy": lambda t: t[:2].copy_(t[1:].clone() * 2),
    "view_then_base": lambda t: (t[1:].mul_(3), t.mul_(2), t[:, 0].add_(1)),
    "select_then_slice": lambda t: t[1][1:].mul_(4),
    "unsqueezed": lambda t: t.unsqueeze(0)[0, :, 1].cos_(),
    "fill": lambda t: t[0].fill_(7.0),
}


class TestGradientsThroughMutation:
    @pytest.mark.parametrize("name", MUTATIONS)
    def test_gradient_is_the_numerical_one(self, name):
        def f(x):
            t = x * 1.5
            MUTATIONS[name](t)
            return (t**2).sum()

        x = randleaf(3, 3)
        f(x).backward()
        np.testing.assert_allclose(values(x.grad), numerical_grad(f, x), rtol=1e-5, atol=1e-6)

    @pytest.mark.parametrize("name", MUTATIONS)
    def test_second_derivative_is_the_numerical_one(self, name):
        def f(x):
            t = x * 1.5
            MUTATIONS[name](t)
            return (t**3).sum()

        def slope(x):
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                return (torch.autograd.grad(f(x), x, create_graph=True)[0] ** 2).sum()

        x = randleaf(3, 3)
        (g,) = torch.autograd.grad(f(x), x, create_graph=True)
        (h,) = torch.autograd.grad((g**2).sum(), x)
        np.testing.assert_allclose(values(h), numerical_grad(slope, x), rtol=1e-4, atol=1e-4)

    def test_a_view_sees_a_later_write_to_its_base(self):
        x = leaf([1.0, 2.0, 3.0])
        t = x * 2
        v = t[1:]
        t.mul_(5)
        v.sum().backward()
        assert x.grad.tolist() == [0, 10, 10]

    def test_a_base_sees_a_later_write_to_its_view(self):
        x, w = leaf([1.0, 2.0, 3.0]), leaf([4.0, 5.0])
        t = x * 2
        v = t[1:]
        v.mul_(w)
        t.sum().backward()
        check(x.grad, [2.0, 8.0, 10.0])
        check(w.grad, [4.0, 6.0])

    def test_a_plain_base_joins_the_graph_when_its_view_is_written(self):
        w = leaf([4.0, 5.0])
        t = torch.zeros(3, dtype=torch.float64)
        v = t[1:]
        v.copy_(w)
        assert t.requires_grad
        assert v.requires_grad
        (t * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum().backward()
        assert w.grad.tolist() == [2, 3]

    def test_in_place_changes_the_grad_fn(self):
        t = leaf([1.0]) * 2
        before = t.grad_fn
        t.add_(1)
        assert t.grad_fn is not before
        assert t.grad_fn.name() == "AddBackward0"
        assert t.grad_fn.next_functions[0][0] is before

    def test_retain_grad_follows_the_tensor_through_in_place(self):
        t = leaf([1.0]) * 2
        t.retain_grad()
        t.mul_(10)
        (t * 3).sum().backward()
        assert t.grad.item() == 3


# A saved part, and a write to another part: no conflict, and torch's single counter says one.

# A saved part and a write that reaches into it.


class TestIncrementVersion:
    def test_it_counts_as_a_write(self):
        t = leaf([1.0]) * 1
        y = t**2
        torch.autograd.graph.increment_version(t)
        assert t._version == 1
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.sum().backward()

    def test_it_takes_several_tensors(self):
        a, b = torch.zeros(1), torch.zeros(2)
        torch.autograd.graph.increment_version([a, b[:1]])
        assert (a._version, b._version) == (1, 1)

    def test_a_write_that_restores_can_be_hidden(self):
        x = leaf([1.0, 2.0])
        t = x * 1
        y = (t**2).sum()
        content = t.tolist()
        with torch.autograd.grad_mode._unsafe_preserve_version_counter(t):
            t.detach().zero_()
            t.detach().copy_(torch.tensor(content))
        assert t._version == 0
        y.backward()
        assert x.grad.tolist() == [2, 4]

    def test_inference_tensors_are_passed_over(self):
        with torch.inference_mode():
            t = torch.zeros(1)
        torch.autograd.graph.increment_version(t)


class TestOverlap:
    @pytest.mark.parametrize(
        "write",
        [
            lambda t: t.add_(1),
            lambda t: t.mul_(2),
            lambda t: t.copy_(torch.ones(3, 2)),
            lambda t: torch.add(torch.ones(3, 2), 1, out=t),
        ],
    )
    def test_writing_to_an_expanded_tensor_raises(self, write):
        base = torch.zeros(1, 2)
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            write(base.expand(3, 2))
        assert base.tolist() == [[0, 0]]

    def test_partly_overlapping_source_and_target(self):
        t = torch.arange(6.0)
        with pytest.raises(RuntimeError, match=r"(?i)memory"):
            t[1:].add_(t[:-1])
        assert t.tolist() == [0, 1, 2, 3, 4, 5]

    def test_the_same_memory_as_source_and_target_is_fine(self):
        t = torch.arange(3.0)
        assert t.add_(t).tolist() == [0, 2, 4]
        assert t.mul_(t.view(3)).tolist() == [0, 4, 16]


def test_a_tensor_multiplied_by_itself_in_place_has_the_right_gradient():
    x = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = x * 1
    y.mul_(y)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 6.0]


class TestAssigningData:
    """The version counter belongs to the tensor: new memory does not make an old write unseen."""

    def test_a_write_before_it_is_noticed(self):
        x = leaf([1.0, 2.0])
        a = x.clone()
        y = (a * a).sum()
        with torch.no_grad():
            a.add_(1)
        a.data = a.data.clone()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_a_leaf_written_without_recording(self):
        x = leaf([1.0, 2.0])
        y = (x * x).sum()
        with torch.no_grad():
            x.add_(1)
        x.data = torch.zeros(2, dtype=torch.float64)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_without_a_write_the_new_values_are_used(self):
        x = leaf([1.0, 2.0])
        y = (x * x).sum()
        new = torch.tensor([5.0, 6.0], dtype=torch.float64)
        new.add_(0)  # its own versions do not matter
        x.data = new
        y.backward()
        check(x.grad, [10.0, 12.0])

    def test_a_write_after_it_is_noticed(self):
        x = leaf([1.0, 2.0])
        x.data = torch.ones(2, dtype=torch.float64)
        y = (x * x).sum()
        x.data = torch.zeros(2, dtype=torch.float64).add_(1)
        with torch.no_grad():
            x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()

    def test_what_others_saved_of_the_new_memory_stays_valid(self):
        x, p = leaf([1.0, 2.0]), leaf([0.0, 0.0])
        with torch.no_grad():
            for _ in range(3):
                p.add_(1)
        fast = x * 3
        loss = (fast * fast).sum()
        p.data = fast
        loss.backward()
        check(x.grad, [18.0, 36.0])

    def test_many_assignments(self):
        x = leaf([1.0, 2.0])
        with torch.no_grad():
            x.add_(1)
        y = (x * x).sum()
        for _ in range(50):
            x.data = x.data * 1
        y.backward()
        check(x.grad, [4.0, 6.0])

    def test_set_counts_as_a_write(self):
        x = leaf([1.0, 2.0])
        y = (x * x).sum()
        with torch.no_grad():
            x.set_(torch.zeros(2, dtype=torch.float64))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward()


class TestOpsWithoutDerivative:
    @pytest.mark.parametrize(
        "op", ["logical_and_", "logical_or_", "logical_xor_", "eq_", "lt_", "ne_"]
    )
    def test_integers_never_require_grad(self, op):
        a, b = torch.tensor([1, 0]), leaf([1.0, 2.0])
        getattr(a, op)(b)
        assert not a.requires_grad
        assert a.grad_fn is None

    def test_a_plain_float_stays_plain(self):
        a = torch.tensor([1.0, 0.0], dtype=torch.float64)
        assert not a.logical_and_(leaf([1.0, 2.0])).requires_grad

    def test_what_is_overwritten_gets_no_gradient(self):
        x = leaf([1.0, 2.0])
        a = x * 3
        a.logical_and_(torch.ones(2))
        a.sum().backward()
        check(x.grad, [0.0, 0.0])


class TestLeafThatIsAView:
    def test_a_view_of_it_cannot_be_written(self):
        base = torch.zeros(4, dtype=torch.float64)
        b = base[:2].requires_grad_()
        with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
            b[:1].add_(1)

    def test_a_recorded_write_through_another_view_gives_it_a_history(self):
        base, w = torch.ones(4, dtype=torch.float64), leaf([2.0, 3.0, 4.0])
        b = base[:2].requires_grad_()
        base[:3].mul_(w)
        assert not b.is_leaf
        b.sum().backward()
        check(w.grad, [1.0, 1.0, 0.0])

    def test_a_write_that_is_not_recorded_leaves_it_a_leaf(self):
        base = torch.zeros(4, dtype=torch.float64)
        b = base[:2].requires_grad_()
        base.add_(1)
        assert b.is_leaf
        (b * b).sum().backward()
        check(b.grad, [2.0, 2.0])


class TestReductionsInPlace:
    """The rule reads what was overwritten, whoever asks for a gradient."""

    @pytest.mark.parametrize("reduce", ["prod", "amax", "amin", "sum", "mean"])
    def test_only_the_source_requires_grad(self, reduce):
        source, index = leaf([2.0, 3.0, 4.0]), torch.tensor([0, 1, 1])
        torch.ones_like(source).scatter_reduce(0, index, source, reduce).sum().backward()
        expected, source.grad = source.grad, None
        torch.ones_like(source).scatter_reduce_(0, index, source, reduce).sum().backward()
        check(source.grad, expected.tolist())

    @pytest.mark.parametrize("reduce", ["amax", "amin"])
    def test_what_is_left_out_is_no_tie(self, reduce):
        x, index = leaf([1.0, 2.0, 3.0]), torch.tensor([0, 1, 1])

        def reduced(x):
            return x.scatter_reduce(0, index, x, reduce, include_self=False)

        reduced(x).sum().backward()
        check(x.grad, [1.0, 0.0, 2.0] if reduce == "amax" else [1.0, 1.0, 1.0])
        tangent = torch.func.jvp(reduced, (x.detach(),), (torch.ones_like(x),))[1]
        check(tangent, [1.0, 1.0, 1.0])
