"""Arguments of custom Functions, and saved tensors that may be read once."""

import weakref

import pytest

from rushlight.autograd import Function
from support import leaf


class Probe:
    """Something weakly referenceable to hang on a tensor."""


class TestArguments:
    class Scaled(Function):
        @staticmethod
        def forward(ctx, x, scale=2, shift=0):
            ctx.scale = scale
            return x * scale + shift

        @staticmethod
        def backward(ctx, g):
            return g * ctx.scale, None, None

    def test_by_keyword_and_by_default(self):
        x = leaf([1.0])
        assert self.Scaled.apply(x).item() == 2
        assert self.Scaled.apply(x, shift=5, scale=3).item() == 8
        self.Scaled.apply(x, scale=4).sum().backward()
        assert x.grad.item() == 4

    def test_setup_context_sees_the_defaults(self):
        seen = []

        class Scaled(Function):
            @staticmethod
            def forward(x, scale=2):
                return x * scale

            @staticmethod
            def setup_context(ctx, inputs, output):
                seen.append(inputs[1])
                ctx.scale = inputs[1]

            @staticmethod
            def backward(ctx, g):
                return g * ctx.scale, None

        x = leaf([1.0])
        Scaled.apply(x).sum().backward()
        Scaled.apply(x, scale=5).sum().backward()
        assert seen == [2, 5]
        assert x.grad.item() == 7

    def test_keyword_only_arguments_are_refused(self):
        class Scaled(Function):
            @staticmethod
            def forward(ctx, x, *, scale=2):
                return x * scale

            @staticmethod
            def backward(ctx, g):
                return g

        with pytest.raises(TypeError, match="keyword-only argument of forward, 'scale'"):
            Scaled.apply(leaf([1.0]), scale=3)

    def test_unknown_keywords_are_refused(self):
        with pytest.raises(TypeError, match="unexpected keyword"):
            self.Scaled.apply(leaf([1.0]), nonsense=3)

    def test_backward_may_take_its_gradients_in_a_list(self):
        class Boxed(Function):
            boxed_grads_call = True

            @staticmethod
            def forward(ctx, x):
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, grads):
                assert isinstance(grads, list)
                b = grads.pop()
                return grads.pop() * 2 + b * 3

        x = leaf([1.0])
        a, b = Boxed.apply(x)
        (a + b).sum().backward()
        assert x.grad.item() == 5

    def test_vjp_is_another_name_for_backward(self):
        class Double(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def vjp(ctx, g):
                return g * 2

        x = leaf([1.0])
        Double.apply(x).sum().backward()
        assert x.grad.item() == 2

    def test_vjp_and_backward_together_are_refused(self):
        class Both(Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g

            @staticmethod
            def vjp(ctx, g):
                return g

        with pytest.raises(RuntimeError, match="Implementing both 'backward' and 'vjp'"):
            Both.apply(leaf([1.0])).sum().backward()


class TestReadOnce:
    class Square(Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 2 * x * g

    def test_saved_tensors_can_be_read_once(self):
        x = leaf([3.0])
        y = self.Square.apply(x)
        y.sum().backward(retain_graph=True)
        assert x.grad.item() == 6
        with pytest.raises(RuntimeError, match="can only be accessed once"):
            y.sum().backward()

    def test_reading_lets_go_of_them(self):
        h = leaf([3.0]) * 1
        h.probe = probe = Probe()
        alive = weakref.ref(probe)
        y = self.Square.apply(h)
        del h, probe
        assert alive() is not None
        y.grad_fn.saved_tensors
        assert alive() is None
