"""Programs with checkpoints: values, gradients, what runs how often and which errors come."""

import functools
import itertools

import numpy as np
import pytest
import torch.utils.checkpoint  # noqa: F401 - torch does not load it by itself

from oracle.harness import assert_same_outcome, from_numpy

SEED = 7
PROGRAMS = []


def program(f):
    PROGRAMS.append(f)
    return f


def leaf(L, *shape, seed=0):
    return from_numpy(L, np.random.default_rng(seed).standard_normal(shape), True)


def checkpointed(L, **options):
    return functools.partial(L.utils.checkpoint.checkpoint, use_reentrant=False, **options)


def block(L, x):
    return ((x.sin() * x).exp() + x.cos()).tanh()


@program
def values_and_gradients(L):
    x, w = leaf(L, 3, 4), leaf(L, 4, 2, seed=1)
    y = checkpointed(L)(lambda a, b: block(L, a) @ b, x, w)
    return y, L.autograd.grad(y.square().sum(), [x, w])


@program
def backward_fills_grad(L):
    x, w = leaf(L, 3, 4), leaf(L, 4, 2, seed=1)
    checkpointed(L)(lambda a: (a @ w).sigmoid(), x).sum().backward()
    return x.grad, w.grad


@program
def keyword_arguments(L):
    x = leaf(L, 3)
    y = checkpointed(L)(lambda a, *, power, shift=0.0: (a**power + shift).sin(), x, power=3)
    return y, L.autograd.grad(y.sum(), x)


@program
def unknown_keyword(L):
    return checkpointed(L)(lambda a: a, leaf(L, 3), power=3)


@program
def no_input_requires_grad(L):
    x, w = leaf(L, 3).detach(), leaf(L, 3, seed=1)
    checkpointed(L)(lambda a: (a * w).exp(), x).sum().backward()
    return w.grad


@program
def structures(L):
    x = leaf(L, 3)
    out = checkpointed(L)(lambda a: {"a": a.sin(), "b": (a.exp(), 7, None)}, x)
    return out, L.autograd.grad((out["a"] * out["b"][0]).sum(), x)


