"""What nodes save: reading it, hooks around it, and writes to it under copy on write."""

import threading

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd.graph import (
    allow_mutation_on_saved_tensors,
    disable_saved_tensors_hooks,
    save_on_cpu,
    saved_tensors_hooks,
)
from support import check, leaf, randleaf, values

FREED = "backward through the graph a second time"
CONFLICT = "modified by an inplace operation"


def identity():
    return saved_tensors_hooks(lambda t: t, lambda t: t)


class Counter:
    """Hooks that count their calls and pass the values on as NumPy arrays."""

    def __init__(self):
        self.packed = []
        self.unpacked = 0

    def pack(self, t):
        self.packed.append(t)
        return np.array(t.tolist()), t.dtype

    def unpack(self, content):
        self.unpacked += 1
        return torch.tensor(content[0], dtype=content[1])

    def hooks(self, **options):
        return saved_tensors_hooks(self.pack, self.unpack, **options)


class TestReading:
    def test_inputs_are_the_same_objects_and_results_are_not(self):
        x = leaf([1.0])
        assert (x * x).grad_fn._saved_self is x
        y = x.exp()
        assert y.grad_fn._saved_result is not y
        assert y.grad_fn._saved_result.grad_fn is y.grad_fn

    def test_reading_after_backward_raises(self):
        y = leaf([2.0]) ** 2
        y.sum().backward()
        with pytest.raises(RuntimeError, match=FREED):
            y.grad_fn._saved_self

    def test_reading_after_a_write_raises(self):
        t = leaf([2.0]) * 1
        y = t**2
        t.add_(1)
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.grad_fn._saved_self


class TestContextHooks:
    @pytest.mark.parametrize(
        "f",
        [
            lambda x: x.exp(),
            lambda x: x * x.sin(),
            lambda x: x @ x,
            lambda x: x.softmax(1),
            lambda x: (x**3).mean(0),
            lambda x: x[0] * x[:, 1],
            lambda x: torch.cat([x.tanh(), x.sigmoid()]),
            lambda x: x.sort()[0] * x.max(),
        ],
    )
    def test_first_and_second_derivatives_are_those_without_hooks(self, f):
        def derivatives(x):
            (g,) = torch.autograd.grad((f(x) ** 2).sum(), x, create_graph=True)
            return values(g), values(torch.autograd.grad((g**2).sum(), x)[0])

        x = randleaf(3, 3)
        expected = derivatives(x)
        with saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
            found = derivatives(x)
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)

    def test_pack_runs_once_per_save_and_unpack_once_per_use(self):
        counter = Counter()
        x = leaf([1.0, 2.0])
        with counter.hooks():
            y = x.exp().sin()
        assert (len(counter.packed), counter.unpacked) == (2, 0)
        y.sum().backward(retain_graph=True)
        y.sum().backward()
        assert (len(counter.packed), counter.unpacked) == (2, 4)
        check(x.grad, 2 * np.exp([1.0, 2.0]) * np.cos(np.exp([1.0, 2.0])))

    def test_the_graph_is_packed_only_inside(self):
        counter = Counter()
        x = leaf([1.0])
        x.exp()
        with counter.hooks():
            pass
        x.exp()
        assert counter.packed == []

    def test_hooks_see_no_numbers(self):
        counter = Counter()
        with counter.hooks():
            leaf([1.0]) * 2 / 3
        assert counter.packed == []

    def test_pack_sees_the_tensor_with_its_history_and_recording_off(self):
        seen = []

        def pack(t):
            seen.append((t.requires_grad, t.grad_fn and t.grad_fn.name(), torch.is_grad_enabled()))
            return t.detach()

        with saved_tensors_hooks(pack, lambda t: t):
            leaf([1.0]).exp().sin()
        assert seen == [(True, "ExpBackward0", False)] * 2

    def test_values_may_lie_anywhere(self, tmp_path):
        def pack(t):
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.npy"
            np.save(path, t.numpy(force=True))
            return path

        x = randleaf(4)
        with saved_tensors_hooks(pack, lambda path: torch.from_numpy(np.load(path))):
            y = (x.exp() * x).sum()
        assert len(list(tmp_path.iterdir())) == 3
        y.backward()
        check(x.grad, np.exp(values(x)) * (1 + values(x)))

    @pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 2)])
    def test_every_shape_and_layout(self, shape):
        t = torch.ones(shape, dtype=torch.float64)
        x = t.permute(tuple(reversed(range(len(shape))))).requires_grad_()
        with saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            x.exp().sum().backward()
        check(x.grad, np.full(x.shape, np.e))

    def test_an_overwritten_value_is_no_conflict_once_it_is_packed(self):
        x = leaf([1.0])
        with saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
            y = x.exp()
        y.add_(1)
        y.sum().backward()
        check(x.grad, [np.e])

    def test_hooks_are_the_threads_own(self):
        counter = Counter()
        with counter.hooks():
            thread = threading.Thread(target=lambda: leaf([1.0]).exp())
            thread.start()
            thread.join()
        assert counter.packed == []

    def test_functions_save_through_them(self):
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                return 2 * ctx.saved_tensors[0] * g

        counter = Counter()
        x = leaf([3.0])
        with counter.hooks():
            y = Square.apply(x)
        y.sum().backward()
        assert len(counter.packed) == counter.unpacked == 1
        assert x.grad.item() == 6

    def test_a_recorded_backward_packs_too(self):
        counter = Counter()
        x = leaf([2.0])
        y = x**3
        with counter.hooks():
            (g,) = torch.autograd.grad(y, x, create_graph=True)
        assert counter.packed
        assert torch.autograd.grad(g, x)[0].item() == 12


