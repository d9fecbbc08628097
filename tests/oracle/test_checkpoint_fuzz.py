"""Random programs: a checkpoint around any of them changes no bit of values or gradients."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from oracle.harness import from_numpy, to_numpy
from oracle.test_programs import CONFIGURATION, LIMIT, SHAPES, STEPS, step_result
from rushlight.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


def program(steps, *leaves):
    tensors = list(leaves)
    for (kind, name), i, j, n, flag in steps:
        result = step_result(rushlight, tensors, kind, name, i, j, n, flag)
        if result is not None and 0 < result.numel() <= LIMIT:
            tensors.append(result)
    return sum((t.tanh() * (k + 1)).sum() for k, t in enumerate(tensors))


def outcome(call, shapes, steps, seed, second_order):
    generator = np.random.default_rng(seed)
    leaves = [from_numpy(rushlight, generator.standard_normal(s), True) for s in shapes]
    loss = call(functools.partial(program, steps), *leaves)
    grads = rushlight.autograd.grad(loss, leaves, create_graph=second_order)
    found = [loss, *grads]
    if second_order:
        found += rushlight.autograd.grad(sum((g * g).sum() for g in grads), leaves)
    return [to_numpy(t) for t in found]


def plain(f, *leaves):
    return f(*leaves)


def some_results(seed):
    """A policy that keeps about every third result, by no system."""
    kept = np.random.default_rng(seed).random(10_000) < 0.3
    numbers = iter(kept.tolist())
    return lambda: create_selective_checkpoint_contexts(
        lambda ctx, op, *args, **kwargs: next(numbers), allow_cache_entry_mutation=False
    )


def ways(seed):
    yield checkpoint
    yield functools.partial(checkpoint, early_stop=False, determinism_check="values")
    yield lambda f, *leaves: checkpoint(lambda *inner: checkpoint(f, *inner), *leaves)
    for budget in (0.0, 0.3, 0.7, 1.0):
        yield functools.partial(checkpoint, memory_budget=budget)
    yield functools.partial(checkpoint, context_fn=some_results(seed))


@pytest.mark.parametrize("second_order", [False, True])
@settings(max_examples=60, **CONFIGURATION)
@given(shapes=SHAPES, steps=STEPS, seed=st.integers(0, 1000))
def test_no_bit_changes(second_order, shapes, steps, seed):
    expected = outcome(plain, shapes, steps, seed, second_order)
    for call in ways(seed):
        try:
            ours = outcome(call, shapes, steps, seed, second_order)
        except RuntimeError as error:
            # A policy may keep what the program then writes to: that is refused, never wrong.
            if "has been mutated" not in str(error):
                raise
            continue
        for a, b in zip(ours, expected, strict=True):
            np.testing.assert_array_equal(a, b)
