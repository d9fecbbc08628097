"""Shapes, indexing, sorting, searching and sets."""

from __future__ import annotations

from collections import namedtuple

import rushlight as torch
from rushlight._array_api._dtypes import together
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "argmax", "argmin", "argsort", "broadcast_arrays", "broadcast_to", "concat", "count_nonzero",
    "expand_dims", "flip", "matrix_transpose", "moveaxis", "nonzero", "permute_dims", "repeat",
    "reshape", "roll", "searchsorted", "sort", "squeeze", "stack", "take", "take_along_axis",
    "tile", "unique_all", "unique_counts", "unique_inverse", "unique_values", "unstack", "where",
]  # fmt: skip

UniqueAllResult = namedtuple("UniqueAllResult", ["values", "indices", "inverse_indices", "counts"])
UniqueCountsResult = namedtuple("UniqueCountsResult", ["values", "counts"])
UniqueInverseResult = namedtuple("UniqueInverseResult", ["values", "inverse_indices"])


def axes_of(axis: Any, dims: int) -> tuple[int, ...]:
    """An axis, several or all of them, counted from the front."""
    given = range(dims) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
    for a in given:
        if not -dims <= a < dims:
            raise IndexError(f"axis {a} is out of range for an array of {dims} dimensions")
    found = tuple(a % dims for a in given)
    if len(set(found)) < len(found):
        raise ValueError(f"axes occur more than once: {axis}")
    return found


# ---- shapes


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """The arrays with their common shape."""
    return list(torch.broadcast_tensors(*arrays)) if arrays else []


def broadcast_to(x: Tensor, /, shape: Any) -> Tensor:
    """A view with a larger shape."""
    return torch.broadcast_to(x, tuple(shape))


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Arrays one after the other; without an axis, flattened ones.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().concat([torch.ones(2), torch.zeros(1)])
    tensor([1., 1., 0.])
    """
    given = together(*arrays)
    if axis is None:
        return torch.cat([x.reshape(-1) for x in given])
    return torch.cat(given, axis)


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays beside each other, along a new axis."""
    return torch.stack(together(*arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    return tuple(torch.unbind(x, axis))


def expand_dims(x: Tensor, /, axis: int = 0) -> Tensor:
    """The array with an axis of length 1 more."""
    if not -x.ndim - 1 <= axis <= x.ndim:
        raise IndexError(f"axis {axis} is out of range for a new axis of {x.ndim} dimensions")
    return torch.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: Any) -> Tensor:
    """The array without axes of length 1.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().squeeze(torch.ones(1, 2, 1), (0, 2)).shape
    torch.Size([2])
    """
    axes = axes_of(axis, x.ndim)
    if any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"squeeze: axes {axes} of the shape {tuple(x.shape)} are not of length 1")
    return x.reshape([n for a, n in enumerate(x.shape) if a not in axes])


def flip(x: Tensor, /, *, axis: Any = None) -> Tensor:
    """The elements in the reverse order, along an axis, several or all."""
    return torch.flip(x, axes_of(axis, x.ndim))


def moveaxis(x: Tensor, source: Any, destination: Any, /) -> Tensor:
    """The array with axes at other places."""
    return torch.moveaxis(x, source, destination)


def permute_dims(x: Tensor, /, axes: Any) -> Tensor:
    """The array with its axes in another order."""
    return torch.permute(x, tuple(axes))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """The array with its last two axes exchanged."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: at least 2 dimensions are needed, got {x.ndim}")
    return x.mT


def repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element so many times."""
    return torch.repeat_interleave(x, repeats, axis)


def reshape(x: Tensor, /, shape: Any, *, copy: bool | None = None) -> Tensor:
    """The elements in another shape: a view if there can be one, unless ``copy`` says.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().reshape(torch.arange(4), (2, -1))
    tensor([[0, 1],
            [2, 3]])
    """
    if copy:
        return x.clone().reshape(tuple(shape))
    return x.view(tuple(shape)) if copy is False else torch.reshape(x, tuple(shape))


def roll(x: Tensor, /, shift: Any, *, axis: Any = None) -> Tensor:
    """The elements moved along, those that leave coming back in front."""
    if isinstance(shift, int) and isinstance(axis, (tuple, list)):
        shift = (shift,) * len(axis)
    return torch.roll(x, shift) if axis is None else torch.roll(x, shift, axis)