class TestNesting:
    def test_the_inner_result_goes_through_the_outer_pair(self):
        log = []

        def pair(name, scale):
            def pack(t):
                log.append(f"pack {name}")
                return t.detach() * scale

            def unpack(t):
                log.append(f"unpack {name}")
                return t / scale

            return saved_tensors_hooks(pack, unpack, compose=True)

        x = leaf([1.0])
        with pair("outer", 2), pair("inner", 4):
            y = x.exp()
        y.sum().backward()
        assert log == ["pack inner", "pack outer", "unpack outer", "unpack inner"]
        check(x.grad, [np.e])

    def test_a_result_that_is_no_tensor_stays_with_its_pair(self):
        outer = Counter()
        with outer.hooks(), saved_tensors_hooks(lambda t: t.tolist(), torch.tensor):
            y = leaf([1.0], torch.float32).exp()
        y.sum().backward()
        assert outer.packed == []

    def test_blocks_end_in_order(self):
        outer, inner = Counter(), Counter()
        x = leaf([1.0])
        with outer.hooks():
            with inner.hooks():
                x.exp()
            x.sin()
        x.cos()
        assert (len(outer.packed), len(inner.packed)) == (1, 1)

    def test_an_exception_ends_the_block(self):
        with pytest.raises(ZeroDivisionError), identity():
            1 / 0
        counter = Counter()
        with counter.hooks():
            leaf([1.0]).exp()
        assert len(counter.packed) == 1


class TestInfo:
    def infos(self, f):
        seen = []

        def pack(t, info):
            seen.append(info)
            return t.detach()

        with saved_tensors_hooks(pack, lambda t: t, with_info=True):
            f()
        return seen

    def test_names_of_node_and_argument(self):
        x, p = leaf([1.0]), torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
        a, b = self.infos(lambda: x * p)
        assert (a.node, a.argument, a.is_output) == ("MulBackward0", "self", False)
        assert (b.node, b.argument, b.is_output) == ("MulBackward0", "other", False)
        assert (a.is_parameter, b.is_parameter) == (False, True)
        assert (a.is_leaf, b.is_leaf) == (True, True)

    def test_results_are_marked(self):
        (info,) = self.infos(lambda: (leaf([1.0]) + 1).exp())
        assert (info.node, info.argument, info.is_output) == ("ExpBackward0", "result", True)
        assert not info.is_leaf

    def test_the_line_is_the_users(self):
        (info,) = self.infos(lambda: leaf([1.0]).exp())
        assert info.line[0] == __file__

    def test_parameters_can_be_left_where_they_are(self):
        kept = []

        def pack(t, info):
            if info.is_parameter:
                return t
            kept.append(info.argument)
            return t.detach().clone()

        w = torch.nn.Parameter(torch.ones(2, 2))
        x = torch.ones(2, 2, requires_grad=True)
        with saved_tensors_hooks(pack, lambda t: t, with_info=True):
            (x @ w).sum().backward()
        assert len(kept) == 1
        assert w.grad.tolist() == [[2, 2], [2, 2]]


