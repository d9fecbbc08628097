"""Law over the registry: values and gradients of all samples of all ops are PyTorch's, in float64.

An op without a single case fails, as does one with a gradient here of which none is compared.
"""

import warnings

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import derived_here_alone, to_numpy
from oracle.layouts import Case, find
from registry import ENTRIES, path, samples_of
from sample_linalg import FREE

NAMES = {
    path(e): e
    for e in reversed(ENTRIES)
    if e["forms"] and e["family"] not in ("random", "creation")
}
# Gradients that PyTorch defines otherwise or gets wrong; the values are compared.
VALUES_ONLY = {
    "native_layer_norm": "gradients of the statistics go nowhere there",
    "as_strided_scatter": "what was overwritten has a gradient there",
    "cholesky_inverse": "the triangle that is not read has a gradient there",
    "cholesky_solve": "the triangle that is not read has a gradient there",
    "linalg.lstsq": "singular values have no gradient there",
}
# Gradients that PyTorch has for the last argument alone; that one is compared.
LAST_ONLY = ("igamma", "igammac", "special.zeta")
# Gradients that PyTorch has not.
HERE_ONLY = {
    "bincount": "of weights: refused there",
    "floor_divide": "zeros here, as of floor; not differentiable there",
    "vander": "refused there: it multiplies in place what it needs",
}
# Kernels that take their parameters as float32 there.
COARSE = ("celu", "hardsigmoid")


def samples(entry):
    """Of numbers, or of integers for the ops that take no others."""
    integral = entry["name"].startswith("bitwise_")
    return samples_of(entry, rushlight.int64 if integral else rushlight.float64, 1)


def outcome(case, library, function):
    """(results, gradients), or None where the library refuses the call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            results, leaves = case.call(library, function)
        except Exception:
            return None
        numbers = [numbers_of(r) for r in results]
        tops = [r for r in results if r.requires_grad]
        try:
            library.autograd.backward(tops, [weights(library, r) for r in tops])
        except Exception:
            return numbers, None
        return numbers, [None if t.grad is None else numbers_of(t.grad) for t in leaves]


def numbers_of(t):
    return to_numpy(t.detach().clone().resolve_conj().resolve_neg())


def weights(library, result):
    """Another number for every element, so that no gradient hides behind a sum."""
    numbers = np.cos(1 + np.arange(result.numel(), dtype=np.float64)).reshape(tuple(result.shape))
    return library.from_numpy(np.array(numbers)).to(result.dtype)


def check(name, what, ours, theirs):
    assert len(ours) == len(theirs), (name, what)
    for mine, other in zip(ours, theirs, strict=True):
        mine = np.zeros(()) if mine is None else mine
        other = np.zeros(()) if other is None else other  # no gradient, or zeros: as good
        rtol = 1e-6 if name.split(".")[-1] in COARSE else 1e-9
        close = np.allclose(mine, other, rtol=rtol, atol=1e-10, equal_nan=True)
        assert close, (name, what, mine, other)


def of_the_last(op):
    return lambda *args: op(*(a.detach() for a in args[:-1]), args[-1])


@pytest.mark.parametrize("name", sorted(NAMES))
def test_ops(name):
    ours, theirs = find(rushlight, name), find(torch, name)
    if theirs is None and name.startswith("Tensor."):
        theirs = getattr(torch.Tensor, name.removeprefix("Tensor."), None)
    assert theirs is not None, name
    if name in FREE:
        ours, theirs = FREE[name](ours), FREE[name](theirs)
    if name in LAST_ONLY:
        ours, theirs = of_the_last(ours), of_the_last(theirs)
    cases = compared = derived = 0
    for sample in samples(NAMES[name]):
        case = Case(sample, "contiguous")
        wanted = outcome(case, torch, theirs)
        if wanted is None:
            continue
        got = outcome(case, rushlight, ours)
        assert got is not None, (name, "refused", sample)
        check(name, "value", got[0], wanted[0])
        if wanted[1] is not None and name not in VALUES_ONLY and not derived_here_alone(name):
            assert got[1] is not None, (name, "no gradient", sample)
            check(name, "gradient", got[1], wanted[1])
            compared += any(g is not None and g.size for g in wanted[1])
        derived += any(g is not None for g in got[1] or ())
        cases += 1
    assert cases, name
    excused = name in VALUES_ONLY or name in HERE_ONLY or derived_here_alone(name)
    assert compared or not derived or excused, (name, "no gradient compared")
    assert not (compared and name in HERE_ONLY), (name, "has a gradient there")
