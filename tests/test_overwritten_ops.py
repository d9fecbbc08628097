"""Law over the registry: a write after the forward pass never gives a wrong gradient.

Whatever an op was given or returned is overwritten through `detach()`. Either the op did not save
it, and the gradient is what it was, or backward raises.
"""

import re

import numpy as np
import pytest

import rushlight as torch
from support import values
from test_ops import DIFFERENTIABLE, GRADIENTS, every, gradient_cases

REFUSED = "modified by an inplace operation|more than one element of the written-to tensor"


def gradients_after(f, inputs, create_graph, victim=None):
    """Gradients of f with the victim-th tensor overwritten; None if there is no such tensor."""
    used = [t * 1 if t.requires_grad else t.clone() for t in inputs]
    outputs = [o for o in f(*used) if o.requires_grad]
    if victim is not None:
        tensors = [t for t in (*used, *outputs) if t.numel()]
        if victim >= len(tensors):
            return None
        tensors[victim].detach().fill_(0.123)
    weights = [
        torch.linspace(0.5, 1.5, o.numel(), dtype=torch.float64).reshape(o.shape).to(o.dtype)
        for o in outputs
    ]
    wanted = [x for x in inputs if x.requires_grad]
    grads = torch.autograd.grad(
        outputs, wanted, weights, allow_unused=True, create_graph=create_graph
    )
    return [None if g is None else values(g) for g in grads]


def check_op(entry_or_name):
    for inputs, f in gradient_cases(entry_or_name):
        for create_graph in (False, True):
            expected = gradients_after(f, inputs, create_graph)
            for victim in range(100):
                try:
                    found = gradients_after(f, inputs, create_graph, victim)
                except RuntimeError as error:
                    if not re.search(REFUSED, str(error)):
                        raise
                    continue
                if found is None:
                    break
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(a, b)


@every(DIFFERENTIABLE)
def test_pointwise_ops(entry):
    check_op(entry)


@pytest.mark.parametrize("name", GRADIENTS)
def test_structural_ops(name):
    check_op(name)
