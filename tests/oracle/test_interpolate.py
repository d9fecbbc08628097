"""Resampling, folding and shuffles against PyTorch."""

import warnings

import numpy as np
import pytest

from oracle.derivatives import assert_same_derivatives, normal
from oracle.harness import LIBRARIES, assert_same_outcome, to_numpy

MODES = {1: ["nearest", "nearest-exact", "linear", "area"]}
MODES[2] = ["nearest", "nearest-exact", "bilinear", "bicubic", "area"]
MODES[3] = ["nearest", "nearest-exact", "trilinear", "area"]
SHAPES = {1: (2, 3, 7), 2: (2, 3, 5, 7), 3: (1, 2, 3, 4, 5)}
TARGETS = [
    {"size": 4},
    {"size": 11},
    {"size": 1},
    {"scale_factor": 2},
    {"scale_factor": 1.7},
    {"scale_factor": 0.6},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
]
CASES = [(n, mode) for n in MODES for mode in MODES[n]]
BLENDS = ("linear", "bilinear", "bicubic", "trilinear")


@pytest.mark.parametrize("options", TARGETS, ids=str)
@pytest.mark.parametrize(("n", "mode"), CASES)
def test_interpolate(n, mode, options):
    for corners in (None, True, False) if mode in BLENDS else (None,):
        assert_same_derivatives(
            lambda t, x, c=corners: t.nn.functional.interpolate(
                x, mode=mode, align_corners=c, **options
            ),
            normal(*SHAPES[n]),
        )


@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(3, 4), (10, 9), (2, 20)])
def test_antialias(mode, size):
    for corners in (False, True) if mode != "lanczos" else (False,):
        assert_same_derivatives(
            lambda t, x, c=corners: t.nn.functional.interpolate(
                x, size, mode=mode, align_corners=c, antialias=True
            ),
            normal(2, 3, 7, 8),
        )


def test_sizes_for_each_dimension():
    for options in ({"size": (3, 9)}, {"scale_factor": (0.5, 2.5)}):
        assert_same_derivatives(
            lambda t, x, o=options: t.nn.functional.interpolate(x, **o), normal(2, 2, 6, 5)
        )


def test_nearest_picks_the_same_elements():
    """For many sizes: positions at the border of two elements are decided by rounding."""
    for kind in (np.float32, np.float64):
        for inputs in (1, 2, 3, 5, 7, 12, 31):
            line = np.arange(inputs, dtype=kind).reshape(1, 1, inputs)
            for outputs in (*range(1, 41), 77, 100):

                def pick(library, x, outputs=outputs):
                    f, x = library.nn.functional.interpolate, x.detach()
                    return f(x, outputs), f(x, outputs, mode="nearest-exact")

                assert_same_derivatives(pick, line)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "uint8"])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_dtypes(mode, dtype):
    def program(library):
        x = library.arange(2 * 3 * 4 * 5).remainder(37).reshape(2, 3, 4, 5)
        x = x.to(getattr(library, dtype))
        return library.nn.functional.interpolate(x, (7, 8), mode=mode)

    # PyTorch rounds bytes after each dimension.
    assert_same_outcome(program, rtol=1e-2, atol=1e-2) if dtype != "uint8" else assert_near(program)


def assert_near(program):
    ours, theirs = (to_numpy(program(library)).astype(int) for library in LIBRARIES)
    assert np.abs(ours - theirs).max() <= 1


