"""Normalisations by channel against PyTorch: values, gradients, running statistics, errors."""

import numpy as np
import pytest

from oracle.derivatives import assert_same_derivatives, normal
from oracle.harness import LIBRARIES, assert_same_outcome, from_numpy, to_numpy

SHAPES = [(4, 3), (2, 70), (1, 3, 5), (2, 3, 4, 4), (3, 2, 1, 2), (40, 2, 1), (1, 2, 2, 3, 3)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm(shape, training):
    mean, var = normal(shape[1]), normal(shape[1]) ** 2 + 0.3

    def norm(library, x, weight, bias):
        running = (from_numpy(library, mean), from_numpy(library, var))
        y = library.nn.functional.batch_norm(x, *running, weight, bias, training, 0.3, 1e-3)
        return y, *running

    assert_same_derivatives(norm, normal(*shape), normal(shape[1]), normal(shape[1]))
    assert_same_derivatives(lambda t, x: norm(t, x, None, None), normal(*shape))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_native_batch_norm(shape):
    def norm(library, x, weight):
        return library.native_batch_norm(x, weight, None, None, None, True, 0.1, 1e-4)

    assert_same_derivatives(norm, normal(*shape), normal(shape[1]))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_group_norm(shape):
    channels = shape[1]
    for groups in {1, channels, 2 if channels % 2 == 0 else 1}:
        assert_same_derivatives(
            lambda t, x, w, b, groups=groups: t.nn.functional.group_norm(x, groups, w, b, 1e-3),
            normal(*shape),
            normal(channels),
            normal(channels),
        )


def test_native_group_norm_gives_statistics_with_a_derivative():
    def norm(library, x, w, b):
        return library.native_group_norm(x, w, b, 2, 6, 5, 3, 1e-4)

    assert_same_derivatives(norm, normal(2, 6, 5), normal(6), normal(6), second=False)


@pytest.mark.parametrize("use_input_stats", [True, False])
def test_instance_norm(use_input_stats):
    mean, var = normal(3), normal(3) ** 2 + 0.3

    def norm(library, x, weight, bias):
        running = (from_numpy(library, mean), from_numpy(library, var))
        f = library.nn.functional.instance_norm
        return f(x, *running, weight, bias, use_input_stats, 0.3, 1e-3), *running

    assert_same_derivatives(norm, normal(2, 3, 5), normal(3), normal(3))
    assert_same_derivatives(lambda t, x: t.nn.functional.instance_norm(x), normal(2, 3, 2, 2))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_local_response_norm(size):
    for shape in [(2, 4, 3), (1, 5, 2, 2), (1, 3, 1, 2, 2)]:
        assert_same_derivatives(
            lambda t, x: t.nn.functional.local_response_norm(x, size, 0.4, 0.6, 1.2),
            normal(*shape),
        )


@pytest.mark.parametrize(("p", "dim"), [(2, 1), (1, 0), (3, -1), (float("inf"), 1), (2, (0, 1))])
def test_normalize(p, dim):
    assert_same_derivatives(lambda t, x: t.nn.functional.normalize(x, p, dim), normal(3, 4))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_with_float_parameters(dtype):
    x, w, b = normal(3, 4, 6), normal(4), normal(4)

    def norms(library):
        half = from_numpy(library, x).to(getattr(library, dtype)).requires_grad_()
        weight, bias = (from_numpy(library, v).float().requires_grad_() for v in (w, b))
        mean, var = library.zeros(4), library.ones(4)
        f = library.nn.functional
        y = f.batch_norm(half, mean, var, weight, bias, True)
        z = f.group_norm(half, 2, weight, bias)
        (y.float() ** 3 + z.float() ** 2).sum().backward()
        return [y, z, half.grad, weight.grad, bias.grad, mean, var]

    for a, b in zip(*(norms(library) for library in LIBRARIES), strict=True):
        assert str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol=3e-2, atol=3e-2)


def test_two_batches_then_backward():
    """The running statistics change between the passes; neither gradient minds."""

    def program(library):
        f = library.nn.functional.batch_norm
        x = library.arange(12.0, dtype=library.float64).reshape(4, 3).square().requires_grad_()
        mean, var = library.zeros(3).double(), library.ones(3).double()
        y = f(x, mean, var, training=True) + f(2 * x, mean, var, training=True)
        (y**3).sum().backward()
        return x.grad, mean, var

    assert_same_outcome(program)


BAD = """
F.batch_norm(r(1, 3), None, None, training=True)
F.batch_norm(r(2, 3), None, None)
F.batch_norm(r(2, 3), z(4), o(4))
F.batch_norm(r(2, 3), z(3), o(4))
F.batch_norm(r(2, 3), z(3), o(3), weight=r(4))
F.batch_norm(r(2, 3), z(3), o(3), bias=r(4))
F.batch_norm(r(2, 3), z(3), None, training=True)
F.batch_norm(r(2, 3), r(3), o(3), training=True)
F.batch_norm(r(2), z(2), o(2))
F.batch_norm(r(2, 3).long(), z(3), o(3))
F.batch_norm(r(2, 3).double(), z(3), o(3), r(3), r(3), training=True)
F.batch_norm(r(2, 3), z(3), o(3), training=True, eps=0.0)
F.batch_norm(r(2, 3), z(3), o(3), eps=-1.0)
F.group_norm(r(2, 6, 3), 4)
F.group_norm(r(2, 6, 3), -1)
F.group_norm(r(6), 2)
F.group_norm(r(1, 2), 2)
F.group_norm(r(2, 6, 3), 2, r(5))
F.group_norm(r(2, 6).long(), 2)
torch.native_group_norm(r(2, 6, 3), r(6), r(6), 2, 6, 3, 4, 1e-5)
F.instance_norm(r(2, 3))
F.instance_norm(r(2, 3, 1))
F.instance_norm(r(2, 3, 4), use_input_stats=False)
F.instance_norm(r(2, 3, 4), z(4), o(4))
F.local_response_norm(r(2, 3), 2)
F.local_response_norm(r(2, 3, 4, 4), 0)
F.normalize(r(3))
F.normalize(r(2, 3).long())
""".strip().splitlines()


@pytest.mark.parametrize("source", BAD)
def test_bad_input_raises_the_same_class(source):
    def program(library):
        names = {"torch": library, "F": library.nn.functional, "z": library.zeros}
        names |= {"o": library.ones, "r": lambda *s: library.randn(*s, requires_grad=True)}
        return eval(source, names)

    assert_same_outcome(program)


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 2), (2, 3, 0), (0, 0)], ids=str)
def test_empty_batches(shape):
    def norms(library, x):
        f = library.nn.functional
        mean, var = library.zeros(shape[1]).double(), library.ones(shape[1]).double()
        return f.batch_norm(x, mean, var, training=True), f.batch_norm(x, mean, var), mean, var

    assert_same_derivatives(norms, normal(*shape))