@program
def twice_with_retained_graph(L):
    x = leaf(L, 3)
    y = checkpointed(L)(functools.partial(block, L), x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


@program
def twice_without(L):
    x = leaf(L, 3)
    y = checkpointed(L)(functools.partial(block, L), x).sum()
    y.backward()
    y.backward()


@program
def second_order(L):
    x = leaf(L, 3)
    y = checkpointed(L)(functools.partial(block, L), x)
    (g,) = L.autograd.grad(y.sum(), x, create_graph=True)
    return g.detach(), L.autograd.grad((g * g).sum(), x)


@program
def forward_over_backward(L):
    forward_ad = L.autograd.forward_ad
    with forward_ad.dual_level():
        x = forward_ad.make_dual(leaf(L, 3), leaf(L, 3, seed=1).detach())
        y = checkpointed(L)(functools.partial(block, L), x)
        (g,) = L.autograd.grad(y.sum(), x, create_graph=True)
        return forward_ad.unpack_dual(g).tangent.detach()


@program
def nested(L):
    x = leaf(L, 3)
    c = checkpointed(L)

    def inner(a):
        return c(lambda b: b.exp().tanh(), a.sin()).cos()

    y = c(lambda a: c(inner, a * 1.5).square(), x)
    return y, L.autograd.grad(y.sum(), x)


@program
def nested_second_order(L):
    x = leaf(L, 3)
    c = checkpointed(L)
    y = c(lambda a: c(lambda b: b.exp().sin(), a.sin()).cos(), x)
    (g,) = L.autograd.grad(y.sum(), x, create_graph=True)
    return L.autograd.grad(g.sum(), x)


@program
def early_stop(L):
    """Which lines run how often."""
    counts = []

    def f(a):
        counts.append("start")
        y = a.exp()
        counts.append("saved")
        return y + 1

    x = leaf(L, 3)
    for option in ({}, {"early_stop": False}):
        checkpointed(L, **option)(f, x).sum().backward()
        counts.append(";")
    with L.utils.checkpoint.set_checkpoint_early_stop(False):
        checkpointed(L)(f, x).sum().backward()
    return counts


@program
def runs_of_nested_functions(L):
    counts = []
    c = checkpointed(L)

    def inner(a):
        counts.append("inner")
        return a.exp().sin()

    def outer(a):
        counts.append("outer")
        return c(inner, a.cos()).tanh()

    x = leaf(L, 3)
    c(outer, x).sum().backward()
    return counts, x.grad


@program
def without_grad(L):
    with L.no_grad():
        return checkpointed(L)(functools.partial(block, L), leaf(L, 3))


@program
def no_grad_inside(L):
    def f(a):
        with L.no_grad():
            scale = a.abs().max()
        return (a / scale).exp()

    x = leaf(L, 3)
    y = checkpointed(L)(f, x)
    return y, L.autograd.grad(y.sum(), x)


@program
def gradient_inside(L):
    def f(a):
        y = (a.sin() * a).sum()
        (g,) = L.autograd.grad(y, a, create_graph=True)
        return y + (g * g).sum()

    x = leaf(L, 3)
    y = checkpointed(L)(f, x)
    return y, L.autograd.grad(y, x)


def changing(L, first, then, **options):
    """A function whose second run differs."""
    count = itertools.count()
    x = leaf(L, 3)
    y = checkpointed(L, **options)(lambda a: first(a) if next(count) == 0 else then(a), x)
    y.sum().backward()
    return x.grad


@program
def fewer_saved(L):
    return changing(L, lambda a: a.exp().sin(), lambda a: a.exp())


@program
def more_saved(L):
    return changing(L, lambda a: a.exp(), lambda a: a.exp().sin())


@program
def more_saved_to_the_end(L):
    return changing(L, lambda a: a.exp(), lambda a: a.exp().sin(), early_stop=False)


@program
def other_shape(L):
    return changing(L, lambda a: a.exp(), lambda a: a[:1].exp())


@program
def other_shape_unchecked(L):
    return changing(
        L, lambda a: a.exp(), lambda a: a[:1].exp().expand(3).sin(), determinism_check="none"
    )


@program
def bad_check(L):
    return checkpointed(L, determinism_check="bogus")(L.sin, leaf(L, 3))


@program
def error_in_forward(L):
    def f(a):
        a.exp()
        raise KeyError("mine")

    return checkpointed(L)(f, leaf(L, 3))


@program
def error_in_recomputation(L):
    def then(a):
        raise KeyError("mine")

    return changing(L, lambda a: a.exp(), then)


@program
def input_written_before_backward(L):
    h = leaf(L, 3) * 2
    y = checkpointed(L)(lambda a: a.sin().exp(), h)
    h.add_(1)
    y.sum().backward()


@program
def sequential(L):
    steps = [L.sin, L.exp, lambda t: t * 2, L.tanh, L.cos]
    found = []
    for segments in (1, 2, 3, 5):
        x = leaf(L, 3)
        y = L.utils.checkpoint.checkpoint_sequential(steps, segments, x, use_reentrant=False)
        found += [y, *L.autograd.grad(y.sum(), x)]
    return found


@program
def sequential_with_too_many_segments(L):
    return L.utils.checkpoint.checkpoint_sequential([L.sin], 3, leaf(L, 3), use_reentrant=False)


@program
def sequential_with_unknown_option(L):
    checkpoint_sequential = L.utils.checkpoint.checkpoint_sequential
    return checkpoint_sequential([L.sin], 1, leaf(L, 3), use_reentrant=False, foo=3)


@program
def the_random_state_goes_on(L):
    """Equal numbers cannot be compared across libraries; equality within one can."""
    drawn = []

    def f(a):
        drawn.append(L.rand(4))
        return a.sin()

    x = leaf(L, 3)
    L.manual_seed(SEED)
    y = checkpointed(L)(f, x)
    after = L.rand(2)
    y.sum().backward()
    later = L.rand(2)
    L.manual_seed(SEED)
    expected = [L.rand(4), L.rand(2), L.rand(2)]
    pairs = zip([drawn[0], after, later], expected, strict=True)
    return bool((drawn[0] == drawn[1]).all()), [bool((a == b).all()) for a, b in pairs]


@program
def preserve_rng_state_off(L):
    drawn = []

    def f(a):
        drawn.append(L.rand(4))
        return a.sin()

    checkpointed(L, preserve_rng_state=False)(f, leaf(L, 3)).sum().backward()
    return bool((drawn[0] == drawn[1]).all())


@program
def contexts_around_both_runs(L):
    log = []

    class Note:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(self.name)

        def __exit__(self, *error):
            log.append("end of " + self.name)

    x = leaf(L, 3)
    y = checkpointed(L, context_fn=lambda: (Note("forward"), Note("again")))(L.exp, x)
    y.sum().backward()
    return log, x.grad


@program
def helpers(L):
    c = L.utils.checkpoint
    x = leaf(L, 3)
    detached = c.detach_variable((x.exp(), 3))
    return detached, c.get_device_states(x), len(c.noop_context_fn())


@program
def wrong_detach(L):
    return L.utils.checkpoint.detach_variable(leaf(L, 3))


@program
def nested_groups(L):
    group = L.utils.checkpoint.GraphExecGroup
    with group(), group():
        pass


@program
def disjoint_backward_passes(L):
    calls = []

    def f(a):
        calls.append(1)
        return a.exp(), a.sin().exp()

    x = leaf(L, 3)
    with L.utils.checkpoint.GraphExecGroup():
        a, b = checkpointed(L)(f, x)
        a.sum().backward()
        b.sum().backward()
    return len(calls), x.grad


@program
def policy_names(L):
    return [(p.name, p.value) for p in L.utils.checkpoint.CheckpointPolicy]


@program
def a_policy_that_is_neither(L):
    return L.utils.checkpoint.create_selective_checkpoint_contexts(3)


@program
def a_list_of_something_else(L):
    return L.utils.checkpoint.create_selective_checkpoint_contexts(["mm"])


def selective(L, keep, **options):
    """A policy by name, which both libraries understand: torch asks about aten's ops."""
    c = L.utils.checkpoint

    def policy(ctx, op, *args, **kwargs):
        name = op.__name__.split(".")[0]
        return c.CheckpointPolicy.MUST_SAVE if name in keep else c.CheckpointPolicy.MUST_RECOMPUTE

    contexts = functools.partial(c.create_selective_checkpoint_contexts, policy, **options)
    return checkpointed(L, context_fn=contexts)


@program
def selective_gradients(L):
    found = []
    for keep in (set(), {"mm"}, {"exp"}, {"mm", "exp", "sin", "tanh"}):
        x, w = leaf(L, 3, 3), leaf(L, 3, 3, seed=1)
        y = selective(L, keep)(lambda a, b: L.mm(L.mm(a, b).exp(), b).sin().tanh(), x, w)
        found += [y, *L.autograd.grad(y.sum(), [x, w])]
    return found


@program
def selective_with_mutation(L):
    x = leaf(L, 3)
    y = selective(L, {"exp"})(lambda a: (a * 1).exp().add_(1).sin(), x)
    y.sum().backward()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_program(program):
    assert_same_outcome(program)