def tile(x: Tensor, repetitions: Any, /) -> Tensor:
    """Copies of the array side by side."""
    return torch.tile(x, tuple(repetitions))


# ---- indexing and searching


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices at indices along an axis, which an array of one dimension need not be given."""
    if axis is None and x.ndim != 1:
        raise ValueError(f"take: the axis is needed of an array of {x.ndim} dimensions")
    at = 0 if axis is None else axes_of(axis, x.ndim)[0]
    flat = torch.index_select(x, at, _wrapped(indices, x.shape[at]).reshape(-1))
    return flat.reshape(*x.shape[:at], *indices.shape, *x.shape[at + 1 :])


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Elements at indices along an axis, one choice for each slice."""
    at = axes_of(axis, x.ndim)[0]
    shape = list(torch.broadcast_shapes(
        [1 if a == at else n for a, n in enumerate(x.shape)],
        [1 if a == at else n for a, n in enumerate(indices.shape)],
    ))  # fmt: skip
    whole, chosen = list(shape), list(shape)
    whole[at], chosen[at] = x.shape[at], indices.shape[at]
    places = _wrapped(indices, x.shape[at]).expand(chosen)
    return torch.gather(x.expand(whole), at, places)


def _wrapped(indices: Tensor, size: int) -> Tensor:
    """Indices from the front."""
    places = indices.to(torch.int64)
    return torch.where(places < 0, places + size, places)


def where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """Elements of one array where the condition holds, of the other elsewhere."""
    a, b = together(x1, x2)
    return torch.where(condition, a, b)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The indices of what is not zero, for each axis."""
    if x.ndim == 0:
        raise ValueError("nonzero: an array without dimensions has no indices")
    return tuple(torch.nonzero(x, as_tuple=True))


def count_nonzero(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are not zero."""
    from rushlight._array_api._statistics import sum as summed

    return summed(x != 0, axis=axis, keepdims=keepdims)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest element is."""
    return _arg(torch.argmax, x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the smallest element is."""
    return _arg(torch.argmin, x, axis, keepdims)


def _arg(function: Any, x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    found: Tensor = function(x, axis, keepdim=keepdims and axis is not None)
    return found.reshape([1] * x.ndim) if keepdims and axis is None else found


def searchsorted(
    x1: Tensor, x2: Any, /, *, side: str = "left", sorter: Tensor | None = None
) -> Tensor:
    """Where elements go among sorted ones."""
    ordered, values = together(x1, x2)
    if sorter is not None:
        ordered = take(ordered, sorter)
    return torch.searchsorted(ordered.contiguous(), values.contiguous(), side=side)


# ---- sorting


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order along an axis."""
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


def argsort(
    x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """The indices that sort the elements."""
    return torch.sort(x, dim=axis, descending=descending, stable=stable).indices


# ---- sets


def _distinct(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Values, the number of each element among them, how often each occurs."""
    if not x.is_complex():
        values, inverse, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return values, inverse.reshape(x.shape), counts
    pairs = torch.view_as_real(x.reshape(-1).contiguous())
    values, inverse, counts = torch.unique(pairs, return_inverse=True, return_counts=True, dim=0)
    return torch.view_as_complex(values.contiguous()), inverse.reshape(x.shape), counts


def unique_values(x: Tensor, /) -> Tensor:
    """The distinct elements, in order."""
    return _distinct(x)[0]


def unique_counts(x: Tensor, /) -> Any:
    """The distinct elements and how often each occurs."""
    values, _, counts = _distinct(x)
    return UniqueCountsResult(values, counts)


def unique_inverse(x: Tensor, /) -> Any:
    """The distinct elements and the number of each element among them."""
    values, inverse, _ = _distinct(x)
    return UniqueInverseResult(values, inverse)


def unique_all(x: Tensor, /) -> Any:
    """The distinct elements, where each occurs first, the number of each, and how often it occurs.

    >>> import rushlight as torch
    >>> found = torch.ones(1).__array_namespace__().unique_all(torch.tensor([3, 1, 3]))
    >>> found.indices, found.counts
    (tensor([1, 0]), tensor([1, 2]))
    """
    values, inverse, counts = _distinct(x)
    places = torch.arange(x.numel(), device=x.device)
    first = torch.zeros_like(counts).scatter_reduce(
        0, inverse.reshape(-1), places, "amin", include_self=False
    )
    return UniqueAllResult(values, first, inverse, counts)
