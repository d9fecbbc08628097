"""The examples in the docstrings of ops print the same on PyTorch."""

import doctest
import math

import pytest
import torch

from rushlight._examples import EXAMPLES

PARSER = doctest.DocTestParser()


def in_torch(name):
    """Whether PyTorch has the op, as a function or as a method."""
    value = torch
    for part in name.split("."):
        value = getattr(value, part, None)
    return value is not None or hasattr(torch.Tensor, name)


@pytest.mark.filterwarnings("ignore:.* is deprecated")
@pytest.mark.parametrize("name", [n for n in EXAMPLES if in_torch(n)])
def test_prints_the_same(name):
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, "math": math}
    example = PARSER.get_doctest(EXAMPLES[name], names, name, None, None)
    assert doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example).failed == 0
