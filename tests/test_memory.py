"""Memory: graphs end when they should, cycles are collected, depth does not matter."""

import contextlib
import gc
import subprocess
import sys
import threading
import weakref

import pytest

import rushlight as torch
from support import leaf


class Probe:
    """Something weakly referenceable to hang on a tensor or node."""


def watched(t):
    t.probe = Probe()
    return weakref.ref(t.probe)


class SaveOutputView(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y.view(-1))
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0].view(g.shape)


class KeepOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.output = x * 2
        return ctx.output

    @staticmethod
    def backward(ctx, g):
        return g * 2


def grad_with_history():
    x = leaf([1.0])
    (x**3).sum().backward(create_graph=True)
    return watched(x)


def function_saves_view_of_its_output():
    y = SaveOutputView.apply(leaf([1.0]))
    return watched(y)


def hook_closes_over_its_own_tensor():
    y = leaf([1.0]) * 2
    y.register_hook(lambda g: y.sum() and None)
    return watched(y)


def hook_on_a_leaf_closes_over_the_leaf():
    x = leaf([1.0])
    x.register_hook(lambda g: x.sum() and None)
    return watched(x)


def leaf_attribute_holds_a_later_output():
    x = leaf([1.0])
    x.later = (x * 2).exp()
    return watched(x)


def context_holds_the_output():
    y = KeepOutput.apply(leaf([1.0]))
    return watched(y)


def node_metadata_holds_the_tensor():
    y = leaf([1.0]).exp()
    y.grad_fn.metadata["tensor"] = y
    return watched(y)


def object_holds_output_and_hook_holds_object():
    class Model:
        pass

    model = Model()
    x = leaf([1.0])
    model.out = (x * 3).sin()
    model.out.register_hook(lambda g: setattr(model, "seen", g))
    x.model = model
    model.out.sum().backward(retain_graph=True)
    return watched(x)


def identity_hooks_around_an_operation_that_saves_its_result():
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = leaf([1.0]).exp()
    return watched(y)


def saved_result_is_packed_as_itself():
    y = leaf([1.0]).exp()
    y.grad_fn._raw_saved_result.register_hooks(lambda t: y, lambda t: t)
    return watched(y)


def post_accumulate_hook_closes_over_the_leaf():
    x = leaf([1.0])
    x.register_post_accumulate_grad_hook(lambda p: x.sum() and None)
    (x * 2).sum().backward()
    return watched(x)


def node_hooks_close_over_the_tensor():
    y = leaf([1.0]) * 2
    y.grad_fn.register_hook(lambda i, o: y.sum() and None)
    y.grad_fn.register_prehook(lambda g: y.sum() and None)
    return watched(y)


def retained_gradient_with_history():
    y = leaf([2.0]) * 3
    y.retain_grad()
    (y**3).sum().backward(create_graph=True)
    return watched(y)


def multi_grad_hook_closes_over_its_tensors():
    x, y = leaf([1.0]), leaf([2.0])
    torch.autograd.graph.register_multi_grad_hook((x, y), lambda grads: x.sum() * y and None)
    (x * y).sum().backward()
    return watched(x)


def written_view_holds_its_base():
    t = leaf([1.0, 2.0]) * 1
    v = t[:1]
    v.mul_(2)
    t.view_of_it = v
    return watched(t)


def anomaly_mode_traceback():
    with torch.autograd.set_detect_anomaly(True):
        y = leaf([1.0]).exp()
    y.itself = y
    return watched(y)


CYCLES = [
    grad_with_history,
    function_saves_view_of_its_output,
    hook_closes_over_its_own_tensor,
    hook_on_a_leaf_closes_over_the_leaf,
    leaf_attribute_holds_a_later_output,
    context_holds_the_output,
    node_metadata_holds_the_tensor,
    object_holds_output_and_hook_holds_object,
    identity_hooks_around_an_operation_that_saves_its_result,
    saved_result_is_packed_as_itself,
    post_accumulate_hook_closes_over_the_leaf,
    node_hooks_close_over_the_tensor,
    retained_gradient_with_history,
    multi_grad_hook_closes_over_its_tensors,
    written_view_holds_its_base,
    anomaly_mode_traceback,
]


