"""Checkpointed functions: gradients as without, less kept, and errors that show both runs."""

import gc
import threading
import warnings
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.checkpoint import (
    CheckpointFunction,
    DefaultDeviceType,
    GraphExecGroup,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    detach_variable,
    get_device_states,
    noop_context_fn,
    set_checkpoint_early_stop,
    set_device_states,
)
from support import check, leaf, randleaf, randn, values


def block(x):
    return ((x.sin() * x).exp() + x.cos()).tanh()


def gradients(f, *inputs, **options):
    out = f(*inputs, **options)
    return [values(out), *map(values, torch.autograd.grad(out.sum(), inputs))]


def assert_same(ours, expected):
    assert len(ours) == len(expected)
    for a, b in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def counted(f):
    """f, and a list that grows with every call of it."""
    calls = []

    def g(*args, **kwargs):
        calls.append(1)
        return f(*args, **kwargs)

    return g, calls


# ---- gradients


@pytest.mark.parametrize("use_reentrant", [None, True, False])
@pytest.mark.parametrize("early_stop", [True, False])
@pytest.mark.parametrize("preserve_rng_state", [True, False])
def test_gradients_are_those_of_the_plain_call(use_reentrant, early_stop, preserve_rng_state):
    x = randleaf(3, 4)
    options = {
        "use_reentrant": use_reentrant,
        "early_stop": early_stop,
        "preserve_rng_state": preserve_rng_state,
    }
    assert_same(gradients(lambda t: checkpoint(block, t, **options), x), gradients(block, x))


def test_no_warning_without_use_reentrant():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checkpoint(block, randleaf(2)).sum().backward()


def test_the_function_runs_twice_and_not_before_backward():
    f, calls = counted(block)
    y = checkpoint(f, randleaf(2))
    assert len(calls) == 1
    y.sum().backward()
    assert len(calls) == 2


def test_keyword_arguments_and_other_objects():
    def f(a, scale, *, b, power=1, names=("u",)):
        return (a * scale * b) ** power if names == ("u",) else a

    x, b = randleaf(3), randleaf(3, seed=1)
    plain = gradients(lambda a, c: f(a, 2.0, b=c, power=2), x, b)
    assert_same(gradients(lambda a, c: checkpoint(f, a, 2.0, b=c, power=2), x, b), plain)


def test_tensors_in_a_closure_get_gradients_when_no_input_requires_grad():
    w = randleaf(3)
    checkpoint(lambda x: (x * w).exp(), randn(3, seed=1)).sum().backward()
    check(w.grad, (randn(3, seed=1) * (randn(3, seed=1) * w).exp()))


def test_without_a_tensor_argument():
    w = randleaf(3)
    checkpoint(lambda: w.exp()).sum().backward()
    check(w.grad, w.exp())


def test_several_outputs_and_structures():
    def f(x):
        return {"sin": x.sin(), "rest": [x.exp(), 7, None]}

    x = randleaf(3)
    out = checkpoint(f, x)
    assert out["rest"][1:] == [7, None]
    (out["sin"] * out["rest"][0]).sum().backward()
    check(x.grad, x.exp() * (x.sin() + x.cos()))


def test_backward_twice_with_retain_graph():
    f, calls = counted(block)
    x = randleaf(3)
    y = checkpoint(f, x).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    check(x.grad, 2 * first)
    assert len(calls) == 3
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_a_saved_tensor_may_be_read_more_than_once():
    y = checkpoint(torch.exp, leaf([1.0, 2.0]))
    check(y.grad_fn._saved_result, y)
    check(y.grad_fn._saved_result, y)


def test_only_the_gradients_that_are_asked_for():
    x, w = randleaf(3), randleaf(3, seed=1)
    y = checkpoint(lambda a, b: (a.sin() * b).exp(), x, w).sum()
    (gw,) = torch.autograd.grad(y, w)
    check(gw, x.sin() * (x.sin() * w).exp())


