"""NumPy's answer for convolutions, pooling and shuffles; `references` imports it."""

import itertools

import numpy as np


def each(value, n):
    value = [value] if isinstance(value, int) else list(value)
    return value * n if len(value) == 1 else value


def with_batch(f):
    """f of [batch, channels, *spatial] for inputs that may lack the batch."""

    def g(n, x, *args, **kwargs):
        return f(n, x, *args, **kwargs) if x.ndim == n + 2 else f(n, x[None], *args, **kwargs)[0]

    return g


@with_batch
def conv(n, x, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    stride, dilation, kernel = each(stride, n), each(dilation, n), weight.shape[2:]
    if padding == "same":
        spans = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        pads = [(s // 2, s - s // 2) for s in spans]
    else:
        pads = [(p, p) for p in each(0 if padding == "valid" else padding, n)]
    x = np.pad(x, [(0, 0), (0, 0), *pads])
    sizes = [
        (x.shape[i + 2] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1 for i in range(n)
    ]
    out = np.zeros((len(x), len(weight), *sizes), x.dtype)
    inside, outside = weight.shape[1], len(weight) // groups
    for tap in itertools.product(*map(range, kernel)):
        windows = tuple(
            slice(t * d, t * d + (s - 1) * step + 1, step)
            for t, d, s, step in zip(tap, dilation, sizes, stride, strict=True)
        )
        for g in range(groups):
            rows = slice(g * outside, (g + 1) * outside)
            part = x[(slice(None), slice(g * inside, (g + 1) * inside), *windows)]
            out[:, rows] += np.einsum("nc...,oc->no...", part, weight[(rows, slice(None), *tap)])
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


@with_batch
def conv_transpose(
    n, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1
):
    stride, dilation, padding = each(stride, n), each(dilation, n), each(padding, n)
    more, kernel = each(output_padding, n), weight.shape[2:]
    sizes = [
        (x.shape[i + 2] - 1) * stride[i] + dilation[i] * (kernel[i] - 1) + 1 + more[i]
        for i in range(n)
    ]
    outside, inside = weight.shape[1], len(weight) // groups
    out = np.zeros((len(x), outside * groups, *sizes), x.dtype)
    for tap in itertools.product(*map(range, kernel)):
        windows = tuple(
            slice(t * d, t * d + (s - 1) * step + 1, step)
            for t, d, s, step in zip(tap, dilation, x.shape[2:], stride, strict=True)
        )
        for g in range(groups):
            rows = slice(g * inside, (g + 1) * inside)
            place = (slice(None), slice(g * outside, (g + 1) * outside), *windows)
            out[place] += np.einsum(
                "nc...,co->no...", x[:, rows], weight[(rows, slice(None), *tap)]
            )
    crop = tuple(slice(p, s - p) for p, s in zip(padding, sizes, strict=True))
    out = out[(slice(None), slice(None), *crop)]
    return out if bias is None else out + bias.reshape(-1, *[1] * n)


def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    n = weight.ndim - 2
    if transposed:
        return conv_transpose(n, x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(n, x, weight, bias, stride, padding, dilation, groups)


def windows(n, x, kernel, stride=None, padding=0, dilation=1, ceil_mode=False):
    """(output place, slices of the input, whole extent with padding) of every window."""
    kernel = each(kernel, n)
    stride = kernel if stride is None else each(stride, n)
    padding, dilation = each(padding, n), each(dilation, n)
    axes = []
    for i in range(n):
        size, p, span = x.shape[i - n], padding[i], dilation[i] * (kernel[i] - 1)
        room = size + 2 * p - span - 1
        count = (-(-room // stride[i]) if ceil_mode else room // stride[i]) + 1
        if ceil_mode and (count - 1) * stride[i] >= size + p:
            count -= 1
        starts = [j * stride[i] - p for j in range(count)]
        axes.append([
            ([t for t in range(s, s + span + 1, dilation[i]) if 0 <= t < size],
             min(s + kernel[i], size + p) - s)
            for s in starts
        ])  # fmt: skip
    for place in itertools.product(*(range(len(a)) for a in axes)):
        chosen = [axes[i][j] for i, j in enumerate(place)]
        yield place, [c[0] for c in chosen], int(np.prod([c[1] for c in chosen]))


def grid(n, x, output_size):
    size = each(output_size, n)
    axes = [
        [list(range(j * s // o, -(-(j + 1) * s // o))) for j in range(o)]
        for s, o in zip(x.shape[-n:], size, strict=True)
    ]
    for place in itertools.product(*(range(len(a)) for a in axes)):
        chosen = [axes[i][j] for i, j in enumerate(place)]
        yield place, chosen, int(np.prod([len(c) for c in chosen]))


def pooled(n, x, places, reduce):
    places = list(places)
    sizes = [p + 1 for p in places[-1][0]]
    out = np.zeros((*x.shape[:-n], *sizes))
    for place, at, whole in places:
        count = int(np.prod([len(a) for a in at]))
        window = x[(..., *np.ix_(*at))].reshape(*x.shape[:-n], count)
        out[(..., *place)] = reduce(window, whole, at)
    return out


def max_pool(n, x, *args, **kwargs):
    return pooled(n, x, windows(n, x, *args, **kwargs), lambda v, *_: v.max(-1))


def position(n, x):
    def reduce(v, whole, at):
        flat = np.ravel_multi_index(np.ix_(*at), x.shape[-n:]).reshape(-1)
        return flat[v.argmax(-1)]

    return reduce


def max_pool_with_indices(n, x, *args, **kwargs):
    places = list(windows(n, x, *args, **kwargs))
    at = pooled(n, x, places, position(n, x)).astype(np.int64)
    return pooled(n, x, places, lambda v, *_: v.max(-1)), at


def adaptive_max_pool(n, x, output_size):
    places = list(grid(n, x, output_size))
    at = pooled(n, x, places, position(n, x)).astype(np.int64)
    return pooled(n, x, places, lambda v, *_: v.max(-1)), at


def avg_pool(
    n, x, kernel, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
    divisor_override=None,
):  # fmt: skip
    def mean(v, whole, at):
        count = whole if count_include_pad else v.shape[-1]
        return v.sum(-1) / (divisor_override or count)

    return pooled(n, x, windows(n, x, kernel, stride, padding, 1, ceil_mode), mean)


def adaptive_avg_pool(n, x, output_size):
    return pooled(n, x, grid(n, x, output_size), lambda v, *_: v.mean(-1))


def pixel_shuffle(x, r):
    *lead, c, h, w = x.shape
    y = x.reshape(*lead, c // r**2, r, r, h, w)
    k = len(lead)
    order = (*range(k), k, k + 3, k + 1, k + 4, k + 2)
    return y.transpose(order).reshape(*lead, c // r**2, h * r, w * r)


def pixel_unshuffle(x, r):
    *lead, c, h, w = x.shape
    y = x.reshape(*lead, c, h // r, r, w // r, r)
    k = len(lead)
    order = (*range(k), k, k + 2, k + 4, k + 1, k + 3)
    return y.transpose(order).reshape(*lead, c * r**2, h // r, w // r)


def channel_shuffle(x, groups):
    n, c, *rest = x.shape
    return x.reshape(n, groups, c // groups, *rest).swapaxes(1, 2).reshape(x.shape)


def of_dims(f, n):
    return lambda *args, **kwargs: f(n, *args, **kwargs)


SHUFFLES = {
    "pixel_shuffle": pixel_shuffle,
    "pixel_unshuffle": pixel_unshuffle,
    "channel_shuffle": channel_shuffle,
}
REFERENCES = {
    "convolution": convolution,
    **SHUFFLES,
    **{f"nn.functional.{name}": f for name, f in SHUFFLES.items()},
    "max_pool1d_with_indices": of_dims(max_pool_with_indices, 1),
    "avg_pool1d": of_dims(avg_pool, 1),
    "adaptive_avg_pool1d": of_dims(adaptive_avg_pool, 1),
    "adaptive_max_pool1d": of_dims(adaptive_max_pool, 1),
}
for dims in (1, 2, 3):
    REFERENCES |= {
        f"conv{dims}d": of_dims(conv, dims),
        f"nn.functional.conv{dims}d": of_dims(conv, dims),
        f"conv_transpose{dims}d": of_dims(conv_transpose, dims),
        f"nn.functional.conv_transpose{dims}d": of_dims(conv_transpose, dims),
        f"max_pool{dims}d": of_dims(max_pool, dims),
        f"nn.functional.max_pool{dims}d_with_indices": of_dims(max_pool_with_indices, dims),
        f"nn.functional.avg_pool{dims}d": of_dims(avg_pool, dims),
        f"nn.functional.adaptive_avg_pool{dims}d": of_dims(adaptive_avg_pool, dims),
        f"nn.functional.adaptive_max_pool{dims}d_with_indices": of_dims(adaptive_max_pool, dims),
    }
