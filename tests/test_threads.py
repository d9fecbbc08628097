"""Several threads at once: results stay exact, modes stay apart, kernels agree."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rushlight as torch
from support import leaf, randleaf, randn, values

WORKERS = 4


def in_parallel(f, count=WORKERS):
    """Run f(0) … f(count-1) in threads that start together; return the results in order."""
    barrier = threading.Barrier(count)

    def run(i):
        barrier.wait()
        return f(i)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def small_program(seed):
    x, w = randleaf(4, 5, seed=seed), randleaf(5, 3, seed=seed + 100)
    h = (x @ w).tanh()
    h = torch.cat([h, h.exp()], dim=1)
    h[:, 1:3] = h[:, 2:4].clone() * 2
    (h.softmax(1) ** 2).sum().backward()
    return values(x.grad), values(w.grad)


class TestSeparateGraphs:
    def test_forward_and_backward_give_the_single_threaded_result(self):
        expected = [small_program(i) for i in range(WORKERS)]

        def work(i):
            return [small_program(i) for _ in range(20)]

        for i, results in enumerate(in_parallel(work)):
            for gx, gw in results:
                np.testing.assert_array_equal(gx, expected[i][0])
                np.testing.assert_array_equal(gw, expected[i][1])

    def test_large_kernels_run_side_by_side(self):
        a = randn(200, 200)
        expected = values(a @ a)
        for result in in_parallel(lambda i: values(a @ a)):
            np.testing.assert_array_equal(result, expected)

    def test_custom_functions_and_hooks(self):
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                return 2 * ctx.saved_tensors[0] * g

        def work(i):
            x = leaf([float(i), 1.0])
            seen = []
            x.register_hook(lambda g: seen.append(g.tolist()))
            for _ in range(50):
                Square.apply(x).sum().backward()
            return x.grad.tolist(), len(seen)

        for i, (gradient, calls) in enumerate(in_parallel(work)):
            assert gradient == [100.0 * i, 100.0]
            assert calls == 50

    def test_errors_in_one_thread_leave_the_others_alone(self):
        def work(i):
            x = leaf([1.0])
            if i % 2:
                y = x.exp()
                y.add_(1)
                with pytest.raises(RuntimeError, match="modified by an inplace"):
                    y.sum().backward()
                return None
            for _ in range(30):
                (x * 2).sum().backward()
            return x.grad.item()

        assert in_parallel(work) == [60, None, 60, None]


class TestSharedTensors:
    def test_many_threads_accumulate_into_one_leaf_exactly(self):
        x = leaf([1.0, 2.0])

        def work(i):
            for _ in range(100):
                (x * 3).sum().backward()

        in_parallel(work)
        assert x.grad.tolist() == [3.0 * 100 * WORKERS] * 2

    @pytest.mark.parametrize("size", [1, 20_000])
    def test_eight_threads_of_a_thousand_passes_give_the_exact_sum(self, size):
        x = torch.ones(size, dtype=torch.float64, requires_grad=True)
        w = torch.ones(size, dtype=torch.float64, requires_grad=True)

        def work(i):
            for _ in range(1000):
                (x * 3 + w).sum().backward()

        in_parallel(work, 8)
        assert (x.grad == 24_000).all()
        assert (w.grad == 8_000).all()

    def test_with_hooks_of_every_kind(self):
        x = leaf([1.0, 2.0])
        calls = []
        x.register_hook(lambda g: g * 2)
        x.register_hook(lambda g: calls.append("tensor"))
        x.register_post_accumulate_grad_hook(lambda p: calls.append("accumulated"))

        def work(i):
            for _ in range(1000):
                y = x * 3
                y.grad_fn.register_prehook(lambda g: calls.append("node"))
                y.sum().backward()

        in_parallel(work, 8)
        assert x.grad.tolist() == [48_000, 48_000]
        assert {k: calls.count(k) for k in set(calls)} == dict.fromkeys(
            ("tensor", "accumulated", "node"), 8000
        )

    @pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
    def test_with_gradients_that_keep_their_history(self):
        x = leaf([1.0, 2.0])

        def work(i):
            for _ in range(1000):
                (x * x).sum().backward(create_graph=True)

        in_parallel(work, 8)
        assert x.grad.tolist() == [16_000, 32_000]
        (h,) = torch.autograd.grad(x.grad.sum(), x)
        assert h.tolist() == [16_000, 16_000]

    def test_retained_gradients_of_a_shared_result(self):
        x = leaf([1.0])
        y = x * 2
        y.retain_grad()

        def work(i):
            for _ in range(200):
                y.sum().backward(retain_graph=True)

        in_parallel(work, 8)
        assert y.grad.item() == 1600
        assert x.grad.item() == 3200

    def test_one_retained_graph_differentiated_by_many_threads(self):
        x = leaf([1.0, 2.0])
        y = (x**3).sum()

        def work(i):
            return [torch.autograd.grad(y, x, retain_graph=True)[0].tolist() for _ in range(50)]

        for results in in_parallel(work):
            assert results == [[3.0, 12.0]] * 50

    def test_reading_one_tensor_from_many_threads(self):
        t = torch.arange(1000, dtype=torch.float64)
        assert (
            in_parallel(lambda i: [t.sum().item() for _ in range(50)])
            == [[499500.0] * 50] * WORKERS
        )


class TestModes:
    def test_each_thread_has_its_own_grad_mode(self):
        def work(i):
            outcomes = []
            for _ in range(100):
                with torch.set_grad_enabled(i % 2 == 0):
                    outcomes.append((leaf([1.0]) * 2).requires_grad)
            return set(outcomes)

        assert in_parallel(work) == [{True}, {False}, {True}, {False}]

    def test_saved_tensor_hooks_layout_and_strictness_are_the_threads_own(self):
        packed = [0] * WORKERS

        def work(i):
            def pack(t):
                packed[i] += 1
                return t

            for _ in range(50):
                if i % 2:
                    (leaf([1.0]).exp()).sum().backward()
                    continue
                with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
                    leaf([1.0]).exp().sum().backward()

        in_parallel(work)
        assert packed == [50, 0, 50, 0]

    def test_generators_keep_their_mode_across_threads(self):
        @torch.no_grad()
        def values_of(x):
            while True:
                yield (x * 2).requires_grad

        generator = values_of(leaf([1.0]))
        seen = [next(generator)]
        thread = threading.Thread(target=lambda: seen.append(next(generator)))
        thread.start()
        thread.join()
        assert seen == [False, False]
        assert torch.is_grad_enabled()


class TestThreadCount:
    def test_it_can_be_set_and_read(self):
        before = torch.get_num_threads()
        try:
            torch.set_num_threads(1)
            assert torch.get_num_threads() == 1
            with pytest.raises(RuntimeError, match="positive"):
                torch.set_num_threads(0)
        finally:
            torch.set_num_threads(before)

    @pytest.mark.parametrize(
        "f",
        [
            lambda x: x.sum(),
            lambda x: x.mean(0).sum(),
            lambda x: (x @ x.t()).sum(),
            lambda x: x.softmax(1).square().sum(),
            lambda x: x.exp().cumsum(0).sum(),
            lambda x: x.var(1).sum(),
            lambda x: x.logsumexp(0).sum(),
            lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]).square().sum(),
            lambda x: x[torch.arange(0, 500) % 7].sum(),
        ],
    )
    def test_results_are_bitwise_equal_for_one_and_two_threads(self, f):
        before = torch.get_num_threads()
        results = []
        try:
            for threads in (1, 2):
                torch.set_num_threads(threads)
                x = randn(500, 500).to(torch.float32).requires_grad_()
                y = f(x)
                y.backward()
                results.append((y.item(), values(x.grad)))
        finally:
            torch.set_num_threads(before)
        assert results[0][0] == results[1][0]
        np.testing.assert_array_equal(results[0][1], results[1][1])
