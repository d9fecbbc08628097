"""Laws over the registry: a dispatch mode that passes calls on changes no result."""

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils._python_dispatch import TorchDispatchMode
from test_ops import DIFFERENTIABLE, GRADIENTS, every, gradient_cases, gradients


class Passing(TorchDispatchMode):
    def __init__(self):
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert isinstance(func, torch._ops.OpOverload)
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def check_op(entry_or_name):
    for inputs, f in gradient_cases(entry_or_name):
        expected = gradients(f, inputs, False)
        with Passing() as mode:
            found = gradients(f, inputs, False)
        assert mode.seen
        for a, b in zip(found, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@every(DIFFERENTIABLE)
def test_pointwise_ops(entry):
    check_op(entry)


@pytest.mark.parametrize("name", GRADIENTS)
def test_structural_ops(name):
    check_op(name)
