"""Pooling against PyTorch: values, positions, gradients, gradients of gradients, errors."""

import numpy as np
import pytest

from oracle.derivatives import assert_same_derivatives, normal
from oracle.harness import LIBRARIES, assert_same_outcome, from_numpy, to_numpy

SHAPES = {1: [(2, 3, 9), (3, 8)], 2: [(2, 3, 9, 7), (3, 6, 10)], 3: [(2, 2, 5, 4, 6), (1, 4, 5, 3)]}
WINDOWS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 1},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 1, "stride": 2},
]
DILATED = [
    {"kernel_size": 2, "dilation": 2, "stride": 1},
    {"kernel_size": 2, "dilation": 2, "padding": 1, "stride": 2, "ceil_mode": True},
]
COUNTED = [
    {"kernel_size": 3, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
]


def distinct(*shape):
    return np.random.default_rng(5).permutation(int(np.prod(shape))).reshape(shape) / 7.0 - 3


@pytest.mark.parametrize("options", WINDOWS + DILATED, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_max_pool(n, options):
    for shape in SHAPES[n]:

        def pool(library, x):
            f = getattr(library.nn.functional, f"max_pool{n}d")
            return f(x, return_indices=True, **options)

        assert_same_derivatives(pool, distinct(*shape))
        assert_same_derivatives(lambda t, x: pool(t, x)[0], distinct(*shape), second=False)


@pytest.mark.parametrize("options", WINDOWS + COUNTED, ids=str)
@pytest.mark.parametrize("n", [1, 2, 3])
def test_avg_pool(n, options):
    for shape in SHAPES[n]:
        assert_same_derivatives(
            lambda t, x: getattr(t.nn.functional, f"avg_pool{n}d")(x, **options), normal(*shape)
        )


def test_different_windows_for_each_dimension():
    assert_same_derivatives(
        lambda t, x: t.max_pool2d(x, (3, 2), (1, 2), (1, 0), (2, 1)), distinct(2, 3, 8, 9)
    )
    assert_same_derivatives(
        lambda t, x: t.nn.functional.avg_pool2d(x, (3, 2), (2, 1), (1, 0)), normal(2, 3, 8, 9)
    )
    for divisor in (1, 5, -2):
        assert_same_derivatives(
            lambda t, x, d=divisor: t.nn.functional.avg_pool2d(x, 3, 2, 1, divisor_override=d),
            normal(1, 2, 7, 7),
        )


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_adaptive_pools(n, size):
    for shape in SHAPES[n]:
        F = f"adaptive_avg_pool{n}d"
        assert_same_derivatives(
            lambda t, x, F=F: getattr(t.nn.functional, F)(x, size), normal(*shape)
        )
        assert_same_derivatives(
            lambda t, x: getattr(t.nn.functional, f"adaptive_max_pool{n}d")(x, size, True),
            distinct(*shape),
        )


def test_none_keeps_a_size():
    for name in ("adaptive_avg_pool2d", "adaptive_max_pool2d"):
        assert_same_derivatives(
            lambda t, x, name=name: getattr(t.nn.functional, name)(x, (None, 2)),
            distinct(2, 3, 4, 5),
        )


@pytest.mark.parametrize("n", [1, 2, 3])
def test_max_unpool(n):
    for shape in SHAPES[n]:

        def unpool(library, x):
            F = library.nn.functional
            y, at = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
            back = getattr(F, f"max_unpool{n}d")
            return back(y, at, 2, output_size=x.shape[-n:])

        assert_same_derivatives(unpool, distinct(*shape))

    def unpool_evenly(library, x):
        F = library.nn.functional
        y, at = getattr(F, f"max_pool{n}d")(x, 2, return_indices=True)
        return getattr(F, f"max_unpool{n}d")(y, at, 2)

    assert_same_derivatives(unpool_evenly, distinct(2, 3, *(4,) * n))


@pytest.mark.parametrize("p", [1, 2, 3.5, float("inf")])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_lp_pool(n, p):
    for shape in SHAPES[n]:
        assert_same_derivatives(
            lambda t, x: getattr(t.nn.functional, f"lp_pool{n}d")(x.abs() + 0.2, p, 2, 1),
            distinct(*shape),
        )


def test_ties_nan_and_infinities():
    inf, nan = float("inf"), float("nan")
    rows = [
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [nan, 1.0, 2.0, nan, 3.0, nan],
        [-inf, -inf, -inf, -inf, inf, -inf],
        [inf, inf, nan, -inf, 0.0, -0.0],
    ]

    def program(library):
        x = library.tensor(rows).reshape(1, 4, 6)
        f = library.nn.functional.max_pool1d
        return f(x, 2, return_indices=True), f(x, 3, 1, 1, return_indices=True)

    assert_same_outcome(program)
    assert_same_outcome(
        lambda t: t.nn.functional.adaptive_max_pool1d(t.tensor(rows).reshape(1, 4, 6), 4, True)
    )


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float16", "bfloat16", "float32"])
def test_dtypes(dtype):
    def program(library):
        x = library.arange(2 * 3 * 6 * 6).remainder(37).reshape(2, 3, 6, 6)
        x = x.to(getattr(library, dtype))
        return library.nn.functional.max_pool2d(x, 3, 2, 1, return_indices=True)

    assert_same_outcome(program)
    if dtype in ("int32", "uint8"):
        return

    def mean(library):
        x = library.arange(2 * 3 * 6 * 6).remainder(37).reshape(2, 3, 6, 6)
        return library.nn.functional.avg_pool2d(x.to(getattr(library, dtype)), 3, 2, 1)

    assert_same_outcome(mean, rtol=1e-2)


@pytest.mark.parametrize("size", [(7, 9), (8, 8), (1, 2), (2, 33), (31, 32)])
def test_tiles_of_two(size):
    """The kernel that writes each element of the gradient once."""
    for ceil_mode in (False, True):
        if min(size) == 1 and not ceil_mode:
            continue
        assert_same_derivatives(
            lambda t, x, c=ceil_mode: t.max_pool2d(x, 2, ceil_mode=c), distinct(2, 2, *size)
        )


def test_large_windows_number_their_taps_in_ints():
    assert_same_derivatives(lambda t, x: t.max_pool2d(x, 17, 3, 8), distinct(1, 2, 20, 20))


def test_one_thread_gives_the_same():
    ours = LIBRARIES[0]
    F = ours.nn.functional
    x = from_numpy(ours, normal(8, 40, 20, 20).astype(np.float32), True)
    before, results = ours.get_num_threads(), []
    try:
        for threads in (1, 2):
            ours.set_num_threads(threads)
            y = F.max_pool2d(x, 3, 2, 1).sum() + F.avg_pool2d(x, 3, 2).square().sum()
            results.append([y, *ours.autograd.grad(y, x)])
    finally:
        ours.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(to_numpy(a), to_numpy(b))


NAMES = {
    "max_pool2d": ((2,), "MaxPool2DWithIndicesBackward0"),
    "max_pool1d": ((2,), "SqueezeBackward1"),
    "avg_pool2d": ((2,), "AvgPool2DBackward0"),
    "avg_pool1d": ((2,), "SqueezeBackward1"),
    "adaptive_avg_pool2d": ((3,), "AdaptiveAvgPool2DBackward0"),
    "adaptive_max_pool2d": ((3,), "AdaptiveMaxPool2DBackward0"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_nodes(name):
    args, wanted = NAMES[name]
    for library in LIBRARIES:
        x = library.ones(2, 4, 8, 8, requires_grad=True)
        x = x[0] if "1d" in name else x
        assert type(getattr(library.nn.functional, name)(x, *args).grad_fn).__name__ == wanted
    for library in LIBRARIES:
        x = library.ones(2, 4, 8, 8, requires_grad=True)
        mean = library.nn.functional.adaptive_avg_pool2d(x, 1)
        assert type(mean.grad_fn).__name__ == "MeanBackward1"


BAD = {
    "too small": ("max_pool2d", (4, 8, 8), (9,), {}, "Output size is too small"),
    "pad": ("max_pool2d", (4, 8, 8), (2,), {"padding": 2}, "at most half of effective kernel size"),
    "negative": ("max_pool2d", (4, 8, 8), (2,), {"padding": -1}, "pad must be non-negative"),
    "stride": ("max_pool2d", (4, 8, 8), (2,), {"stride": 0}, "stride should not be zero"),
    "dilation": ("max_pool2d", (4, 8, 8), (2,), {"dilation": 0}, "dilation should be greater than"),
    "three": ("max_pool2d", (4, 8, 8), ((2, 2, 2),), {}, "kernel_size must either be a single int"),
    "no channels": ("max_pool2d", (2, 0, 8, 8), (2,), {}, "optional 0 dim batch size for input"),
    "1d": ("max_pool1d", (2, 4, 8, 8), (2,), {}, "max_pool1d: Expected 2D or 3D"),
    "avg": ("avg_pool2d", (4, 8, 8), (9,), {}, "Output size is too small"),
    "avg pad": ("avg_pool2d", (4, 8, 8), (2,), {"padding": 2}, "at most half of effective kernel"),
    "divisor": ("avg_pool2d", (4, 8, 8), (2,), {"divisor_override": 0}, "divisor must be not zero"),
    "avg 1d": ("avg_pool1d", (2, 4, 8, 8), (2,), {}, "Expected 2 to 3 dimensions"),
    "adaptive": ("adaptive_avg_pool2d", (2, 4, 0, 8), (3,), {}, "non-zero size for non-batch"),
    "grid": ("adaptive_avg_pool2d", (2, 4, 8, 8), ((3,),), {}, "output_size must be 2"),
    "below zero": ("adaptive_avg_pool2d", (2, 4, 8, 8), (-1,), {}, "greater than or equal to 0"),
    "max grid": ("adaptive_max_pool2d", (2, 4, 8, 8), (-1,), {}, "negative dimension"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors(case):
    name, shape, args, options, text = BAD[case]
    for library in LIBRARIES:
        with pytest.raises(RuntimeError, match=text):
            getattr(library.nn.functional, name)(library.ones(shape), *args, **options)


def test_errors_of_unpooling():
    for library in LIBRARIES:
        F = library.nn.functional
        x, at = F.max_pool2d(library.ones(1, 4, 4), 2, return_indices=True)
        with pytest.raises(RuntimeError, match="Found an invalid max index: 10"):
            F.max_unpool2d(x, at + 1000, 2)
        with pytest.raises(RuntimeError, match="elements in indices should be type int64"):
            F.max_unpool2d(x, x, 2)
        with pytest.raises(RuntimeError, match="Expected shape of indices to be same"):
            F.max_unpool2d(x, at[:, :1], 2)
        with pytest.raises(ValueError, match="invalid output_size"):
            F.max_unpool2d(x, at, 2, output_size=(20, 20))


@pytest.mark.parametrize("name", ["max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"])
def test_refused_dtypes(name):
    for library in LIBRARIES:
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            getattr(library.nn.functional, name)(library.ones(1, 4, 4).bool(), 2)
