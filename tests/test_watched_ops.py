"""Laws over the registry: looking on changes no bit of any gradient.

Hooks on every node, packed saved tensors and the modes that check something are put around each op;
its inputs are used before it as well, so that other gradients are added to those of the op.
"""

import numpy as np
import pytest

import rushlight as torch
from rushlight.autograd import graph
from test_ops import DIFFERENTIABLE, GRADIENTS, every, gradient_cases, gradients


def hooks_on_every_node():
    def watch(node):
        node.register_prehook(lambda grads: None)
        node.register_hook(lambda inputs, outputs: None)

    return graph.node_creation_hook(watch)


WAYS = {
    "hooks": hooks_on_every_node,
    "identity": lambda: graph.saved_tensors_hooks(lambda t: t, lambda t: t),
    "clones": lambda: graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t),
    "mutation": graph.allow_mutation_on_saved_tensors,
    "strict": torch.autograd.strict,
    "trace": lambda: torch.autograd.trace_nan(stop=False),
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
}


def check_op(entry_or_name):
    for inputs, f in gradient_cases(entry_or_name):

        def region(*given, f=f):
            used = [t * 1 if t.requires_grad else t for t in given]
            before = [t * 0.5 for t in used if t.requires_grad]
            return [*before, *f(*used)]

        for create_graph in (False, True):
            expected = gradients(region, inputs, create_graph)
            for name, way in WAYS.items():
                with way():
                    found = gradients(region, inputs, create_graph)
                for a, b in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(a, b, err_msg=name)


@every(DIFFERENTIABLE)
def test_pointwise_ops(entry):
    check_op(entry)


@pytest.mark.parametrize("name", GRADIENTS)
def test_structural_ops(name):
    check_op(name)