class TestSharing:
    def test_a_tensor_saved_by_many_nodes_is_packed_once(self):
        counter = Counter()
        x = leaf([1.0, 2.0])
        h = x + 1
        with counter.hooks(share=True):
            y = h * h + h.sin() + h**3
        assert len(counter.packed) == 1
        y.sum().backward()
        v = np.array([2.0, 3.0])
        check(x.grad, 2 * v + np.cos(v) + 3 * v**2)

    def test_a_changed_tensor_is_packed_again(self):
        counter = Counter()
        h = leaf([1.0]) + 1
        with counter.hooks(share=True):
            h.sin()
            h.add_(1)
            h.cos()
        assert len(counter.packed) == 2

    def test_save_on_cpu_shares_and_copies(self):
        x = leaf([1.0, 2.0])
        h = x * 1
        with save_on_cpu(pin_memory=True):
            y = h * h
        h.zero_()
        y.sum().backward()
        assert x.grad.tolist() == [2, 4]


class TestWrongHooks:
    def test_a_write_to_the_packed_tensor_raises(self):
        with (
            saved_tensors_hooks(lambda t: t.mul_(2), lambda t: t),
            pytest.raises(RuntimeError, match="pack hook is modifying its input in place"),
        ):
            (leaf([1.0]) + 1).exp()

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
    def test_exceptions_come_out_as_raised(self, error):
        def fail(t):
            raise error("from the hook")

        x = leaf([1.0])
        with saved_tensors_hooks(fail, lambda t: t), pytest.raises(error, match="from the hook"):
            x.exp()
        with saved_tensors_hooks(lambda t: t, fail):
            y = x.exp()
        with pytest.raises(error, match="from the hook"):
            y.sum().backward()
        assert x.grad is None
        x.exp().sum().backward()
        check(x.grad, [np.e])

    @pytest.mark.parametrize("write", [lambda t: t.exp_(), lambda t: t[:1].exp_()])
    def test_a_failure_during_a_write_leaves_no_wrong_history(self, write):
        def fail(*args):
            raise ValueError("from the hook")

        for watch in (
            lambda: saved_tensors_hooks(fail, fail),
            lambda: torch.autograd.graph.node_creation_hook(fail),
        ):
            x = leaf([1.0, 2.0])
            t = x * 1
            with pytest.raises(ValueError, match="from the hook"), watch():
                write(t)
            if t.tolist() == [1, 2]:  # not written: the old history is right
                t.sum().backward()
                assert x.grad.tolist() == [1, 1]
            else:
                with pytest.raises(RuntimeError):
                    t.sum().backward()

    def test_unpack_must_return_a_tensor(self):
        with saved_tensors_hooks(lambda t: 7, lambda n: n):
            y = leaf([1.0]).exp()
        with pytest.raises(TypeError, match="unpack_hook expected to be a Tensor but got"):
            y.sum().backward()

    def test_disabling(self):
        with disable_saved_tensors_hooks("not here"):
            with pytest.raises(RuntimeError, match="not here"), identity():
                pass
            leaf([1.0]).exp().sum().backward()
        with identity(), pytest.raises(RuntimeError, match="not there"):
            disable_saved_tensors_hooks("not there").__enter__()
        with identity():
            pass


class TestRegisterHooks:
    def test_a_single_saved_tensor(self):
        x = leaf([1.0])
        y = x.exp()
        y.grad_fn._raw_saved_result.register_hooks(lambda t: t.item(), lambda v: torch.tensor([v]))
        y.sum().backward()
        assert x.grad.item() == pytest.approx(np.e)

    def test_pack_receives_a_detached_tensor(self):
        seen = []
        y = (leaf([1.0]) + 1).sin()
        y.grad_fn._raw_saved_self.register_hooks(
            lambda t: seen.append((t.requires_grad, t.grad_fn)) or t, lambda t: t
        )
        assert seen == [(False, None)]

    def test_second_derivatives(self):
        x = leaf([2.0])
        y = x**3
        y.grad_fn._raw_saved_self.register_hooks(lambda t: t.clone(), lambda t: t)
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        assert torch.autograd.grad(g, x)[0].item() == 12

    def test_only_one_pair(self):
        raw = leaf([1.0]).exp().grad_fn._raw_saved_result
        raw.register_hooks(lambda t: t, lambda t: t)
        with pytest.raises(RuntimeError, match="only one pair of hooks is allowed"):
            raw.register_hooks(lambda t: t, lambda t: t)

    def test_not_after_the_context_pair(self):
        with identity():
            y = leaf([1.0]).exp()
        with pytest.raises(RuntimeError, match="hooks have already been set"):
            y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)

    def test_not_after_freeing_and_not_for_none(self):
        x = leaf([1.0])
        y = x.exp()
        y.sum().backward()
        with pytest.raises(RuntimeError, match=FREED):
            y.grad_fn._raw_saved_result.register_hooks(lambda t: t, lambda t: t)
        z = x * torch.ones(1, dtype=torch.float64)
        with pytest.raises(RuntimeError, match="value None is forbidden"):
            z.grad_fn._raw_saved_self.register_hooks(lambda t: t, lambda t: t)

    def test_arguments_must_be_callable(self):
        with pytest.raises(TypeError, match="callable"):
            leaf([1.0]).exp().grad_fn._raw_saved_result.register_hooks(1, 2)

    def test_tensors_of_a_function(self):
        class Two(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a, b):
                ctx.save_for_backward(a, b)
                return a * b

            @staticmethod
            def backward(ctx, g):
                a, b = ctx.saved_tensors
                return g * b, g * a

        a, b = leaf([2.0]), leaf([3.0])
        y = Two.apply(a, b)
        y.grad_fn._raw_saved_tensors[1].register_hooks(lambda t: t * 10, lambda t: t)
        y.sum().backward()
        assert (a.grad.item(), b.grad.item()) == (30, 2)