def test_second_derivatives():
    x = randleaf(3)
    plain = torch.autograd.grad(block(x).sum(), x, create_graph=True)[0]
    ours = torch.autograd.grad(checkpoint(block, x).sum(), x, create_graph=True)[0]
    check(ours, plain)
    check(torch.autograd.grad(ours.sum(), x)[0], torch.autograd.grad(plain.sum(), x)[0])


def test_gradcheck():
    x, w = randleaf(2, 3), randleaf(3, 2, seed=1)

    def f(a, b):
        return checkpoint(lambda c, d: (c @ d).tanh(), a, b)

    assert torch.autograd.gradcheck(f, (x, w))
    assert torch.autograd.gradgradcheck(f, (x, w))


@pytest.mark.parametrize("options", [{}, {"memory_budget": 0.0}, {"memory_budget": 0.5}])
@pytest.mark.parametrize("nest", [False, True])
def test_forward_mode_over_backward(options, nest):
    forward_ad = torch.autograd.forward_ad

    def f(x):
        return torch.nn.functional.layer_norm(block(x), (3,))

    def region(x):
        return checkpoint(f, x, **options)

    def product(call):
        with forward_ad.dual_level():
            x = forward_ad.make_dual(randleaf(2, 3), randn(2, 3, seed=1))
            (g,) = torch.autograd.grad(call(x).square().sum(), x, create_graph=True)
            return values(forward_ad.unpack_dual(g).tangent)

    ours = product((lambda x: checkpoint(region, x)) if nest else region)
    np.testing.assert_array_equal(ours, product(f))


