"""Derivatives of order 1 to 4 by reverse mode, by forward over reverse, and of the decomposition.

The suite takes small samples; `tools/sweep` takes all of them.
"""

import os

import pytest

import rushlight as torch
from decompositions import DECOMPOSITIONS
from registry import ENTRIES, path
from samples import SAMPLES, function
from support import check
from test_ops import differentiable_outputs, leaves, refuses
from test_ops_forward import along, every_op, forward_cases, inner, nonzero, pull, push

SWEEP = bool(os.environ.get("RUSHLIGHT_SWEEP"))
LARGEST = 200 if SWEEP else 6  # elements that are differentiated by
# Ops whose rule is stated by hand, and which users call by this name.
GENERAL = {path(e) for e in ENTRIES if e["derivative"] == "general" and e["forms"]} & set(SAMPLES)
# Constant wherever they are smooth, of complex numbers, or random: nothing to decompose.
SIMPLE = {"heaviside", "round", "sgn", "angle", "polar", "bernoulli", "normal", "unique"}
# Tuples of the operations above.
TUPLES = {"aminmax", "max", "min", "native_layer_norm"}
# Refuse a derivative by factors that every sample has; test_linalg.py differentiates by the rest.
REFUSING = {"linalg.ldl_solve"}


def slopes(f, inputs, v, u, order):
    """<u, f> and its derivatives along v, up to an order, by reverse mode."""
    found = [inner(u, f(*inputs))]
    wanted, v = zip(
        *((x, t) for x, t in zip(inputs, v, strict=True) if x.requires_grad), strict=True
    )
    for _ in range(order):
        if not found[-1].requires_grad:
            found.append(torch.zeros((), dtype=torch.float64))
            continue
        grads = torch.autograd.grad(found[-1], wanted, create_graph=True, allow_unused=True)
        found.append(inner(grads, v))
    return found


def decomposed_cases(name):
    """(inputs, the operation, its decomposition) for samples that both take."""
    for sample in SAMPLES[name](torch.float64, 1):
        inputs, wrap = leaves(sample)
        if not inputs or not 0 < sum(x.numel() for x in inputs) <= 5 * LARGEST:
            continue
        f = differentiable_outputs(wrap(function(name)))
        g = differentiable_outputs(wrap(DECOMPOSITIONS[name]))
        if not refuses(f, inputs) and any(y.requires_grad for y in f(*inputs)):
            yield inputs, f, g


@pytest.mark.parametrize("name", sorted(DECOMPOSITIONS))
def test_derivatives_are_those_of_the_decomposition(name):
    cases = list(decomposed_cases(name))
    assert cases
    for inputs, f, g in cases:
        outputs = f(*inputs)
        v = [torch.linspace(-1, 0.9, x.numel(), dtype=x.dtype).reshape(x.shape) for x in inputs]
        u = [torch.linspace(0.3, 1.7, y.numel(), dtype=y.dtype).reshape(y.shape) for y in outputs]
        for y, z in zip(outputs, g(*inputs), strict=True):
            check(y, z.expand(y.shape), rtol=1e-9, atol=1e-10)
        found, expected = slopes(f, inputs, v, u, 4), slopes(g, inputs, v, u, 4)
        if not all(s.isfinite() for s in expected):  # a root at zero, which the rule knows better
            continue
        for order in range(1, 5):
            check(found[order], expected[order], rtol=1e-6, atol=1e-7)


def test_every_stated_rule_has_a_decomposition():
    assert GENERAL - SIMPLE - TUPLES - REFUSING <= set(DECOMPOSITIONS)


@every_op
@pytest.mark.parametrize("order", [3, 4] if SWEEP else [3])
def test_forward_over_reverse_is_reverse(op, order):
    for inputs, f, v, u in forward_cases(op, LARGEST):
        pulled, weights = f, u
        for _ in range(order - 2):
            if any(y.requires_grad for y in pulled(*inputs)):
                _, pulled = along(pulled, weights, v)
                weights = [torch.ones((), dtype=torch.float64)]
        if not any(y.requires_grad for y in pulled(*inputs)):
            continue
        slope = inner(pull(pulled, inputs, weights, create_graph=True), v)
        if not slope.requires_grad:
            continue
        reverse = torch.autograd.grad(slope, inputs, allow_unused=True)

        def gradient(*xs, pulled=pulled, weights=weights):
            return nonzero(pull(pulled, xs, weights), xs)

        mixed = push(gradient, inputs, v)
        for x, *both in zip(inputs, reverse, mixed, strict=True):
            a, b = (torch.zeros_like(x) if g is None else g for g in both)
            check(b, a, rtol=1e-7, atol=1e-8)
