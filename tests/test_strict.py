"""strict(): changes that the engine cannot version raise instead of giving wrong gradients."""

import threading

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import strict
from support import leaf, location_text

SECOND = "backward through the graph a second time"
CONFLICT = "modified by an inplace operation"


class TestData:
    def test_a_write_through_data_is_noticed(self):
        with strict(), pytest.raises(RuntimeError, match=CONFLICT):
            a = leaf([1.0])
            b = (a * a).sum()
            a.data.add_(1)
            b.backward()

    def test_data_of_a_result(self):
        with strict(), pytest.raises(RuntimeError, match=CONFLICT):
            y = leaf([1.0]).exp()
            y.data.zero_()
            y.sum().backward()

    def test_without_strict_it_is_as_in_torch(self):
        a = leaf([1.0])
        b = (a * a).sum()
        a.data.add_(1)
        b.backward()
        assert a.grad.item() == 4
        assert a.data._version == 0

    def test_a_write_to_data_of_what_nobody_saved_is_fine(self):
        with strict():
            a = leaf([1.0])
            b = (a + 1).sum()
            a.data.add_(1)
            b.backward()
        assert a.grad.item() == 1


class TestExportedMemory:
    def test_a_numpy_array_made_before_the_save(self):
        with strict(), pytest.raises(RuntimeError, match="modified outside rushlight") as info:
            a = leaf([1.0])
            array = a.detach().numpy()
            b = (a * a).sum()
            array[:] = 5
            b.backward()
        assert "MulBackward0" in location_text(info.value)
        assert __file__ in location_text(info.value)

    def test_an_array_made_after_the_save_cannot_be_written(self):
        with strict(), pytest.raises(ValueError, match="read-only"):
            a = leaf([1.0])
            b = (a * a).sum()
            a.detach().numpy()[:] = 5
        b.backward()
        assert a.grad.item() == 2

    def test_a_tensor_on_the_memory_of_an_array(self):
        array = np.ones(2)
        with strict(), pytest.raises(RuntimeError, match="modified outside rushlight"):
            w = leaf([1.0, 1.0])
            y = (torch.from_numpy(array) * w).sum()
            array[0] = 7
            y.backward()

    def test_a_buffer(self):
        with strict(), pytest.raises(RuntimeError, match="modified outside rushlight"):
            a = leaf([1.0])
            view = memoryview(a.detach()).cast("B").cast("d")
            b = a.exp() * a
            view[0] = 3.0
            b.sum().backward()

    def test_memory_that_did_not_change_passes(self):
        with strict():
            a = leaf([3.0])
            array = a.detach().numpy()
            (a * a).sum().backward()
            assert array[0] == 3
        assert a.grad.item() == 6

    def test_second_derivatives_pass(self):
        with strict():
            a = leaf([3.0])
            a.detach().numpy()
            (g,) = torch.autograd.grad((a**3).sum(), a, create_graph=True)
            assert torch.autograd.grad(g.sum(), a)[0].item() == 18


class TestSecondBackward:
    def test_it_raises_even_if_nothing_was_saved(self):
        with strict():
            y = (leaf([1.0]) + 1).sum()
            y.backward()
            with pytest.raises(RuntimeError, match=SECOND):
                y.backward()

    def test_retain_graph_allows_it(self):
        with strict():
            x = leaf([1.0])
            y = (x + 1).sum()
            y.backward(retain_graph=True)
            y.backward()
        assert x.grad.item() == 2

    def test_without_strict_it_is_as_in_torch(self):
        y = (leaf([1.0]) + 1).sum()
        y.backward()
        y.backward()


class TestTheMode:
    def test_it_ends_with_the_block_and_after_exceptions(self):
        with pytest.raises(ZeroDivisionError), strict():
            1 / 0
        y = (leaf([1.0]) + 1).sum()
        y.backward()
        y.backward()

    def test_as_a_decorator(self):
        @strict()
        def twice():
            y = (leaf([1.0]) + 1).sum()
            y.backward()
            y.backward()

        with pytest.raises(RuntimeError, match=SECOND):
            twice()

    def test_it_can_be_switched_off_inside(self):
        with strict(), strict(False):
            y = (leaf([1.0]) + 1).sum()
            y.backward()
            y.backward()

    def test_it_is_the_threads_own(self):
        errors = []

        def work():
            try:
                y = (leaf([1.0]) + 1).sum()
                y.backward()
                y.backward()
            except RuntimeError as error:
                errors.append(error)

        with strict():
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        assert errors == []

    def test_sound_programs_give_the_same_gradients(self):
        def gradient():
            x = leaf([0.5, 1.5])
            h = (x * 2).exp()
            h = torch.cat([h, h.sin()])
            h[1:3] = h[1:3].clone() * 3
            (h.softmax(0) ** 2).sum().backward()
            return x.grad.tolist()

        plain = gradient()
        with strict():
            assert gradient() == plain


class TestAlwaysNoticed:
    """What costs nothing to notice raises in every mode."""

    def test_an_argument_written_without_mark_dirty(self):
        class Triple(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(3)
                return x + 0

            @staticmethod
            def backward(ctx, g):
                return g

        with pytest.raises(RuntimeError, match=r"without ctx\.mark_dirty") as info:
            Triple.apply(leaf([1.0]) * 1)
        assert "TripleBackward" in str(info.value)
        assert __file__ in str(info.value)

    def test_an_argument_that_needs_no_gradient_may_be_a_buffer(self):
        class Count(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, calls):
                calls.add_(1)
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2, None

        x, calls = leaf([1.0]), torch.zeros(1)
        Count.apply(x, calls).sum().backward()
        assert (x.grad.item(), calls.item()) == (2, 1)

    def test_a_tensor_kept_on_ctx_and_changed_later(self):
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.x = x
                return x * x

            @staticmethod
            def backward(ctx, g):
                return 2 * ctx.x * g

        x = leaf([1.0])
        h = x * 1
        y = Square.apply(h)
        y.sum().backward(retain_graph=True)
        assert x.grad.item() == 2
        h.mul_(5)
        with pytest.raises(RuntimeError, match=CONFLICT) as info:
            y.sum().backward()
        text = str(info.value)
        assert "ctx.x of SquareBackward" in text
        assert "mul_" in text

    def test_a_write_to_another_part_of_what_ctx_keeps_is_fine(self):
        class First(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.first = x[:1]
                return x[:1] * x[:1]

            @staticmethod
            def backward(ctx, g):
                out = torch.zeros(2, dtype=torch.float64)
                out[:1] = 2 * ctx.first * g
                return out

        x = leaf([3.0, 4.0])
        h = x * 1
        y = First.apply(h)
        h[1] = 100.0
        y.sum().backward()
        assert x.grad.tolist() == [6, 0]