class TestCycles:
    @pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
    @pytest.mark.parametrize("make", CYCLES)
    def test_one_collection_frees_the_cycle(self, make):
        gc.collect()
        alive = make()
        gc.collect()
        assert alive() is None

    @pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True")
    @pytest.mark.parametrize("make", CYCLES)
    def test_repeated_cycles_leave_no_objects_behind(self, make):
        for _ in range(10):  # what is imported on first use is there now
            make()
        gc.collect()
        before = len(gc.get_objects())
        alive = [make() for _ in range(200)]
        gc.collect()
        assert not any(probe() for probe in alive)
        alive.clear()
        assert len(gc.get_objects()) - before < 50

    def test_a_live_graph_is_never_collected(self):
        x = leaf([1.0])
        y = (x * 2).exp()
        y.register_hook(lambda g: g * 2)
        for _ in range(3):
            gc.collect()
        y.sum().backward()
        assert x.grad.item() == pytest.approx(4 * 7.38905609893065)


def fail(*args):
    raise ValueError("on purpose")


class FailsForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.x = x
        fail()


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    @staticmethod
    def backward(ctx, g):
        fail(ctx.saved_tensors)


def hooked(t):
    t.register_hook(fail)
    t.sin().sum().backward()


def packed(t):
    with torch.autograd.graph.saved_tensors_hooks(fail, fail):
        t.sin()


def unpacked(t):
    with torch.autograd.graph.saved_tensors_hooks(lambda s: s, fail):
        t.sin().sum().backward()


def created(t):
    with torch.autograd.graph.node_creation_hook(fail):
        t.sin()


def overwritten(t):
    y = t.sin()
    t.add_(1)
    y.sum().backward()


def traced(t):
    with torch.autograd.trace_nan():
        (t - 9).sqrt()


def checked(t):
    with torch.autograd.set_detect_anomaly(True):
        (t - 9).sqrt().sum().backward()


def reached(t):
    torch.autograd.graph.register_multi_grad_hook((t, leaf([1.0])), fail)
    t.sum().backward()


FAILURES = [
    lambda t: FailsForward.apply(t),
    lambda t: FailsBackward.apply(t).sum().backward(),
    hooked,
    packed,
    unpacked,
    created,
    overwritten,
    traced,
    checked,
    reached,
]


@pytest.mark.parametrize("program", FAILURES)
def test_a_failure_keeps_nothing_alive(program):
    def attempt():
        t = leaf([1.0]) * 2
        alive = watched(t)
        with contextlib.suppress(ValueError, RuntimeError):
            program(t)
            pytest.fail("nothing was raised")
        return alive

    alive = attempt()
    gc.collect()
    assert alive() is None


class TestLifetimes:
    def test_a_graph_without_cycles_dies_with_its_last_reference(self):
        gc.disable()
        try:
            y = leaf([1.0]) * 2
            alive = watched(y)
            z = y.exp() + y
            del y
            del z
            assert alive() is None
        finally:
            gc.enable()

    def test_saved_tensors_live_until_backward_and_no_longer(self):
        x = leaf([1.0])
        h = x * 2
        alive = watched(h)
        loss = (h * h).sum()
        del h
        assert alive() is not None
        loss.backward()
        assert alive() is None

    def test_retain_graph_keeps_them(self):
        h = leaf([1.0]) * 2
        alive = watched(h)
        loss = (h * h).sum()
        del h
        loss.backward(retain_graph=True)
        assert alive() is not None
        del loss
        assert alive() is None

    @pytest.mark.parametrize(
        "op", [lambda t: t + 1, lambda t: -t, lambda t: t.sum(), lambda t: t * 3, lambda t: t - t]
    )
    def test_operations_that_need_no_value_keep_none(self, op):
        h = leaf([1.0]) * 2
        alive = watched(h)
        y = op(h)
        del h
        assert alive() is None
        assert y.requires_grad

    def test_values_are_not_saved_for_gradients_that_are_not_wanted(self):
        w = torch.ones(1, dtype=torch.float64)
        h = leaf([1.0]) * 2
        alive = watched(h)
        y = h * w
        del h
        assert alive() is None
        assert y.requires_grad

    def test_no_grad_keeps_nothing(self):
        h = torch.ones(1)
        alive = watched(h)
        with torch.no_grad():
            y = h * h
        del h
        assert alive() is None
        assert y.item() == 1

    def test_a_view_keeps_the_storage_of_its_base(self):
        t = torch.arange(1000.0)
        v = t[500:]
        del t
        gc.collect()
        assert v[0].item() == 500

    def test_an_iterated_training_loop_does_not_grow(self):
        w = leaf([1.0, 2.0])

        def step():
            h = (w * 2).exp()
            (h**2).sum().backward()
            w.grad = None
            return watched(h)

        step()
        gc.collect()
        before = len(gc.get_objects())
        alive = [step() for _ in range(100)]
        assert not any(probe() for probe in alive)
        alive.clear()
        gc.collect()
        assert len(gc.get_objects()) - before < 20


