"""NumPy's answer for joining, splitting, placing and complex parts; `references` imports this."""

import itertools
import math

import numpy as np


def listed(parts):
    return list(parts[0]) if isinstance(parts[0], (list, tuple)) else list(parts)


def joined(f):
    return lambda parts: f([np.atleast_1d(p) for p in parts])


def atleast(dims):
    def f(*parts):
        many = [dims(p) for p in listed(parts)]
        return many[0] if isinstance(parts[0], np.ndarray) and len(parts) == 1 else tuple(many)

    return f


def block_diag(*parts):
    parts = [np.atleast_2d(p) for p in parts]
    out = np.zeros(np.sum([p.shape for p in parts], axis=0), parts[0].dtype)
    row = column = 0
    for p in parts:
        out[row : row + p.shape[0], column : column + p.shape[1]] = p
        row, column = row + p.shape[0], column + p.shape[1]
    return out


def tensor_split(a, where, dim=0):
    where = where.tolist() if isinstance(where, np.ndarray) else where
    return tuple(np.array_split(a, where, dim))


def split_along(dim):
    return lambda a, where: tensor_split(a, where, min(dim, a.ndim - 1))


def meshgrid(*parts, indexing="ij"):
    return tuple(np.meshgrid(*listed(parts), indexing=indexing))


def cartesian_prod(*parts):
    rows = np.array(list(itertools.product(*parts)), parts[0].dtype)
    return rows if len(parts) > 1 else rows.reshape(-1)


def combinations(a, r=2, with_replacement=False):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return np.array(list(choose(a, r)), a.dtype)


def unflatten(a, dim, sizes):
    dim %= a.ndim
    return a.reshape((*a.shape[:dim], *sizes, *a.shape[dim + 1 :]))


def diag_embed(a, offset=0, dim1=-2, dim2=-1):
    size = a.shape[-1] + abs(offset)
    out = np.zeros((*a.shape[:-1], size, size), a.dtype)
    k = np.arange(a.shape[-1])
    out[..., k + max(-offset, 0), k + max(offset, 0)] = a
    return np.moveaxis(out, (-2, -1), (dim1, dim2))


def diagflat(a, offset=0):
    return np.diagflat(a, offset)


def repeat_interleave(a, repeats=None, dim=None, output_size=None):
    if repeats is None:
        return np.repeat(np.arange(a.size), a)
    return np.repeat(a, repeats, dim)


def changed(a, place, new):
    """A copy of `a` whose elements at `place(flat numbering of a)` are `new`."""
    out = a.reshape(-1).copy()
    spots = place(np.arange(a.size).reshape(a.shape))
    out[spots.reshape(-1)] = np.broadcast_to(new, spots.shape).reshape(-1)
    return out.reshape(a.shape)


def select_scatter(a, src, dim, index):
    return changed(a, lambda n: np.take(n, index, dim), src)


def slice_scatter(a, src, dim=0, start=None, end=None, step=1):
    return changed(a, lambda n: np.moveaxis(np.moveaxis(n, dim, 0)[start:end:step], 0, dim), src)


def diagonal_scatter(a, src, offset=0, dim1=0, dim2=1):
    return changed(a, lambda n: np.diagonal(n, offset, dim1, dim2), src)


def as_strided(a, size, stride, offset=0):
    spots = [offset + sum(i * s for i, s in zip(p, stride, strict=True)) for p in np.ndindex(*size)]
    return a.reshape(-1)[np.array(spots, np.int64)].reshape(size)


def as_strided_scatter(a, src, size, stride, offset=0):
    return changed(a, lambda n: as_strided(n, size, stride, offset), src)


def put(a, index, source, accumulate=False):
    out = a.reshape(-1).copy()
    if accumulate:
        np.add.at(out, index, source)
    else:
        out[index] = source
    return out.reshape(a.shape)


def index_copy(a, dim, index, source):
    out = np.moveaxis(a.copy(), dim, 0)
    out[index] = source if np.ndim(source) == 0 else np.moveaxis(source, dim, 0)
    return np.moveaxis(out, 0, dim)


def index_put(a, indices, new, accumulate=False):
    out = a.copy()
    if accumulate:
        np.add.at(out, tuple(indices), new)
    else:
        out[tuple(indices)] = new
    return out


def masked_scatter(a, mask, source):
    out, mask = a.copy(), np.broadcast_to(mask, a.shape)
    out[mask] = source.reshape(-1)[: mask.sum()]
    return out


def scatter_reduce(a, dim, index, src, reduce, include_self=True):
    steps = {"sum": np.sum, "prod": np.prod, "amax": np.max, "amin": np.min, "mean": np.mean}
    groups = {place: [a[place]] if include_self else [] for place in np.ndindex(a.shape)}
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = int(index[place])
        groups[tuple(target)].append(src[place])
    out = a.copy()
    for place, group in groups.items():
        out[place] = steps[reduce](group) if group else a[place]
    return out


