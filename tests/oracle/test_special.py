"""torch.special over PyTorch's own samples, and its names."""

import pytest
import torch

import rushlight
from oracle import opinfo

NAMES = sorted(n for n in torch.special.__all__)
VARIANTS = {"polygamma": "special_polygamma_n_0"}
SAMPLED = [n for n in NAMES if f"special.{n}" in opinfo.BY_NAME]
# Digits that PyTorch's own values have; ours are held to theirs by test_special.py.
TOLERANCE = {"bessel_j0": 2e-5, "bessel_j1": 1e-6, "bessel_y0": 2e-5, "bessel_y1": 2e-5}


def test_every_name_is_there():
    assert set(NAMES) <= set(rushlight.special.__all__)
    assert all(callable(getattr(rushlight.special, n)) for n in NAMES)


@pytest.mark.parametrize("name", SAMPLED)
def test_special_functions_equal_pytorchs(name):
    def found(library):
        function = getattr(library.special, name)
        return (lambda x, n: function(n, x)) if name == "polygamma" else function  # as sampled

    opinfo.check(
        f"special.{name}",
        found,
        variant=VARIANTS.get(name, ""),
        tol=TOLERANCE.get(name, 1e-8),
    )


@pytest.mark.parametrize("name", ["i0", "igamma", "igammac", "lgamma", "digamma", "erfinv"])
def test_top_level_functions_equal_pytorchs(name):
    opinfo.check(name, lambda t: getattr(t, name))


@pytest.mark.parametrize("p", [1, 3, 5])
def test_mvlgamma(p):
    opinfo.check("mvlgamma", lambda t: t.mvlgamma, variant=f"mvlgamma_p_{p}")