class TestStatistics:
    def test_figures_rise_with_an_allocation_and_fall_after_it(self):
        def allocated():
            stats = torch.memory_stats()
            assert all(isinstance(v, (int, float)) for v in stats.values())
            return stats["allocated_bytes"]

        gc.collect()
        before = allocated()
        t = torch.ones(1 << 20)
        during = allocated()
        assert during - before >= 4 << 20
        del t
        assert allocated() <= before + (1 << 16)


class TestSlices:
    """The gradient of a slice is added into its place: no zeros of the whole size per slice."""

    def test_a_sum_over_the_rows_is_linear_in_memory(self):
        rows, width = 2000, 50
        x = torch.ones(rows, width, requires_grad=True)
        total = x[0].sum()
        for i in range(1, rows):
            total = total + x[i].sum()
        gc.collect()
        before = torch.memory_stats()["allocated_bytes"]
        peak = []
        x.register_hook(lambda g: peak.append(torch.memory_stats()["allocated_bytes"]))
        total.backward()
        assert (x.grad == 1).all()
        assert peak[0] - before < 3 * x.numel() * 4

    def test_ten_thousand_elements(self):
        n = 10_000
        x = torch.ones(n, requires_grad=True)
        s = torch.zeros(())
        for i in range(n):
            s = s + x[i]
        s.backward()
        assert (x.grad == 1).all()


DEEP = """
import threading
import rushlight as torch

def work():
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range({depth}):
        y = {step}
    y.sum().backward()
    print(x.grad.item())
    del y

threading.stack_size(256 * 1024)
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


class TestDepth:
    @pytest.mark.parametrize(
        ("step", "expected"),
        [("y + 1", 1.0), ("y * 1.0", 1.0), ("y.view(1)", 1.0), ("torch.cat([y])", 1.0)],
    )
    def test_200000_operations_on_a_small_stack(self, step, expected):
        run = subprocess.run(
            [sys.executable, "-c", DEEP.format(depth=200_000, step=step)],
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert run.returncode == 0, run.stderr[-2000:]
        assert float(run.stdout) == expected

    def test_a_deep_graph_dropped_without_backward(self):
        def work():
            y = leaf([1.0])
            for _ in range(200_000):
                y = y.sin() * 1.0
            done.append(y.item() > 0)

        done = []
        previous = threading.stack_size(256 * 1024)
        try:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        finally:
            threading.stack_size(previous)
        assert done == [True]

    def test_a_deep_chain_of_in_place_writes(self):
        x = leaf([1.0])
        t = x * 1
        for _ in range(20_000):
            t.add_(1)
        t.sum().backward()
        assert x.grad.item() == 1

    def test_deep_cycles_are_collected_without_recursion(self):
        x = leaf([1.0])
        y = x
        for _ in range(50_000):
            y = y + 1
        x.end = y
        alive = watched(x)
        del x, y
        gc.collect()
        assert alive() is None
