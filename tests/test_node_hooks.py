"""Hooks on nodes, and on several tensors together."""

import pytest

import rushlight as torch
from support import check, leaf


class TestNodeHooks:
    def test_the_hooks_of_a_tensor_can_be_hung_on_a_node(self):
        x = leaf(2.0)
        y, z = x * 3, x * 5
        z.register_hook(lambda g: g * 10)
        y.grad_fn._register_hook_dict(z)  # another tensor's hooks
        y.grad_fn._register_hook_dict(y)  # its own are called anyway
        y.register_hook(lambda g: g + 1)
        y.backward()
        assert x.grad.item() == 3 * 10 * 2
        with pytest.raises(TypeError, match="expected a Tensor, got int"):
            y.grad_fn._register_hook_dict(3)

    @pytest.mark.parametrize("kind", ["register_prehook", "register_hook"])
    def test_a_hook_may_remove_itself_during_the_run(self, kind):
        calls = []

        def once(*grads):
            calls.append(1)
            handle.remove()

        y = leaf(1.0) * 2
        handle = getattr(y.grad_fn, kind)(once)
        getattr(y.grad_fn, kind)(lambda *grads: calls.append(2))
        y.backward(retain_graph=True)
        y.backward()
        assert calls == [1, 2, 2]

    @pytest.mark.parametrize("error", [LookupError, KeyboardInterrupt])
    @pytest.mark.parametrize("kind", ["register_prehook", "register_hook"])
    def test_exceptions_come_out_as_raised(self, kind, error):
        def fail(*grads):
            raise error("from the hook")

        x = leaf(1.0)
        y = x * 2
        handle = getattr(y.grad_fn, kind)(fail)
        with pytest.raises(error, match="from the hook"):
            y.backward(retain_graph=True)
        assert x.grad is None
        handle.remove()
        y.backward()
        assert x.grad.item() == 2

    def test_gradients_that_do_not_exist_are_none(self):
        seen = []
        y = leaf(1.0) * torch.tensor(3.0, dtype=torch.float64)
        y.grad_fn.register_hook(lambda i, o: seen.append(i[1]))
        y.backward()
        assert seen == [None]

    @pytest.mark.parametrize("reduce", [lambda v: v.sum(), lambda v: v.mean() * 3])
    def test_a_hook_that_only_looks_changes_no_gradient(self, reduce):
        """Also where the gradient is one number, expanded."""
        x = leaf([1.0, 2.0, 3.0])
        v = x * 1
        rest = (v * 0.5).sum()
        with torch.autograd.graph.node_creation_hook(
            lambda node: node.register_hook(lambda i, o: None)
        ):
            total = reduce(v)
        (total + rest).backward()
        check(x.grad, [1.5, 1.5, 1.5])

    def test_hooks_of_the_accumulating_node_go_with_it(self):
        calls = []
        x = leaf(1.0)
        (x * 1).grad_fn.next_functions[0][0].register_hook(lambda i, o: calls.append(1))
        (x * 1).backward()
        assert calls == []

    def test_wrong_counts_raise(self):
        y = leaf(1.0) * leaf(2.0)
        y.grad_fn.register_hook(lambda i, o: (i[0],))
        with pytest.raises(RuntimeError, match="incorrect number of values"):
            y.backward()

    def test_hooks_must_be_callable(self):
        x = leaf(1.0)
        for register in (
            x.register_hook,
            x.register_post_accumulate_grad_hook,
            (x * 1).grad_fn.register_hook,
            (x * 1).grad_fn.register_prehook,
        ):
            with pytest.raises(TypeError, match="must be callable, got int"):
                register(3)


class TestSeveralTensors:
    """register_multi_grad_hook: once per pass, for the tensors that the pass reaches."""

    def hooked(self, tensors, **mode):
        seen = []
        handle = torch.autograd.graph.register_multi_grad_hook(tensors, seen.append, **mode)
        return seen, handle

    def test_all_gradients_at_once(self):
        x, y = leaf(2.0), leaf(3.0)
        seen, handle = self.hooked((x, y))
        (x * y).backward()
        (x * y * 10).backward()
        assert [[g.item() for g in grads] for grads in seen] == [[3, 2], [30, 20]]
        handle.remove()
        (x * y).backward()
        assert len(seen) == 2

    def test_tensors_that_the_pass_does_not_reach_are_none(self):
        x, y, z = leaf(1.0), leaf(2.0), leaf(3.0)
        seen, _ = self.hooked((x, y, z))
        (x * y).backward()
        (x * z).backward()
        (x * y).backward(inputs=[y])
        torch.autograd.grad(z * 2, z)
        assert [[g is None for g in grads] for grads in seen] == [
            [False, False, True],
            [False, True, False],
            [True, False, True],
            [True, True, False],
        ]

    def test_any_runs_once_per_pass_with_the_first(self):
        x = leaf(1.0)
        y = x * 2
        seen, _ = self.hooked((x, y, torch.zeros(1)), mode="any")
        (y * 3).backward(retain_graph=True)
        (y * 5).backward()
        assert [g.item() for g in seen] == [3, 5]

    def test_a_pass_inside_a_pass_is_counted_apart(self):
        x, y = leaf(1.0), leaf(2.0)
        seen, _ = self.hooked((x, y))
        z = x * 1

        @z.register_hook
        @torch.enable_grad()
        def inner(g):
            (y * 7).backward()

        (z * y).backward()
        assert [[g is None for g in grads] for grads in seen] == [[True, False], [False, False]]

    def test_unknown_modes_are_refused(self):
        with pytest.raises(ValueError, match="Expects mode to be one of"):
            self.hooked((leaf(1.0),), mode="some")


class TestRecordingInHooks:
    """Hooks run unrecorded unless the pass records itself."""

    def test_a_leaf_may_be_updated_after_accumulation(self):
        p = leaf([1.0, 2.0])
        p.register_post_accumulate_grad_hook(lambda p: p.sub_(p.grad))
        (p * 2).sum().backward()
        check(p, [-1.0, 0.0])

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_every_kind(self, create_graph):
        p, seen = leaf([1.0]), []
        y = p * 2

        def note(*_):
            seen.append(torch.is_grad_enabled())

        y.register_hook(note)
        accumulator = torch.autograd.graph.get_gradient_edge(p).node
        for node in (y.grad_fn, accumulator):
            node.register_hook(note)
            node.register_prehook(note)
        p.register_post_accumulate_grad_hook(note)
        y.backward(create_graph=create_graph)
        assert seen == [create_graph] * 6
        p.grad = None


class TestHooksOfInputs:
    def test_backward_to_a_result_runs_the_hooks_of_its_node(self):
        a, calls = leaf([1.0, 2.0]), []
        b = a * 2
        b.grad_fn.register_prehook(lambda g: calls.append("pre") or (g[0] * 10,))
        b.grad_fn.register_hook(lambda gi, go: calls.append("post"))
        b.register_hook(lambda g: calls.append("tensor"))
        c = (b * 3).sum()
        c.backward(inputs=(b,), retain_graph=True)
        assert calls == ["tensor", "pre", "post"]
        check(b.grad, [3.0, 3.0])
        assert a.grad is None

    def test_grad_runs_those_of_nodes_it_goes_through(self):
        a, calls = leaf([1.0, 2.0]), []
        b = a * 2
        b.grad_fn.register_prehook(lambda g: calls.append("pre"))
        c = (b * 3).sum()
        torch.autograd.grad(c, b, retain_graph=True)
        assert calls == []
        torch.autograd.grad(c, (b, a))
        assert calls == ["pre"]
