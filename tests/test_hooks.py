"""Tensor hooks: when they run, what they may return, how they end, what survives a failure."""

import gc
import subprocess
import sys
import weakref

import pytest

import rushlight as torch
from support import leaf


def backward_of(x):
    (x * x).sum().backward()


class TestTensorHooks:
    def test_receives_the_gradient_and_may_watch_only(self):
        x = leaf([1.0, 2.0])
        seen = []
        y = x * 3
        y.register_hook(lambda g: seen.append(g.tolist()))
        (y * 2).sum().backward()
        assert seen == [[2, 2]]
        assert x.grad.tolist() == [6, 6]

    def test_a_returned_tensor_replaces_the_gradient(self):
        x = leaf([1.0])
        x.register_hook(lambda g: g * 10)
        backward_of(x)
        assert x.grad.item() == 20

    def test_hooks_run_in_order_each_on_the_result_of_the_last(self):
        x = leaf(1.0)
        order = []

        def plus(n):
            def hook(g):
                order.append(n)
                return g * 2 + n

            return hook

        for n in (1, 2, 3):
            x.register_hook(plus(n))
        x.backward()
        assert order == [1, 2, 3]
        assert x.grad.item() == ((1 * 2 + 1) * 2 + 2) * 2 + 3

    def test_hook_of_a_leaf_used_many_times_runs_once_with_the_sum(self):
        x = leaf(2.0)
        seen = []
        x.register_hook(lambda g: seen.append(g.item()))
        (x * 3 + x * 4 + x).backward()
        assert seen == [8]

    def test_hooks_of_inputs_run_in_grad_too(self):
        x = leaf(2.0)
        y = x * 1
        for t in (x, y):
            t.register_hook(lambda g: g * 2)
        assert torch.autograd.grad(y * 1, [y], retain_graph=True)[0].item() == 2
        assert torch.autograd.grad(y * 1, [x], retain_graph=True)[0].item() == 4
        assert [g.item() for g in torch.autograd.grad(y * 1, [x, y])] == [4, 2]

    def test_the_retained_gradient_is_the_one_after_all_hooks(self):
        x = leaf(1.0)
        y = x * 2
        y.register_hook(lambda g: g * 10)
        y.retain_grad()
        y.register_hook(lambda g: g * 10)
        (y * 1).backward()
        assert y.grad.item() == 100
        assert x.grad.item() == 200

    def test_hooks_are_differentiable_under_create_graph(self):
        x = leaf(3.0)
        y = x * x
        y.register_hook(lambda g: g * x)
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        assert g.item() == 18
        assert torch.autograd.grad(g, x)[0].item() == pytest.approx(12)

    def test_needs_a_tensor_that_requires_grad(self):
        with pytest.raises(RuntimeError, match="cannot register a hook"):
            torch.zeros(1).register_hook(print)

    def test_as_a_decorator(self):
        x = leaf(1.0)

        @x.register_hook
        def handle(g):
            return g * 5

        x.backward()
        assert x.grad.item() == 5
        handle.remove()


class TestHandles:
    def test_removed_hooks_do_not_run(self):
        x = leaf(1.0)
        first, second = x.register_hook(lambda g: g * 2), x.register_hook(lambda g: g * 3)
        first.remove()
        x.backward()
        assert x.grad.item() == 3
        second.remove()
        second.remove()
        x.grad = None
        x.backward()
        assert x.grad.item() == 1

    def test_handles_are_context_managers(self):
        x = leaf(1.0)
        with x.register_hook(lambda g: g * 2):
            x.backward()
        x.backward()
        assert x.grad.item() == 3

    def test_a_hook_may_remove_itself(self):
        x = leaf(1.0)
        calls = []

        def once(g):
            calls.append(1)
            handle.remove()

        handle = x.register_hook(once)
        x.backward()
        x.backward()
        assert calls == [1]

    def test_a_hook_may_remove_a_later_one_and_add_another(self):
        x = leaf(1.0)
        calls = []

        def first(g):
            calls.append("first")
            later.remove()
            x.register_hook(lambda g: calls.append("added"))

        x.register_hook(first)
        later = x.register_hook(lambda g: calls.append("later"))
        backward_of(x)
        calls.clear()
        backward_of(x)
        assert "later" not in calls
        assert "added" in calls

    def test_removing_frees_what_the_hook_holds(self):
        class Held:
            pass

        held = Held()
        alive = weakref.ref(held)
        x = leaf(1.0)
        handle = x.register_hook(lambda g, held=held: None)
        del held
        assert alive() is not None
        handle.remove()
        gc.collect()
        assert alive() is None