def test_gradients_inside_the_function():
    def f(x):
        y = (x.sin() * x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        return y + (g * g).sum()

    x = randleaf(3)
    assert_same(gradients(lambda t: checkpoint(f, t), x), gradients(f, x))


def test_without_grad_nothing_is_kept():
    f, calls = counted(block)
    with torch.no_grad():
        y = checkpoint(f, randleaf(3))
    assert not y.requires_grad
    assert len(calls) == 1


def test_a_part_of_the_function_without_grad():
    def f(x):
        with torch.no_grad():
            scale = x.abs().max()
        return (x / scale).exp()

    x = randleaf(3)
    assert_same(gradients(lambda t: checkpoint(f, t), x), gradients(f, x))


def test_a_custom_function_inside():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * x * x * g

    def f(x):
        return Cube.apply(x.sin()).exp()

    x = randleaf(3)
    assert_same(gradients(lambda t: checkpoint(f, t), x), gradients(f, x))


# ---- nesting


def nested(x, depth):
    return x.exp().tanh() if depth == 0 else checkpoint(nested, (x * 1.5).sin(), depth - 1).cos()


def plain_nested(x, depth):
    return x.exp().tanh() if depth == 0 else plain_nested((x * 1.5).sin(), depth - 1).cos()


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_nested_checkpoints(depth):
    x = randleaf(3)
    expected = gradients(lambda t: plain_nested(t, depth), x)
    assert_same(gradients(lambda t: checkpoint(nested, t, depth), x), expected)


def test_nested_checkpoints_again_and_to_second_order():
    x = randleaf(3)
    y = checkpoint(nested, x, 2).sum()
    first = torch.autograd.grad(y, x, retain_graph=True)[0]
    again = torch.autograd.grad(y, x, create_graph=True)[0]
    check(again, first)
    plain = torch.autograd.grad(plain_nested(x, 2).sum(), x, create_graph=True)[0]
    check(torch.autograd.grad(again.sum(), x)[0], torch.autograd.grad(plain.sum(), x)[0])


def test_an_inner_region_does_not_keep_its_inputs():
    """They are saved through the outer region, which gives them up."""
    seen = []

    def inner(h):
        seen.append(weakref.ref(h))
        return h.sin()

    y = checkpoint(lambda x: checkpoint(inner, x.exp()), randleaf(3))
    assert seen[0]() is None
    y.sum().backward()


# ---- early stop


def test_code_after_the_last_saved_tensor_is_not_repeated():
    passed = []

    def f(x):
        y = x.exp()
        passed.append("saved")
        z = y + 1
        passed.append("end")
        return z

    checkpoint(f, randleaf(2)).sum().backward()
    assert passed == ["saved", "end"]


def test_the_last_op_is_not_repeated_when_it_saved_its_arguments():
    ops = []

    class Names(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            ops.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x, w = randleaf(2, 3), randleaf(3, 3, seed=1)
    y = checkpoint(lambda a: torch.mm(torch.mm(a, w).tanh(), w), x)
    with Names():
        g = torch.autograd.grad(y.sum(), x)[0]
    assert ops.count("mm") == 1
    check(g, torch.autograd.grad(torch.mm(torch.mm(x, w).tanh(), w).sum(), x)[0])


@pytest.mark.parametrize("how", ["argument", "context"])
def test_early_stop_can_be_turned_off(how):
    ends = []

    def f(x):
        y = x.exp() + 1
        ends.append(1)
        return y

    if how == "argument":
        y = checkpoint(f, randleaf(2), early_stop=False)
    else:
        with set_checkpoint_early_stop(False):
            y = checkpoint(f, randleaf(2))
    y.sum().backward()
    assert len(ends) == 2


def test_the_context_overrides_the_argument_and_ends():
    ends = []

    def f(x):
        y = x.exp() + 1
        ends.append(1)
        return y

    with set_checkpoint_early_stop(True):
        checkpoint(f, randleaf(2), early_stop=False).sum().backward()
    assert len(ends) == 1
    checkpoint(f, randleaf(2), early_stop=False).sum().backward()
    assert len(ends) == 3


def test_except_clauses_do_not_catch_the_stop():
    def f(x):
        try:
            return x.exp()
        except Exception:
            raise AssertionError from None

    checkpoint(f, randleaf(2)).sum().backward()


# ---- writes


def test_saved_tensors_that_the_function_writes_to_later():
    """Backward gets the values that were saved, even where the plain call has to refuse."""

    def overwrites(x):
        y = x.exp()
        y.add_(1)
        return y.sin() * x

    def overwrites_last(x):
        y = (x * 2).exp()
        y.mul_(torch.ones(3, dtype=y.dtype))
        return y.add_(1)

    def fills_a_buffer(x):
        rows = x.new_zeros(4, 3)
        for i in range(4):
            rows[i] = x * i
            x = x + rows[i].sin()
        return x

    x = randleaf(3)
    assert_same(
        gradients(lambda t: checkpoint(overwrites, t), x),
        gradients(lambda t: (t.exp() + 1).sin() * t, x),
    )
    assert_same(gradients(lambda t: checkpoint(fills_a_buffer, t), x), gradients(fills_a_buffer, x))


# ---- memory


def test_intermediates_die_and_so_does_the_region():
    alive = []

    def f(x):
        h = x.exp()
        alive.append(weakref.ref(h))
        return h.sin()

    x = randleaf(3)
    y = checkpoint(f, x)
    assert alive[0]() is None
    y.sum().backward()
    del y
    assert alive[1]() is None


@pytest.mark.parametrize("use", ["backward", "retain", "drop", "error", "late error"])
def test_nothing_is_left_without_the_collector(use):
    class Thing:
        pass

    def work():
        thing, late = Thing(), []

        def f(t):
            if use == "error" or late:
                raise ValueError("mine")
            return t.exp().sin() if thing else t

        x = randleaf(3)
        y = checkpoint(f, x)
        late.extend([1] if use == "late error" else [])
        if use != "drop":
            y.sum().backward(retain_graph=use == "retain")
        return weakref.ref(thing)

    gc.collect()
    gc.disable()
    try:
        if "error" in use:
            found = len(gc.get_objects())
            with pytest.raises(ValueError, match="mine") as caught:
                work()
            assert caught.value.__traceback__ is not None
            del caught
            assert len(gc.get_objects()) < found + 100
        else:
            assert work()() is None
    finally:
        gc.enable()


def test_peak_memory_of_a_deep_chain():
    def peak(call):
        x = torch.randn(64, 1024, requires_grad=True)
        before = torch.memory_stats()["allocated_bytes"]
        torch.reset_peak_memory_stats()
        y = x
        for _ in range(10):
            y = call(lambda t: t.sin().exp().tanh().cos().sigmoid(), y)
        torch.autograd.grad(y.sum(), x)
        return torch.memory_stats()["peak_allocated_bytes"] - before

    assert peak(checkpoint) < 0.45 * peak(lambda f, t: f(t))


# ---- threads


def test_threads():
    expected = gradients(block, randleaf(3))
    results = []

    def work():
        for _ in range(20):
            results.append(gradients(lambda t: checkpoint(block, t), randleaf(3)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 80
    for ours in results:
        assert_same(ours, expected)


def test_one_graph_in_several_threads():
    x = randleaf(50)
    y = checkpoint(block, x).sum()
    expected = values(torch.autograd.grad(y, x, retain_graph=True)[0])
    results = []

    def work():
        for _ in range(20):
            results.append(values(torch.autograd.grad(y, x, retain_graph=True)[0]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert_same(results, [expected] * 80)


# ---- the rest of the module


@pytest.mark.parametrize("segments", [1, 2, 3, 5])
@pytest.mark.parametrize("options", [{}, {"preserve_rng_state": False}, {"memory_budget": 0.5}])
def test_sequential(segments, options):
    steps = [torch.sin, torch.exp, lambda t: t * 2, torch.tanh, torch.cos]

    def plain(x):
        for step in steps:
            x = step(x)
        return x

    x = randleaf(3)
    ours = gradients(lambda t: checkpoint_sequential(iter(steps), segments, t, **options), x)
    assert_same(ours, gradients(plain, x))


def test_sequential_leaves_the_last_segment_alone():
    steps, calls = zip(*(counted(torch.sin) for _ in range(4)), strict=True)
    checkpoint_sequential(list(steps), 2, randleaf(2)).sum().backward()
    assert [len(c) for c in calls] == [2, 2, 1, 1]


def test_sequential_refuses_what_it_can_not_do():
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint_sequential([torch.sin], 1, randleaf(1), foo=1)
    for segments in (0, 2):
        with pytest.raises(ValueError, match="can't be cut into"):
            checkpoint_sequential([torch.sin], segments, randleaf(1))


def test_the_function_of_old_programs():
    x = randleaf(3)
    plain = gradients(block, x)
    assert_same(gradients(lambda t: CheckpointFunction.apply(block, True, t), x), plain)


def test_small_helpers():
    x = randleaf(2)
    a, b = detach_variable((x.exp(), 3))
    assert a.is_leaf
    assert a.requires_grad
    assert b == 3
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported"):
        detach_variable([x])
    check_backward_validity([x, 1])
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        check_backward_validity([x.detach(), 1])
    assert get_device_states(x) == ([], [])
    set_device_states(*get_device_states(x))
    with pytest.raises(RuntimeError, match="no accelerator"):
        set_device_states([0], [x])
    assert DefaultDeviceType.get_device_type() == "cpu"
    DefaultDeviceType.set_device_type("cuda")
    assert DefaultDeviceType.get_device_type() == "cuda"
    DefaultDeviceType.set_device_type("cpu")
    assert len(noop_context_fn()) == 2


def test_disjoint_backward_passes_share_a_recomputation():
    f, calls = counted(lambda x, w: (x.exp() * w, x.sin() * w))
    x, w = randleaf(3), randleaf(3, seed=1)
    with GraphExecGroup():
        a, b = checkpoint(f, x, w)
        a.sum().backward()
        b.sum().backward()
    assert len(calls) == 2
    check(x.grad, w * (x.exp() + x.cos()))
    with (
        pytest.raises(RuntimeError, match="GraphExecGroup contexts cannot be nested"),
        GraphExecGroup(),
        GraphExecGroup(),
    ):
        pass


def test_the_module_is_loaded_on_use():
    assert torch.utils.checkpoint.checkpoint is checkpoint
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        torch.utils.nothing
