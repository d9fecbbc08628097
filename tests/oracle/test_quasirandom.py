"""Sobol' points are PyTorch's."""

import pytest
import torch

import rushlight


@pytest.mark.parametrize("dimension", [1, 2, 3, 7, 50, 1111])
@pytest.mark.parametrize("options", [{}, {"scramble": True, "seed": 3}])
def test_draws_are_the_same(dimension, options):
    with rushlight.random.torch_streams():
        ours = rushlight.quasirandom.SobolEngine(dimension, **options)
    theirs = torch.quasirandom.SobolEngine(dimension, **options)
    for n in (1, 5, 8, 3):
        assert ours.draw(n).tolist() == theirs.draw(n).tolist()
    ours.fast_forward(6), theirs.fast_forward(6)
    assert ours.draw(2, dtype=rushlight.float64).tolist() == (
        theirs.draw(2, dtype=torch.float64).tolist()
    )
    ours.reset().fast_forward(3), theirs.reset().fast_forward(3)
    assert ours.draw(4).tolist() == theirs.draw(4).tolist()
    assert ours.quasi.tolist() == theirs.quasi.tolist()
    assert ours.sobolstate.tolist() == theirs.sobolstate.tolist()
    assert repr(ours) == repr(theirs)


def test_the_last_dimension():
    ours = rushlight.quasirandom.SobolEngine(21201).draw(4)
    assert ours.tolist() == torch.quasirandom.SobolEngine(21201).draw(4).tolist()


@pytest.mark.parametrize("library", [rushlight, torch])
def test_bad_requests(library):
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match="Supported range of dimensionality"):
            library.quasirandom.SobolEngine(dimension)
    engine = library.quasirandom.SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="The balance properties of Sobol' points"):
        engine.draw_base2(2)