def one_hot(a, num_classes=-1):
    return np.eye(a.max() + 1 if num_classes < 0 else num_classes, dtype=np.int64)[a]


def polygamma(n, x):
    """The sum over k of 1 / (x + k)^(n + 1), its tail by Euler and Maclaurin; digamma by a step."""
    x = np.asarray(x, np.float64)
    if n == 0:
        shifted = x + 12
        series = np.log(shifted) - 0.5 / shifted
        for k, b in ((1, 1 / 12), (2, -1 / 120), (3, 1 / 252), (4, -1 / 240), (5, 1 / 132)):
            series = series - b / shifted ** (2 * k)
        return series - sum(1 / (x + k) for k in range(12))
    total = sum((x + k) ** -(n + 1.0) for k in range(200))
    end = x + 200
    total = total + end**-n / n + 0.5 * end ** -(n + 1.0) + (n + 1) / 12 * end ** -(n + 2.0)
    return (-1) ** (n + 1) * math.factorial(n) * total


REFERENCES = {
    "concat": lambda parts, dim=0: np.concatenate(parts, dim),
    "concatenate": lambda parts, dim=0: np.concatenate(parts, dim),
    "hstack": np.hstack,
    "vstack": np.vstack,
    "row_stack": np.vstack,
    "dstack": np.dstack,
    "column_stack": joined(np.column_stack),
    "block_diag": block_diag,
    "atleast_1d": atleast(np.atleast_1d),
    "atleast_2d": atleast(np.atleast_2d),
    "atleast_3d": atleast(np.atleast_3d),
    "broadcast_tensors": np.broadcast_arrays,
    "broadcast_to": np.broadcast_to,
    "Tensor.expand_as": lambda a, b: np.broadcast_to(a, b.shape),
    "Tensor.view_as": lambda a, b: a.reshape(b.shape),
    "Tensor.reshape_as": lambda a, b: a.reshape(b.shape),
    "ravel": np.ravel,
    "unflatten": unflatten,
    "moveaxis": np.moveaxis,
    "swapaxes": np.swapaxes,
    "swapdims": np.swapaxes,
    "hsplit": split_along(1),
    "vsplit": split_along(0),
    "dsplit": split_along(2),
    "tensor_split": tensor_split,
    "meshgrid": meshgrid,
    "cartesian_prod": cartesian_prod,
    "combinations": combinations,
    "diag": np.diag,
    "diag_embed": diag_embed,
    "diagflat": diagflat,
    "diagonal_copy": lambda a, offset=0, dim1=0, dim2=1: np.diagonal(a, offset, dim1, dim2),
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "rot90": lambda a, k=1, dims=(0, 1): np.rot90(a, k, dims),
    "tile": np.tile,
    "repeat_interleave": repeat_interleave,
    "vander": lambda a, N=None, increasing=False: np.vander(a, N, increasing),
    "Tensor.copy_": lambda a, src: np.broadcast_to(src, a.shape),
    "Tensor.zero_": np.zeros_like,
    "fill": lambda a, value: np.full(a.shape, value, a.dtype),
    "complex": lambda a, b: a + 1j * b,
    "polar": lambda a, b: a * np.exp(1j * b),
    "view_as_complex": lambda a: a[..., 0] + 1j * a[..., 1],
    "view_as_real": lambda a: np.stack([a.real, a.imag], -1),
    "real": np.real,
    "imag": np.imag,
    "resolve_conj": lambda a: a,
    "resolve_neg": lambda a: a,
    "conj": np.conj,
    "conj_physical": np.conj,
    "sgn": lambda a: a / np.abs(a),
    "angle": np.angle,
    "argwhere": np.argwhere,
    "nonzero": np.argwhere,
    "nn.functional.one_hot": one_hot,
    "embedding": lambda weight, index: weight[index],
    "take": lambda a, index: a.reshape(-1)[index],
    "put": put,
    "index_copy": index_copy,
    "index_fill": index_copy,
    "index_put": index_put,
    "masked_select": lambda a, mask: np.broadcast_arrays(a, mask)[0][
        np.broadcast_to(mask, np.broadcast_shapes(a.shape, mask.shape))
    ],
    "masked_scatter": masked_scatter,
    "scatter_reduce": scatter_reduce,
    "select_scatter": select_scatter,
    "slice_scatter": slice_scatter,
    "diagonal_scatter": diagonal_scatter,
    "as_strided_scatter": as_strided_scatter,
    "float_power": lambda a, b: np.power(np.asarray(a, float), b),
    "polygamma": polygamma,
    "Tensor.polygamma": lambda a, n: polygamma(n, a),
}
