"""Sample inputs of convolutions, pooling and shuffles; `samples` imports this module."""

from samples import Maker, floating, sample, samples


def conv_samples(n, make):
    """Inputs, weights and options over n spatial dimensions, small enough to differentiate."""
    size, kernel = (5, 4, 3)[:n], (3, 2, 1)[:n]
    yield sample(make(1, 2, *size), make(2, 2, *kernel))
    yield sample(make(2, *size), make(3, 2, *kernel), make(3), 2, 1)
    yield sample(make.transposed(2, 2, *size), make(4, 1, *kernel), padding=1, groups=2)
    yield sample(make(1, 1, *size), make(1, 1, *kernel), make(1), padding="same")
    yield sample(make(1, 1, *(2 * s for s in size)), make(1, 1, *kernel), dilation=2)
    yield sample(make(0, 2, *size), make(2, 2, *kernel))
    if n == 2:
        yield sample(make(1, 1, 3, 3), make(1, 1, 2, 2))
        yield sample(make(2, 3, 6, 20), make(17, 3, 3, 3), make(17), (1, 1), (1, 1))


def transposed_samples(n, make):
    size, kernel = (3, 2, 2)[:n], (3, 2, 1)[:n]
    yield sample(make(1, 2, *size), make(2, 2, *kernel))
    yield sample(make(2, *size), make(2, 3, *kernel), make(3), 2, 1, 1)
    yield sample(make.transposed(2, 2, *size), make(2, 1, *kernel), groups=2)
    yield sample(make(1, 1, *size), make(1, 1, *kernel), make(1), dilation=2, output_padding=1)
    yield sample(make(0, 2, *size), make(2, 2, *kernel))


def of_dims(generate):
    def register(n, *names):
        @samples(*names)
        def generator(dtype, seed):
            yield from generate(n, Maker(dtype, seed))

    return register


for dims in (1, 2, 3):
    of_dims(conv_samples)(dims, f"conv{dims}d", f"nn.functional.conv{dims}d")
    of_dims(transposed_samples)(
        dims, f"conv_transpose{dims}d", f"nn.functional.conv_transpose{dims}d"
    )


@samples("convolution")
def convolutions(dtype, seed):
    make = Maker(dtype, seed)
    plain = ([1], [1], [1], False, [0], 1)
    yield sample(make(1, 2, 4, 3), make(2, 2, 2, 2), make(2), *plain)
    yield sample(make(1, 2, 4), make(2, 1, 3), None, [2], [1], [1], True, [1], 2)
    yield sample(make(1, 1, 2, 2, 2), make(1, 1, 2, 1, 2), None, *plain)


def window_samples(n, make, **more):
    """Pooling with a window over n dimensions."""
    size = (5, 6, 4)[:n]
    yield sample(make(2, *size), 2)
    yield sample(make(1, 2, *size), 3, 2, 1)
    yield sample(make.transposed(2, 2, *size), 2, 1, ceil_mode=True)
    yield sample(make.strided(2, *size), 2, stride=3, ceil_mode=True)
    yield sample(make(0, 2, *size), 2)
    yield sample(make(1, *(4, 4, 2)[:n]), 2)
    for options in more.values():
        yield sample(make(1, *size), 2, **options)


def max_samples(n, make):
    yield from window_samples(n, make, dilated={"dilation": 2, "stride": 1})


def avg_samples(n, make):
    yield from window_samples(n, make, counted={"padding": 1, "count_include_pad": False})
    if n > 1:
        yield sample(make(1, *(4, 5, 3)[:n]), 2, divisor_override=3)


def grid_samples(n, make):
    for size in (1, 2, 3):
        yield sample(make(2, *(5, 4, 3)[:n]), [size] * n)
    yield sample(make(1, *(3, 2, 2)[:n]), [2, 1, 1][:n])
    yield sample(make.transposed(1, 2, *(5, 4, 3)[:n]), [2] * n)
    yield sample(make(0, 2, *(5, 4, 3)[:n]), [2] * n)


def only_floating(generate):
    def generator(n, make):
        if make.dtype.is_floating_point:
            yield from generate(n, make)

    return generator


for dims in (1, 2, 3):
    of_dims(only_floating(max_samples))(
        dims, f"max_pool{dims}d", f"nn.functional.max_pool{dims}d_with_indices"
    )
    of_dims(only_floating(avg_samples))(dims, f"nn.functional.avg_pool{dims}d")
    of_dims(only_floating(grid_samples))(
        dims,
        f"nn.functional.adaptive_avg_pool{dims}d",
        f"nn.functional.adaptive_max_pool{dims}d_with_indices",
    )
of_dims(only_floating(max_samples))(1, "max_pool1d_with_indices")
of_dims(only_floating(avg_samples))(1, "avg_pool1d")
of_dims(only_floating(grid_samples))(1, "adaptive_avg_pool1d", "adaptive_max_pool1d")


@samples("pixel_shuffle", "nn.functional.pixel_shuffle")
@floating
def shuffled_pixels(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(1, 4, 2, 3), 2)
    yield sample(make.transposed(9, 1, 2), 3)
    yield sample(make(0, 4, 2, 2), 2)


@samples("pixel_unshuffle", "nn.functional.pixel_unshuffle")
@floating
def unshuffled_pixels(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(1, 2, 4, 6), 2)
    yield sample(make.transposed(1, 3, 3), 3)
    yield sample(make(0, 1, 2, 2), 2)


@samples("channel_shuffle", "nn.functional.channel_shuffle")
@floating
def shuffled_channels(dtype, seed):
    make = Maker(dtype, seed)
    yield sample(make(1, 4, 2, 2), 2)
    yield sample(make.transposed(2, 6, 3), 3)
    yield sample(make(0, 4, 2), 2)