class TestWrongHooks:
    def test_size_must_stay(self):
        x = leaf([1.0, 2.0])
        x.register_hook(lambda g: g[:1])
        with pytest.raises(RuntimeError, match="has changed the size of value"):
            backward_of(x)

    @pytest.mark.parametrize("bad", ["text", 3, [1.0]])
    def test_must_return_a_tensor_or_none(self, bad):
        x = leaf([1.0, 2.0])
        x.register_hook(lambda g: bad)
        with pytest.raises(TypeError, match="hook returned"):
            backward_of(x)

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
    def test_exceptions_come_out_as_raised_and_the_engine_stays_usable(self, error):
        x = leaf([1.0])

        def fail(g):
            raise error("from the hook")

        y = x * 2
        handle = y.register_hook(fail)
        z = (y * y).sum()
        with pytest.raises(error, match="from the hook"):
            z.backward(retain_graph=True)
        assert x.grad is None
        handle.remove()
        z.backward()
        assert x.grad.item() == 8

    def test_an_exception_keeps_the_traceback_of_the_hook(self):
        x = leaf(1.0)

        def deep_inside_the_hook(g):
            raise LookupError

        x.register_hook(deep_inside_the_hook)
        with pytest.raises(LookupError) as info:
            x.backward()
        assert any(entry.name == "deep_inside_the_hook" for entry in info.traceback)

    def test_grad_mode_is_restored_after_a_failing_hook(self):
        x = leaf(1.0)
        x.register_hook(lambda g: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            x.backward()
        assert torch.is_grad_enabled()


class TestOrder:
    """Tensor hooks, retained gradient, node pre-hooks, the node, post-accumulate, post-hooks."""

    def test_every_kind_of_hook_on_one_node(self):
        log = []
        x = leaf(1.0)
        y = x * 3
        y.grad_fn.register_hook(lambda i, o: log.append("post"))
        y.grad_fn.register_prehook(lambda g: log.append(f"pre, retained {y.grad.item()}"))
        y.retain_grad()
        y.register_hook(lambda g: log.append("tensor 1"))
        y.register_hook(lambda g: log.append("tensor 2"))
        (y * 2).backward()
        assert log == ["tensor 1", "tensor 2", "pre, retained 2.0", "post"]

    def test_a_leaf(self):
        log = []
        x = leaf(1.0)
        y = x * 3
        node = y.grad_fn.next_functions[0][0]
        node.register_hook(lambda i, o: log.append(("post", i, x.grad.item())))
        x.register_post_accumulate_grad_hook(lambda p: log.append(("accumulated", p is x)))
        node.register_prehook(lambda g: log.append(("pre", x.grad)))
        x.register_hook(lambda g: log.append("tensor"))
        y.backward()
        assert log == ["tensor", ("pre", None), ("accumulated", True), ("post", (), 3.0)]

    def test_pre_hooks_change_what_goes_on_but_not_what_was_retained(self):
        x = leaf(1.0)
        y = x * 3
        y.retain_grad()
        y.grad_fn.register_prehook(lambda g: (g[0] * 100,))
        y.backward()
        assert (y.grad.item(), x.grad.item()) == (1, 300)

    def test_post_hooks_change_the_gradients_of_the_inputs(self):
        x, w = leaf(1.0), leaf(2.0)
        y = x * w
        y.grad_fn.register_hook(lambda i, o: (i[0] * 10, i[1] + o[0]))
        y.backward()
        assert (x.grad.item(), w.grad.item()) == (20, 2)

    def test_nodes_run_latest_first_and_leaves_as_soon_as_they_are_ready(self):
        log = []
        x, w = leaf(1.0), leaf(1.0)
        a = x * 2
        b = w * 3
        for name, t in (("x", x), ("w", w), ("a", a), ("b", b)):
            t.register_hook(lambda g, name=name: log.append(name))
        (a + b).backward()
        assert log == ["b", "w", "a", "x"]


class TestInPlace:
    def test_hooks_stay_with_the_value_they_were_registered_on(self):
        seen = []
        t = leaf(1.0) * 1
        t.register_hook(lambda g: seen.append(("before", g.item())))
        t.mul_(5)
        t.register_hook(lambda g: seen.append(("after", g.item())))
        (t * 2).backward()
        assert seen == [("after", 2), ("before", 10)]

    def test_retained_gradients_move_with_the_tensor(self):
        t = leaf([1.0, 2.0]) * 1
        t.retain_grad()
        t.mul_(5)
        t[0] = 7.0
        t.view(2, 1).add_(1)
        (t * 2).sum().backward()
        assert t.grad.tolist() == [2, 2]

    @pytest.mark.parametrize("written", [0, 1])
    def test_so_do_those_of_views_whether_view_or_base_is_written(self, written):
        t = leaf([1.0, 2.0]) * 1
        v = t[:1]
        for kept in (t, v):
            kept.retain_grad()
        (t, v)[written].mul_(5)
        (v * 3 + t).sum().backward()
        assert v.grad.tolist() == [6]
        assert t.grad.tolist() == [7, 1]

    def test_hooks_of_a_view_that_is_written_stay_with_the_old_value(self):
        seen = []
        v = (leaf([1.0, 2.0]) * 1)[:1]
        v.register_hook(lambda g: seen.append(g.tolist()))
        v.mul_(5)
        (v * 2).sum().backward()
        assert seen == [[10]]

    def test_hooks_of_a_view_after_its_base_changed(self):
        seen = []
        t = leaf([1.0, 2.0]) * 1
        v = t[:1]
        t.mul_(3)
        v.register_hook(lambda g: seen.append(g.tolist()))
        (v * 2).sum().backward()
        assert seen == [[2]]


class TestPostAccumulate:
    def test_runs_once_per_backward_with_the_sum(self):
        seen = []
        x = leaf(1.0)
        x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.item()))
        (x * 3 + x * 4).backward()
        (x * 5).backward()
        assert seen == [7, 12]

    def test_may_step_and_clear_the_gradient(self):
        x = leaf(1.0)

        def step(p):
            with torch.no_grad():
                p.sub_(p.grad, alpha=0.5)
            p.grad = None

        x.register_post_accumulate_grad_hook(step)
        (x * 3).backward()
        assert x.item() == -0.5
        assert x.grad is None

    def test_grad_does_not_run_it(self):
        x = leaf(1.0)
        x.register_post_accumulate_grad_hook(lambda p: pytest.fail("ran"))
        torch.autograd.grad(x * 2, x)
        w = leaf(1.0)
        (x * w).backward(inputs=[w])

    def test_only_leaves_that_require_grad_have_it(self):
        with pytest.raises(RuntimeError, match="cannot be registered on non-leaf tensors"):
            (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)
        with pytest.raises(RuntimeError, match="doesn't require gradient"):
            torch.zeros(1).register_post_accumulate_grad_hook(print)

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_exceptions_come_out_after_the_gradient_was_written(self, error):
        def fail(p):
            raise error("from the hook")

        x = leaf(1.0)
        handle = x.register_post_accumulate_grad_hook(fail)
        with pytest.raises(error, match="from the hook"):
            (x * 3).backward()
        assert x.grad.item() == 3
        handle.remove()
        (x * 3).backward()
        assert x.grad.item() == 6


