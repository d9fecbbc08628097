"""Convolutions against PyTorch: values, gradients and gradients of gradients, dtypes, errors."""

import numpy as np
import pytest

from oracle.derivatives import assert_same_derivatives, normal
from oracle.harness import LIBRARIES, assert_same_outcome, from_numpy, to_numpy

# input, output channels, kernel, options
CONV1 = [
    ((2, 3, 7), 4, 3, {}),
    ((3, 7), 4, 3, {"stride": 2, "padding": 1}),
    ((2, 4, 9), 6, 2, {"groups": 2, "dilation": 3}),
    ((1, 1, 40), 17, 5, {"padding": (2,), "stride": (3,)}),
    ((2, 2, 8), 3, 3, {"padding": "same"}),
    ((2, 2, 8), 3, 4, {"padding": "same", "dilation": 1}),
    ((2, 2, 8), 3, 4, {"padding": "valid"}),
]
CONV2 = [
    ((2, 3, 6, 5), 4, (3, 3), {}),
    ((3, 6, 5), 4, (3, 2), {"stride": (2, 1), "padding": (1, 0)}),
    ((2, 4, 6, 6), 4, (3, 3), {"groups": 4, "padding": 1}),
    ((1, 6, 7, 7), 9, (2, 3), {"groups": 3, "dilation": (2, 1), "padding": (0, 2)}),
    ((3, 2, 4, 20), 7, (3, 3), {"padding": 1}),
    ((2, 5, 9, 9), 33, (1, 1), {"stride": 2}),
    ((2, 17, 5, 5), 20, (3, 3), {"stride": 3, "padding": 2}),
    ((1, 1, 8, 8), 2, (5, 5), {"padding": 3, "dilation": 2}),
    ((2, 3, 4, 4), 2, (2, 2), {"stride": 4}),
    ((2, 3, 5, 6), 2, (3, 2), {"padding": "same", "dilation": (1, 2)}),
    ((2, 3, 5, 6), 2, (4, 3), {"padding": "same"}),
    ((1, 2, 1, 1), 3, (3, 3), {"padding": 1}),
]
CONV3 = [
    ((2, 2, 4, 5, 3), 3, (2, 3, 3), {"padding": 1}),
    ((2, 4, 4, 3), 4, (2, 2, 2), {"stride": (2, 1, 1), "groups": 2}),
    ((1, 1, 5, 5, 5), 2, (3, 2, 1), {"dilation": (1, 2, 2), "padding": (0, 1, 1), "stride": 2}),
]
TRANSPOSED = [
    ((2, 3, 5), 4, (3,), {}),
    ((3, 5), 4, (4,), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((2, 4, 5), 3, (2,), {"groups": 2, "dilation": 3, "output_padding": 2}),
    ((2, 3, 4, 5), 4, (3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
    ((3, 4, 5), 4, (3, 2), {"stride": (1, 3), "output_padding": (0, 2)}),
    ((2, 6, 3, 3), 2, (2, 3), {"groups": 3, "dilation": (2, 1), "padding": (1, 0)}),
    ((2, 3, 3, 3), 17, (1, 1), {"stride": 2}),
    ((2, 3, 4, 4), 2, (3, 3), {"dilation": 2, "output_padding": 1}),
    ((1, 2, 3, 2, 4), 3, (2, 3, 2), {"stride": (1, 2, 3), "output_padding": (0, 1, 0)}),
]


def with_padding_known_to_warn(library, name, x, w, b, options):
    """PyTorch warns once in a process of the copy that an even kernel needs."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return getattr(library.nn.functional, name)(x, w, b, **options)


@pytest.mark.parametrize(("shape", "out", "kernel", "options"), CONV1 + CONV2 + CONV3, ids=str)
def test_conv(shape, out, kernel, options):
    kernel = (kernel,) if isinstance(kernel, int) else kernel
    n = len(kernel)
    groups = options.get("groups", 1)
    weight = normal(out, shape[-n - 1] // groups, *kernel)

    def conv(library, x, w, b=None):
        return with_padding_known_to_warn(library, f"conv{n}d", x, w, b, options)

    assert_same_derivatives(conv, normal(*shape), weight, normal(out))
    assert_same_derivatives(conv, normal(*shape), weight, second=False)


@pytest.mark.parametrize(("shape", "out", "kernel", "options"), TRANSPOSED, ids=str)
def test_conv_transpose(shape, out, kernel, options):
    n = len(kernel)
    groups = options.get("groups", 1)
    weight = normal(shape[-n - 1], out, *kernel)

    def conv(library, x, w, b=None):
        return getattr(library.nn.functional, f"conv_transpose{n}d")(x, w, b, **options)

    assert_same_derivatives(conv, normal(*shape), weight, normal(out * groups))
    assert_same_derivatives(conv, normal(*shape), weight, second=False)


def test_a_strided_layout():
    def conv(library, x, w):
        return library.conv2d(x.permute(0, 3, 1, 2), w.transpose(2, 3), padding=1)

    assert_same_derivatives(conv, normal(2, 5, 6, 3), normal(4, 3, 3, 2))


def test_convolution():
    def conv(library, x, w, b):
        y = library.convolution(x, w, b, [1], [1], [1], False, [0], 1)
        return library.convolution(y, w, None, [2, 2], [0, 1], [1, 2], True, [1, 0], 1)

    assert_same_derivatives(conv, normal(2, 3, 5, 5), normal(3, 3, 3, 3), normal(3))


@pytest.mark.parametrize("shape", [(32, 1, 28, 28), (3, 6, 12, 12), (2, 16, 32, 32), (2, 64, 8, 8)])
@pytest.mark.parametrize("stride", [1, 2])
def test_float32_of_common_sizes(shape, stride):
    out = 16 if shape[1] > 1 else 6
    weight = normal(out, shape[1], 3, 3).astype(np.float32) / 8

    def conv(library, x, w):
        return library.conv2d(x, w, None, stride, 1)

    assert_same_derivatives(
        conv, normal(*shape).astype(np.float32), weight, second=False, rtol=1e-3, atol=2e-3
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves(dtype):
    def program(library):
        x = from_numpy(library, normal_of(2, 3, 6, 6)).to(getattr(library, dtype))
        w = from_numpy(library, normal_of(4, 3, 3, 3)).to(getattr(library, dtype))
        x.requires_grad_(), w.requires_grad_()
        y = library.conv2d(x, w, None, 2, 1)
        y.sum().backward()
        return y, x.grad, w.grad

    assert_same_outcome(program, rtol=2e-2, atol=2e-2)


def normal_of(*shape):
    return np.random.default_rng(3).standard_normal(shape)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8"])
def test_integers(dtype):
    def program(library):
        kind = getattr(library, dtype)
        x = library.arange(96).reshape(2, 3, 4, 4).remainder(7).to(kind)
        w = library.arange(54).reshape(2, 3, 3, 3).remainder(3).to(kind)
        return library.conv2d(x, w, padding=1)

    assert_same_outcome(program)


def test_complex():
    def conv(library, a, b, c, d):
        y = library.conv2d(library.complex(a, b), library.complex(c, d), padding=1)
        return y.real, y.imag

    assert_same_derivatives(
        conv, normal(2, 3, 4, 4), normal(2, 3, 4, 4), normal(2, 3, 2, 3), normal(2, 3, 2, 3)
    )


def test_an_empty_batch():
    def program(library):
        x = library.zeros(0, 3, 5, 5, requires_grad=True)
        w = library.ones(2, 3, 3, 3, requires_grad=True)
        y = library.conv2d(x, w)
        y.sum().backward()
        return y, x.grad, w.grad

    assert_same_outcome(program)


def test_one_thread_gives_the_same():
    ours = LIBRARIES[0]
    x, w = from_numpy(ours, normal(5, 3, 9, 20), True), from_numpy(ours, normal(18, 3, 3, 3), True)
    before, results = ours.get_num_threads(), []
    try:
        for threads in (1, 2):
            ours.set_num_threads(threads)
            y = ours.conv2d(x.float(), w.float(), padding=1)
            results.append([y, *ours.autograd.grad(y.square().sum(), (x, w))])
    finally:
        ours.set_num_threads(before)
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(to_numpy(a), to_numpy(b))


NAMES = {
    "conv2d": "ConvolutionBackward0",
    "conv_transpose2d": "ConvolutionBackward0",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_of_nodes(name):
    for library in LIBRARIES:
        x = library.ones(1, 2, 4, 4, requires_grad=True)
        w = library.ones(2, 2, 3, 3)
        f = getattr(library, name)
        assert type(f(x, w).grad_fn).__name__ == NAMES[name]
        assert type(f(x[0], w).grad_fn).__name__ == "SqueezeBackward1"


BAD = {
    "channels": ("conv2d", (2, 4, 8, 8), (6, 3, 3, 3), {}, "to have 3 channels, but got 4"),
    "groups": ("conv2d", (2, 4, 8, 8), (6, 4, 3, 3), {"groups": 2}, "to have 8 channels"),
    "division": ("conv2d", (2, 4, 8, 8), (5, 2, 3, 3), {"groups": 2}, "to be divisible by 2"),
    "no groups": ("conv2d", (2, 4, 8, 8), (6, 4, 3, 3), {"groups": 0}, "non-positive groups"),
    "stride": ("conv2d", (2, 4, 8, 8), (6, 4, 3, 3), {"stride": 0}, "non-positive stride"),
    "padding": ("conv2d", (2, 4, 8, 8), (6, 4, 3, 3), {"padding": -1}, "negative padding"),
    "dilation": ("conv2d", (2, 4, 8, 8), (6, 4, 3, 3), {"dilation": 0}, "non-positive dilation"),
    "strides": ("conv2d", (2, 4, 8, 8), (6, 4, 3, 3), {"stride": (1, 2, 3)}, "a list of 2 values"),
    "size": ("conv2d", (2, 4, 2, 2), (6, 4, 3, 3), {}, "can't be greater than actual input size"),
    "empty": ("conv2d", (2, 4, 0, 8), (6, 4, 3, 3), {}, "can't be greater than actual input size"),
    "dims": ("conv2d", (8, 8), (6, 4, 3, 3), {}, r"Expected 3D \(unbatched\) or 4D \(batched\)"),
    "no outputs": ("conv2d", (2, 4, 8, 8), (0, 4, 3, 3), {}, "expected weight to be at least 1"),
    "same": ("conv2d", (2, 4, 8, 8), (6, 4, 3, 3), {"padding": "same", "stride": 2}, "strided"),
    "word": ("conv2d", (2, 4, 8, 8), (6, 4, 3, 3), {"padding": "no"}, "Invalid padding string"),
    "1d": ("conv1d", (2, 4, 8, 8), (6, 4, 3), {}, "input to conv1d"),
    "output padding": (
        "conv_transpose2d",
        (2, 4, 8, 8),
        (4, 3, 3, 3),
        {"output_padding": 1},
        "output padding must be smaller than either stride or dilation",
    ),
    "transposed channels": ("conv_transpose2d", (2, 4, 8, 8), (5, 3, 3, 3), {}, "to have 5"),
    "nothing": ("conv_transpose2d", (2, 4, 0, 3), (4, 3, 3, 3), {}, "Only zero batch"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors(case):
    name, shape, weight, options, text = BAD[case]
    for library in LIBRARIES:
        with pytest.raises(RuntimeError, match=text):
            getattr(library.nn.functional, name)(
                library.ones(shape), library.ones(weight), **options
            )


def test_errors_of_bias_and_dtype():
    for library in LIBRARIES:
        x, w = library.ones(2, 4, 8, 8), library.ones(6, 4, 3, 3)
        with pytest.raises(RuntimeError, match="expected bias to be 1-dimensional with 6 elements"):
            library.conv2d(x, w, library.ones(5))
        with pytest.raises(RuntimeError, match=r"Input type .* and weight type"):
            library.conv2d(x, w.double())
        with pytest.raises(RuntimeError, match=r"Input type .* and bias type"):
            library.conv2d(x, w, library.ones(6).double())
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            library.conv2d(x.bool(), w.bool())
        with pytest.raises(TypeError):
            library.conv2d(x)
