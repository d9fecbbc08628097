"""Custom autograd.Function: both styles, the context, what is checked and what is passed."""

import pytest

import rushlight as torch
from rushlight.autograd import Function
from support import check, leaf, randleaf


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


class CubeInTwoParts(Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


@pytest.mark.parametrize("cube", [Cube, CubeInTwoParts])
class TestBothStyles:
    def test_value_and_gradient(self, cube):
        x = leaf([1.0, 2.0])
        y = cube.apply(x)
        assert y.tolist() == [1, 8]
        assert y.grad_fn.name() == cube.__name__ + "Backward"
        y.sum().backward()
        check(x.grad, [3.0, 12.0])

    def test_second_order(self, cube):
        x = leaf(2.0)
        (g,) = torch.autograd.grad(cube.apply(x), x, create_graph=True)
        assert torch.autograd.grad(g, x)[0].item() == 12

    def test_gradcheck(self, cube):
        x = randleaf(3)
        assert torch.autograd.gradcheck(cube.apply, (x,))
        assert torch.autograd.gradgradcheck(cube.apply, (x,))

    def test_no_graph_without_gradients(self, cube):
        assert cube.apply(torch.ones(2)).grad_fn is None
        with torch.no_grad():
            assert not cube.apply(leaf([1.0])).requires_grad

    def test_inside_a_larger_graph(self, cube):
        x = leaf(2.0)
        (cube.apply(x * 2) * x).backward()
        assert x.grad.item() == 8 * 4 * 8

    def test_second_backward_needs_retain_graph(self, cube):
        x = leaf(2.0)
        y = cube.apply(x)
        y.backward(retain_graph=True)
        y.backward()
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            y.backward()

    def test_saved_tensors_are_version_checked(self, cube):
        x = leaf([2.0])
        t = x * 1
        y = cube.apply(t)
        t.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


class TestContext:
    def test_forward_runs_without_recording_and_backward_follows_create_graph(self):
        modes = []

        class Modes(Function):
            @staticmethod
            def forward(ctx, x):
                modes.append(torch.is_grad_enabled())
                return x * 2

            @staticmethod
            def backward(ctx, g):
                modes.append(torch.is_grad_enabled())
                return g * 2

        x = leaf(1.0)
        torch.autograd.grad(Modes.apply(x), x)
        torch.autograd.grad(Modes.apply(x), x, create_graph=True)
        assert modes == [False, False, False, True]

    def test_needs_input_grad(self):
        needs = []

        class Product(Function):
            @staticmethod
            def forward(ctx, a, b, scale):
                return a * b * scale

            @staticmethod
            def backward(ctx, g):
                needs.append(ctx.needs_input_grad)
                return (g if ctx.needs_input_grad[0] else None), None, None

        Product.apply(leaf([1.0]), torch.ones(1), 2.0).sum().backward()
        assert needs == [(True, False, False)]

    def test_non_tensor_arguments_and_attributes(self):
        class Scale(Function):
            @staticmethod
            def forward(ctx, x, factor, options=None):
                ctx.factor, ctx.options = factor, options
                return x * factor

            @staticmethod
            def backward(ctx, g):
                assert ctx.options == {"deep": [1, 2]}
                return g * ctx.factor, None, None

        x = leaf([1.0])
        Scale.apply(x, 5, {"deep": [1, 2]}).sum().backward()
        assert x.grad.item() == 5

    def test_save_for_backward_takes_none_and_intermediates(self):
        class Saves(Function):
            @staticmethod
            def forward(ctx, x):
                middle = x.exp()
                out = middle * 2
                ctx.save_for_backward(None, middle, out)
                return out

            @staticmethod
            def backward(ctx, g):
                nothing, middle, out = ctx.saved_tensors
                assert nothing is None
                assert out.tolist() == (middle * 2).tolist()
                return g * out

        x = leaf([1.0])
        y = Saves.apply(x)
        y.sum().backward()
        check(x.grad, y)

    def test_save_for_backward_takes_only_tensors(self):
        class Saves(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(3)
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g

        with pytest.raises(TypeError, match="save_for_backward can only save variables"):
            Saves.apply(leaf([1.0]))

    def test_saved_inputs_come_back_with_their_history(self):
        class Saves(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 1

            @staticmethod
            def backward(ctx, g):
                assert ctx.saved_tensors[0] is kept
                return g

        kept = leaf([1.0])
        Saves.apply(kept).sum().backward()
        assert kept.grad.item() == 1

    def test_none_grads_are_zeros_unless_told_otherwise(self):
        seen = []

        def make(materialize):
            class Two(Function):
                @staticmethod
                def forward(ctx, x):
                    ctx.set_materialize_grads(materialize)
                    return x * 1, x * 2

                @staticmethod
                def backward(ctx, a, b):
                    seen.append(None if b is None else b.tolist())
                    return a

            return Two

        for materialize in (True, False):
            make(materialize).apply(leaf([1.0, 2.0]))[0].sum().backward()
        assert seen == [[0, 0], None]

    def test_mark_non_differentiable(self):
        class SortLike(Function):
            @staticmethod
            def forward(ctx, x):
                index = torch.zeros(2)
                ctx.mark_non_differentiable(index)
                return x * 2, index

            @staticmethod
            def backward(ctx, g, g_index):
                assert g_index.tolist() == [0, 0]
                return g * 2

        x = leaf([1.0, 2.0])
        y, index = SortLike.apply(x)
        assert y.requires_grad
        assert not index.requires_grad
        assert index.grad_fn is None
        y.sum().backward()
        assert x.grad.tolist() == [2, 2]

    def test_integer_outputs_do_not_require_grad(self):
        class WithCount(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, torch.tensor(3)

            @staticmethod
            def backward(ctx, g, g_count):
                return g * 2

        y, count = WithCount.apply(leaf([1.0]))
        assert y.requires_grad
        assert not count.requires_grad

    def test_outputs_that_are_not_tensors_pass_through(self):
        class Mixed(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, "text", 7

            @staticmethod
            def backward(ctx, g, *rest):
                assert rest == (None, None)
                return g * 2

        x = leaf([1.0])
        y, text, number = Mixed.apply(x)
        assert (text, number) == ("text", 7)
        y.sum().backward()
        assert x.grad.item() == 2

    def test_an_input_returned_as_it_is_becomes_an_output_of_the_function(self):
        class Identity(Function):
            @staticmethod
            def forward(ctx, x):
                return x

            @staticmethod
            def backward(ctx, g):
                return g * 10

        x = leaf([1.0])
        y = Identity.apply(x)
        assert y is not x
        assert y.grad_fn.name() == "IdentityBackward"
        y.sum().backward()
        assert x.grad.item() == 10


class TestMarkDirty:
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def test_returns_the_same_object_with_new_history(self):
        x = leaf([1.0, 2.0])
        t = x * 3
        out = self.Double.apply(t)
        assert out is t
        assert t.grad_fn.name() == "DoubleBackward"
        assert t._version > 0
        t.sum().backward()
        assert x.grad.tolist() == [6, 6]

    def test_leaves_are_protected(self):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            self.Double.apply(leaf([1.0]))

    def test_dirty_inputs_must_be_returned(self):
        class Forgets(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x.mul_(2) + 1

            @staticmethod
            def backward(ctx, g):
                return g

        with pytest.raises(RuntimeError, match="marked as dirty"):
            Forgets.apply(leaf([1.0]) * 1)

    def test_without_gradients_the_same_object_is_returned(self):
        t = torch.ones(2)
        assert self.Double.apply(t) is t
        assert t.tolist() == [2, 2]


def failing(result):
    class Fails(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            return result(g)

    return Fails


class TestWrongBackward:
    def test_too_many_and_too_few_gradients(self):
        for result in (lambda g: (g, g, g), lambda g: g):
            y = failing(result).apply(leaf([1.0]), leaf([1.0]))
            with pytest.raises(RuntimeError, match="incorrect number of gradients"):
                y.sum().backward()

    def test_extra_nones_are_allowed(self):
        x = leaf([1.0])
        failing(lambda g: (g, g, None)).apply(x, leaf([1.0])).sum().backward()
        assert x.grad.item() == 1

    def test_wrong_shape(self):
        y = failing(lambda g: (torch.ones(2), g)).apply(leaf([1.0] * 3), leaf([1.0] * 3))
        with pytest.raises(RuntimeError, match="returned an invalid gradient at index 0"):
            y.sum().backward()

    def test_broadcastable_shapes_are_summed_and_dtypes_cast(self):
        x = leaf([1.0] * 3)
        wide = torch.ones(4, 3, dtype=torch.float32)
        failing(lambda g: (wide, g)).apply(x, leaf([1.0] * 3)).sum().backward()
        assert x.grad.tolist() == [4, 4, 4]
        assert x.grad.dtype == torch.float64

    def test_wrong_type(self):
        y = failing(lambda g: (3, g)).apply(leaf([1.0]), leaf([1.0]))
        with pytest.raises((RuntimeError, TypeError), match="expected Variable or None"):
            y.sum().backward()

    def test_gradient_for_an_input_that_needs_none_is_ignored(self):
        x = leaf([1.0])
        failing(lambda g: (g, g)).apply(x, torch.ones(1)).sum().backward()
        assert x.grad.item() == 1

    def test_none_means_no_gradient(self):
        x, w = leaf([1.0]), leaf([1.0])
        failing(lambda g: (None, g)).apply(x, w).sum().backward()
        assert x.grad is None
        assert w.grad.item() == 1

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_exceptions_come_out_as_raised(self, error):
        def fail(g):
            raise error("from backward")

        with pytest.raises(error, match="from backward"):
            failing(fail).apply(leaf([1.0]), leaf([1.0])).sum().backward()
        x = leaf([1.0])
        (x * 2).sum().backward()
        assert x.grad.item() == 2

    def test_exception_in_forward_leaves_recording_on(self):
        class Fails(Function):
            @staticmethod
            def forward(ctx, x):
                raise LookupError("from forward")

            @staticmethod
            def backward(ctx, g):
                return g

        with pytest.raises(LookupError, match="from forward"):
            Fails.apply(leaf([1.0]))
        assert (leaf([1.0]) * 2).requires_grad

    def test_missing_methods(self):
        class Nothing(Function):
            pass

        class NoBackward(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

        with pytest.raises(NotImplementedError, match="forward"):
            Nothing.apply(leaf([1.0]))
        with pytest.raises(NotImplementedError, match="backward"):
            NoBackward.apply(leaf([1.0])).sum().backward()

    def test_instances_cannot_be_called(self):
        with pytest.warns(DeprecationWarning, match="should not be instantiated"):
            instance = Cube()
        with pytest.raises(RuntimeError, match="Legacy autograd function"):
            instance(leaf([1.0]))


class TestNames:
    def test_the_node_is_the_context_and_is_named_after_the_function(self):
        y = Cube.apply(leaf([1.0]))
        assert type(y.grad_fn).__name__ == "CubeBackward"
        assert isinstance(y.grad_fn, torch.autograd.function.BackwardCFunction)
        assert isinstance(y.grad_fn, torch.autograd.graph.Node)
        assert type(Cube) is torch.autograd.function.FunctionMeta

    def test_attributes_of_the_context_can_be_read_on_the_node(self):
        class Noted(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.note = "kept"
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return g

        assert Noted.apply(leaf([1.0])).grad_fn.note == "kept"

    def test_legacy_classes(self):
        assert issubclass(torch.autograd.function.InplaceFunction, Function)
        assert torch.autograd.NestedIOFunction is torch.autograd.function.NestedIOFunction
        with pytest.raises(RuntimeError, match="NestedIOFunction"):
            torch.autograd.NestedIOFunction.apply(leaf([1.0]))

    def test_calls_without_effect(self):
        class Old(Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_shared_storage((x, x))
                ctx.save_for_backward(x)
                return x * 2

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                ctx.maybe_clear_saved_tensors()
                return g * 2 + 0 * x

        x = leaf([1.0])
        Old.apply(x).sum().backward()
        assert x.grad.item() == 2


class TestManyOutputs:
    class SumDifference(Function):
        @staticmethod
        def forward(ctx, a, b):
            return a + b, a - b

        @staticmethod
        def backward(ctx, g_sum, g_difference):
            return g_sum + g_difference, g_sum - g_difference

    def test_gradients_meet(self):
        a, b = leaf([1.0]), leaf([2.0])
        s, d = self.SumDifference.apply(a, b)
        assert s.grad_fn is d.grad_fn
        assert (s.output_nr, d.output_nr) == (0, 1)
        (s * 3 + d * 5).sum().backward()
        assert (a.grad.item(), b.grad.item()) == (8, -2)

    def test_a_list_or_single_tuple_keeps_its_form(self):
        class One(Function):
            @staticmethod
            def forward(ctx, a):
                return (a * 2,)

            @staticmethod
            def backward(ctx, g):
                return g * 2

        out = One.apply(leaf([1.0]))
        assert isinstance(out, tuple)
        assert len(out) == 1

    def test_the_same_input_twice(self):
        a = leaf([1.0])
        s, d = self.SumDifference.apply(a, a)
        (s * 3 + d * 5).sum().backward()
        assert a.grad.item() == 6