class TestRecursion:
    def test_backward_inside_a_hook(self):
        x, w = leaf(2.0), leaf(3.0)
        y = w * w
        x.register_hook(lambda g: y.backward())
        (x * x).backward()
        assert x.grad.item() == 4
        assert w.grad.item() == 6

    def test_backward_inside_hooks_many_levels_deep(self):
        depth = 120
        leaves = [leaf(float(i)) for i in range(depth)]

        def nest(i):
            @torch.enable_grad()
            def hook(g):
                (leaves[i + 1] * 2).backward()

            return hook

        for i in range(depth - 1):
            leaves[i].register_hook(nest(i))
        (leaves[0] * 2).backward()
        assert [t.grad.item() for t in leaves] == [2.0] * depth

    def test_backward_inside_backward_many_levels_deep(self):
        class Nested(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, depth):
                ctx.depth = depth
                return x * 2

            @staticmethod
            def backward(ctx, g):
                if ctx.depth == 0:
                    return g * 2, None
                with torch.enable_grad():
                    inner = leaf([1.0])
                    (Nested.apply(inner, ctx.depth - 1) + inner).sum().backward()
                return g * inner.grad, None

        x = leaf([1.0])
        Nested.apply(x, 150).sum().backward()
        assert x.grad.item() == 152

    def test_backward_through_the_same_leaf_inside_a_hook(self):
        x = leaf(2.0)
        y = x * x
        extra = x * 5
        y.register_hook(lambda g: extra.backward())
        y.backward()
        assert x.grad.item() == 9

    def test_endless_recursion_raises_recursion_error(self):
        program = """
import rushlight as torch
x = torch.tensor(1.0, requires_grad=True)

@x.register_hook
@torch.enable_grad()
def again(g):
    (x * 2).backward()

try:
    (x * 2).backward()
except RecursionError:
    y = torch.tensor(1.0, requires_grad=True)
    (y * 2).backward()
    print("usable", y.grad.item())
"""
        run = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
        )
        assert run.stdout.strip() == "usable 2.0", run.stderr[-2000:]

    def test_grad_inside_a_hook_under_create_graph(self):
        x = leaf(2.0)
        inner = []

        def hook(g):
            inner.append(torch.autograd.grad(x**3, x)[0].item())

        y = x * 1
        y.register_hook(hook)
        with torch.enable_grad():
            torch.autograd.grad(y * y, x, create_graph=True)
        assert inner == [12]