def test_older_names():
    for library in LIBRARIES:
        F = library.nn.functional
        x = library.arange(4.0).reshape(1, 1, 2, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert F.upsample(x, scale_factor=2).shape == (1, 1, 4, 4)
            assert F.upsample_nearest(x, size=3).shape == (1, 1, 3, 3)
            assert F.upsample_bilinear(x, size=3)[0, 0, 1, 1] == 1.5
        with pytest.warns(UserWarning, match="is deprecated"):
            F.upsample(x, scale_factor=2)


NAMES = {
    "nearest": "UpsampleNearest2DBackward0",
    "nearest-exact": "UpsampleNearestExact2DBackward0",
    "bilinear": "UpsampleBilinear2DBackward0",
    "bicubic": "UpsampleBicubic2DBackward0",
}


@pytest.mark.parametrize("mode", NAMES)
def test_names_of_nodes(mode):
    for library in LIBRARIES:
        x = library.ones(1, 1, 3, 3, requires_grad=True)
        y = library.nn.functional.interpolate(x, 5, mode=mode)
        assert type(y.grad_fn).__name__ == NAMES[mode]


BAD = {
    "nothing": ({}, ValueError, "either size or scale_factor should be defined"),
    "both": ({"size": 5, "scale_factor": 2}, ValueError, "only one of size or scale_factor"),
    "sizes": ({"size": (5, 6, 7)}, ValueError, "same number of spatial dimensions"),
    "factors": ({"scale_factor": (5, 6, 7)}, ValueError, "same number of spatial dimensions"),
    "mode": ({"size": 5, "mode": "no"}, NotImplementedError, "Only 3D, 4D and 5D input Tensors"),
    "linear": ({"size": 5, "mode": "linear"}, NotImplementedError, "linear mode needs 3D input"),
    "corners": ({"size": 5, "align_corners": True}, ValueError, "align_corners option can only"),
    "zero": ({"size": 0}, RuntimeError, "Input and output sizes should be greater than 0"),
    "recompute": (
        {"size": 5, "recompute_scale_factor": True},
        ValueError,
        "recompute_scale_factor is not meaningful",
    ),
    "antialias": ({"size": 5, "antialias": True}, ValueError, "Anti-alias option is restricted"),
    "text": ({"size": "a"}, TypeError, "size"),
    "word": ({"scale_factor": "a"}, TypeError, "scale"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors(case):
    options, error, text = BAD[case]
    for library in LIBRARIES:
        with pytest.raises(error, match=text):
            library.nn.functional.interpolate(library.ones(2, 4, 8, 8), **options)


# -- windows as columns, shuffles -----------------------------------------------------------------

BLOCKS = [
    ((2, 3, 6, 5), {"kernel_size": 3}),
    ((3, 6, 5), {"kernel_size": (2, 3), "stride": 2}),
    ((2, 2, 7, 7), {"kernel_size": 2, "dilation": (3, 2), "padding": (1, 0), "stride": (1, 2)}),
]


@pytest.mark.parametrize(("shape", "options"), BLOCKS, ids=str)
def test_unfold_and_fold(shape, options):
    def both(library, x):
        columns = library.nn.functional.unfold(x, **options)
        return columns, library.nn.functional.fold(columns, shape[-2:], **options)

    assert_same_derivatives(both, normal(*shape))


@pytest.mark.parametrize(
    ("name", "shape", "factor"),
    [
        ("pixel_shuffle", (2, 8, 3, 4), 2),
        ("pixel_shuffle", (9, 2, 1), 3),
        ("pixel_shuffle", (2, 3, 4, 2, 2), 2),
        ("pixel_unshuffle", (2, 3, 4, 6), 2),
        ("pixel_unshuffle", (3, 3, 6), 3),
        ("channel_shuffle", (2, 6, 3, 2), 3),
        ("channel_shuffle", (2, 6, 3), 2),
    ],
    ids=str,
)
def test_shuffles(name, shape, factor):
    assert_same_derivatives(lambda t, x: getattr(t, name)(x, factor), normal(*shape))
    assert_same_derivatives(lambda t, x: getattr(t.nn.functional, name)(x, factor), normal(*shape))


SHUFFLES = {
    "pixel_shuffle": [(3, "to be divisible by the square"), (0, "a positive upscale_factor")],
    "pixel_unshuffle": [(3, "height to be divisible by"), (0, "a positive downscale_factor")],
    "channel_shuffle": [(3, "must be divisible by groups"), (0, "must be positive")],
}


@pytest.mark.parametrize("name", SHUFFLES)
def test_errors_of_shuffles(name):
    for library in LIBRARIES:
        for factor, text in SHUFFLES[name]:
            with pytest.raises(RuntimeError, match=text):
                getattr(library, name)(library.ones(2, 4, 8, 8), factor)
        with pytest.raises(RuntimeError, match="dim"):
            getattr(library, name)(library.ones(8, 8), 2)


def test_errors_of_folding():
    for library in LIBRARIES:
        F, x = library.nn.functional, library.ones(2, 4, 8, 8)
        columns = F.unfold(x, 3)
        with pytest.raises(RuntimeError, match="its components must be at least one"):
            F.unfold(x, 9)
        with pytest.raises(RuntimeError, match="stride should be greater than zero"):
            F.unfold(x, 3, stride=0)
        with pytest.raises(RuntimeError, match="kernel_size equals to 2, but got size 1"):
            F.unfold(x, (3,))
        with pytest.raises(RuntimeError, match=r"calculated number of sliding blocks 7 \* 6 = 42"):
            F.fold(columns, (9, 8), 3)
        with pytest.raises(RuntimeError, match="divisible by the product of kernel_size"):
            F.fold(columns[:, :35], (8, 8), 3)
        with pytest.raises(RuntimeError, match="2D or 3D"):
            F.fold(x, (8, 8), 3)
