"""Compare a function's values, gradients and gradients of gradients with PyTorch's, in float64."""

import numpy as np

from oracle.harness import LIBRARIES, from_numpy, to_numpy

RANDOM = np.random.default_rng(11)


def normal(*shape):
    return RANDOM.standard_normal(shape)


def flat(value):
    return [t for v in value for t in flat(v)] if isinstance(value, (tuple, list)) else [value]


def derivatives(function, library, arrays, second):
    """The results, their gradient by every array, and the gradient of that gradient's square."""
    inputs = [from_numpy(library, a, a.dtype.kind == "f") for a in arrays]
    results = flat(function(library, *inputs))
    wanted = [x for x in inputs if x.requires_grad]
    moving = [y for y in results if y.requires_grad]
    found = [to_numpy(y) for y in results]
    if not wanted or not moving:
        return found
    loss = sum((y * y * y).sum() + (1.3 * y).sum() for y in moving)

    def gradient(of, **options):
        grads = library.autograd.grad(of, wanted, allow_unused=True, **options)
        return [
            library.zeros_like(x) if g is None else g for g, x in zip(grads, wanted, strict=True)
        ]

    found += [to_numpy(g) for g in gradient(loss, retain_graph=True)]
    if not second:
        return found
    first = gradient(loss, create_graph=True)
    found += [to_numpy(g) for g in first]
    return found + [to_numpy(g) for g in gradient(sum((g * g).sum() for g in first))]


def assert_same_derivatives(function, *arrays, second=True, rtol=1e-8, atol=1e-9):
    """`function(library, *tensors)` gives one tensor or several; integer arrays are constants."""
    ours, theirs = (derivatives(function, library, arrays, second) for library in LIBRARIES)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