class TestGradientsAreNotShared:
    """An in-place write in user code must not reach another consumer of the gradient."""

    def test_write_in_a_hook(self):
        x = leaf(1.0)
        y = x * 1
        a = y * 2
        a.register_hook(lambda g: g.mul_(10))
        (a + y).backward()
        assert x.grad.item() == 21

    def test_write_in_a_hook_of_one_summand(self):
        x, w = leaf([1.0]), leaf([1.0])
        z = x + w
        x.register_hook(lambda g: g.mul_(20))
        z.sum().backward()
        assert (x.grad.item(), w.grad.item()) == (20, 1)

    def test_write_in_a_custom_backward(self):
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a * 1

            @staticmethod
            def backward(ctx, g):
                return g.mul_(10)

        x = leaf([1.0])
        y = x * 2
        (Scale.apply(y) + y).sum().backward()
        assert x.grad.item() == 22

    def test_the_users_own_grad_outputs_stay(self):
        class Scale(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a * 1

            @staticmethod
            def backward(ctx, g):
                return g.mul_(10)

        x = leaf([1.0])
        v = torch.ones(1, dtype=torch.float64)
        (g,) = torch.autograd.grad(Scale.apply(x), x, v)
        assert v.item() == 1
        assert g.item() == 10

    def test_a_gradient_kept_by_a_hook_may_be_written_later(self):
        x, w = leaf([1.0]), leaf([1.0])
        kept = []
        y = x + w
        y.register_hook(kept.append)
        (y * 5).sum().backward()
        kept[0].mul_(7)
        assert x.grad.item() == w.grad.item() == 5

    def test_a_gradient_kept_by_a_hook_may_be_written_during_backward(self):
        x, w = leaf([1.0]), leaf([1.0])
        kept = []
        a = x * 1
        b = w * 1
        y = a + b
        y.register_hook(kept.append)
        b.register_hook(lambda g: kept[0].mul_(7) and None)
        (y * 5).sum().backward()
        assert x.grad.item() == 5
