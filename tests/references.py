"""NumPy's answer for the operations of `samples`: written from the definition, not for speed."""

import numpy as np

import reference_attention
import reference_fft
import reference_joins
import reference_layers
import reference_losses
import reference_norms
import reference_recurrent
import reference_reductions
import reference_vision
import rushlight as torch
from reference_joins import as_strided
from support import values


def to_arrays(value):
    """Tensors, and tensors inside lists and tuples, as arrays; the rest unchanged."""
    if isinstance(value, torch.Tensor):
        return values(value).astype(np.float64) if value.dtype.is_floating_point else values(value)
    if isinstance(value, (list, tuple)):
        return type(value)(to_arrays(v) for v in value)
    return value


def reference(name, *args, **kwargs):
    """The expected result as an array or a tuple of arrays; floats in float64."""
    args = [to_arrays(a) for a in args]
    return REFERENCES[name](*args, **{k: to_arrays(v) for k, v in kwargs.items()})


def scatter(a, dim, index, src, add=False):
    out = a.copy()
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = index[place]
        value = src[place] if isinstance(src, np.ndarray) else src
        out[tuple(target)] = out[tuple(target)] + value if add else value
    return out


def gather(a, dim, index):
    if a.ndim == 0:
        return a
    out = np.empty(index.shape, a.dtype)
    for place in np.ndindex(index.shape):
        source = list(place)
        source[dim] = index[place]
        out[place] = a[tuple(source)]
    return out


def take_along_dim(a, index, dim=None):
    if dim is None:
        return a.reshape(-1)[index]
    shape = list(
        np.broadcast_shapes(
            *(
                tuple(1 if k == dim % a.ndim else s for k, s in enumerate(t.shape))
                for t in (a, index)
            )
        )
    )
    index_shape, a_shape = shape.copy(), shape.copy()
    index_shape[dim], a_shape[dim] = index.shape[dim], a.shape[dim]
    return np.take_along_axis(np.broadcast_to(a, a_shape), np.broadcast_to(index, index_shape), dim)


def index_add(a, dim, index, source):
    out = np.moveaxis(a.copy(), dim, 0)
    np.add.at(out, index, np.moveaxis(source, dim, 0))
    return np.moveaxis(out, 0, dim)


def pad(a, widths, value=0):
    pairs = [(0, 0)] * (a.ndim - len(widths) // 2)
    pairs += [tuple(widths[i : i + 2]) for i in range(len(widths) - 2, -1, -2)]
    cut = tuple(
        slice(max(0, -lo), size - max(0, -hi))
        for (lo, hi), size in zip(pairs, a.shape, strict=True)
    )
    grow = [(max(0, lo), max(0, hi)) for lo, hi in pairs]
    return np.pad(a[cut], grow, constant_values=value)


def sizes(args):
    return args[0] if isinstance(args[0], (tuple, list)) else args


def split(a, size, dim=0):
    if not isinstance(size, tuple):
        count = max(1, -(-a.shape[dim] // size))
        return tuple(np.array_split(a, [size * k for k in range(1, count)], dim))
    return tuple(np.split(a, np.cumsum(size)[:-1], dim))


def chunk(a, count, dim=0):
    return split(a, max(1, -(-a.shape[dim] // count)), dim)


def expand(a, *shape):
    shape = list(sizes(shape))
    for k in range(1, a.ndim + 1):
        shape[-k] = a.shape[-k] if shape[-k] == -1 else shape[-k]
    return np.broadcast_to(a, shape)


def flatten(a, start_dim=0, end_dim=-1):
    if a.ndim == 0:
        return a.reshape(1)
    start, end = start_dim % a.ndim, end_dim % a.ndim
    return a.reshape((*a.shape[:start], -1, *a.shape[end + 1 :]))


def squeeze(a, dim=None):
    dims = range(a.ndim) if dim is None else [d % a.ndim for d in np.atleast_1d(dim)]
    return a.reshape([s for k, s in enumerate(a.shape) if k not in dims or s != 1])


def unfold(a, dim, size, step):
    dim %= a.ndim
    view = np.lib.stride_tricks.sliding_window_view(a, size, axis=dim)
    return np.take(view, np.arange(0, view.shape[dim], step), dim)


def narrow(a, dim, start, length):
    return np.take(a, np.arange(length) + start % a.shape[dim], dim)


def repeat(a, *counts):
    counts = sizes(counts)
    return np.tile(a.reshape((1,) * (len(counts) - a.ndim) + a.shape), counts)


def view(a, *shape):
    return a if isinstance(shape[0], torch.dtype) else a.reshape(sizes(shape))


REFERENCES = {
    "cat": lambda parts, dim=0: np.concatenate(parts, dim),
    "stack": lambda parts, dim=0: np.stack(parts, dim),
    "gather": gather,
    "take_along_dim": take_along_dim,
    "scatter": scatter,
    "scatter_add": lambda a, dim, index, src: scatter(a, dim, index, src, add=True),
    "index_select": lambda a, dim, index: np.take(a, np.atleast_1d(index), dim),
    "index_add": index_add,
    "masked_fill": lambda a, mask, value: np.where(mask, np.asarray(value, a.dtype), a),
    "where": np.where,
    "flip": np.flip,
    "roll": np.roll,
    "tril": np.tril,
    "triu": np.triu,
    "Tensor.repeat": repeat,
    "nn.functional.pad": pad,
    "constant_pad_nd": pad,
    "clone": lambda a: a,
    "Tensor.contiguous": lambda a: a,
    "nn.functional.embedding": lambda index, weight: weight[index],
    "Tensor.view": view,
    "reshape": lambda a, shape: a.reshape(shape),
    "permute": np.transpose,
    "transpose": np.swapaxes,
    "t": np.transpose,
    "positive": np.asarray,
    "Tensor.expand": expand,
    "squeeze": squeeze,
    "unsqueeze": np.expand_dims,
    "select": lambda a, dim, index: np.take(a, index, dim),
    "narrow": narrow,
    "split": split,
    "chunk": chunk,
    "unbind": lambda a, dim=0: tuple(np.moveaxis(a, dim, 0)),
    "diagonal": lambda a, offset=0, dim1=0, dim2=1: np.diagonal(a, offset, dim1, dim2),
    "Tensor.unfold": unfold,
    "as_strided": as_strided,
    "movedim": np.moveaxis,
    "flatten": flatten,
    "Tensor.__getitem__": lambda a, index: a[index],
    **reference_reductions.REFERENCES,
    **reference_joins.REFERENCES,
    **reference_attention.REFERENCES,
    **reference_fft.REFERENCES,
    **reference_layers.REFERENCES,
    **reference_losses.REFERENCES,
    **reference_norms.REFERENCES,
    **reference_recurrent.REFERENCES,
    **reference_vision.REFERENCES,
}
