"""Halves beside single numbers: every pointwise op of two tensors rounds them as PyTorch does."""

import numpy as np
import pytest
import torch

import rushlight
from registry import ENTRIES, is_pointwise, parameters, path

# Computed in another way, to within a unit in the last place.
NEAR = {"xlogy", "special.xlogy", "special.xlog1py", "special.zeta", "atan2", "arctan2"}
BINARY = sorted(
    {
        path(e)
        for e in ENTRIES
        if is_pointwise(e)
        and len(parameters(e)) == 2
        and {kind for kind, _, _ in parameters(e)} <= {"Tensor", "Tensor|Number"}
    }
)


def found(library, name, dtype, number, wrap):
    home = library
    for part in name.split("."):
        home = getattr(home, part, None)
    grid = np.linspace(0.2, 3, 500)
    x = library.tensor(grid).to(getattr(library, dtype))
    other = library.tensor(number, dtype=library.float64) if wrap else number
    return home(x, other).double().numpy()


def wanted(name, dtype, wrap):
    """PyTorch's answer, or None where it takes no such arguments."""
    try:
        return found(torch, name, dtype, 0.1, wrap)
    except (TypeError, NotImplementedError, RuntimeError, AttributeError):
        return None


CASES = [
    (name, dtype, wrap)
    for name in BINARY
    for dtype in ("float16", "bfloat16")
    for wrap in (False, True)
    if wanted(name, dtype, wrap) is not None
]


@pytest.mark.parametrize(("name", "dtype", "wrap"), CASES)
def test_results_are_those_of_pytorch(name, dtype, wrap):
    theirs, ours = wanted(name, dtype, wrap), found(rushlight, name, dtype, 0.1, wrap)
    if name in NEAR:
        np.testing.assert_allclose(ours, theirs, rtol=2e-2 if dtype == "bfloat16" else 2e-3)
    else:
        np.testing.assert_array_equal(ours, theirs)


def test_there_are_cases():
    assert len(CASES) > 100