class TestMutation:
    def test_backward_sees_the_values_of_the_forward_pass(self):
        x = leaf([1.0, 2.0])
        with allow_mutation_on_saved_tensors():
            t = x * 1
            y = t * t + t.exp()
            t.fill_(100)
            y.sum().backward()
        check(x.grad, 2 * np.array([1.0, 2.0]) + np.exp([1.0, 2.0]))

    def test_results_may_be_overwritten(self):
        x = leaf([1.0])
        with allow_mutation_on_saved_tensors():
            y = x.exp()
            y.zero_()
            z = x.tanh()
            z.mul_(3).add_(1)
            (y + z).sum().backward()
        check(x.grad, [3 * (1 - np.tanh(1) ** 2)])

    def test_writes_through_views_and_by_index(self):
        x = leaf([1.0, 2.0, 3.0])
        with allow_mutation_on_saved_tensors():
            t = x * 1
            y = (t**2).sum()
            t[1:].zero_()
            t[0] = 9.0
            t.view(3, 1)[1].add_(5)
            y.backward()
        assert x.grad.tolist() == [2, 4, 6]

    def test_leaves_under_no_grad(self):
        w = leaf([2.0])
        with allow_mutation_on_saved_tensors():
            y = (w * w).sum()
            with torch.no_grad():
                w.sub_(1)
            y.backward()
        assert w.grad.item() == 4

    def test_second_derivatives(self):
        x = leaf([2.0])
        with allow_mutation_on_saved_tensors():
            t = x * 1
            y = t**3
            t.zero_()
            (g,) = torch.autograd.grad(y, x, create_graph=True)
            assert torch.autograd.grad(g, x)[0].item() == 12

    def test_backward_may_run_after_the_block(self):
        x = leaf([2.0])
        with allow_mutation_on_saved_tensors():
            t = x * 1
            y = t**2
            t.zero_()
        y.backward()
        assert x.grad.item() == 4

    def test_a_write_after_the_block_is_harmless_too(self):
        x = leaf([2.0])
        with allow_mutation_on_saved_tensors():
            t = x * 1
            y = t**2
        t.zero_()
        y.backward()
        assert x.grad.item() == 4

    def test_blocks_do_not_nest(self):
        with allow_mutation_on_saved_tensors() as block:
            with pytest.raises(RuntimeError, match="cannot be nested"):
                allow_mutation_on_saved_tensors().__enter__()
            block.clear()
        t = leaf([1.0]) * 1
        y = t**2
        t.add_(1)
        with pytest.raises(RuntimeError, match=CONFLICT):
            y.sum().backward()


@pytest.mark.parametrize("pack", [lambda t: t, lambda t: t.clone()], ids=["kept", "copied"])
def test_hooks_that_copy_keep_the_tangents_of_a_part(pack):
    x = torch.arange(1.0, 5.0, dtype=torch.float64)

    def cubes(u):
        part = u.narrow(0, 1, 2)
        return (part * part * part).sum() + u.view(2, 2).t()[1].pow(2).sum()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        hessian = torch.func.hessian(cubes)(x)
    assert hessian.diagonal().tolist() == [0.0, 14.0, 18.0, 2.0]
    assert hessian.count_nonzero() == 3
