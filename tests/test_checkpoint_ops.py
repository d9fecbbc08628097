"""Laws over the registry: a checkpoint around any op changes no bit of its gradients."""

import functools

import numpy as np
import pytest

from rushlight.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from test_ops import DIFFERENTIABLE, GRADIENTS, every, gradient_cases, gradients

KEEP_ALL = functools.partial(create_selective_checkpoint_contexts, lambda *args, **kwargs: True)
WAYS = [{}, {"memory_budget": 0.0}, {"memory_budget": 0.6}, {"context_fn": KEEP_ALL}]


def check_op(entry_or_name):
    for inputs, f in gradient_cases(entry_or_name):

        def region(*given, f=f):
            return f(*[t * 1 if t.requires_grad else t for t in given])

        for create_graph in (False, True):
            expected = gradients(region, inputs, create_graph)
            for options in WAYS:
                call = functools.partial(checkpoint, region, **options)
                found = gradients(call, inputs, create_graph)
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=str(options))


@every(DIFFERENTIABLE)
def test_pointwise_ops(entry):
    check_op(entry)


@pytest.mark.parametrize("name", GRADIENTS)
def test_structural_ops(name):
    check_op(name)
