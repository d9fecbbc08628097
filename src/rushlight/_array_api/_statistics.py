"""Reductions, and sums and products so far."""

from __future__ import annotations

import rushlight as torch
from rushlight._array_api._dtypes import together
from rushlight._array_api._manipulation import axes_of
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "all", "any", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std",
    "sum", "var",
]  # fmt: skip


def _reduced(function: Any, x: Tensor, axis: Any, keepdims: bool) -> Tensor:
    """A function of an array, dimensions and whether to keep them, over the axes."""
    axes = axes_of(axis, x.ndim)
    found: Tensor
    if not axes:  # each element by itself
        found = function(x.unsqueeze(-1), (-1,), False)
    else:
        found = function(x, axes, keepdims)
    return found


def _whole(x: Tensor, dtype: Any) -> Any:
    """Integers are added up and multiplied as int64."""
    exact = x.is_floating_point() or x.is_complex()
    return dtype if dtype is not None or exact else torch.int64


def sum(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over axes; that of integers is int64.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().sum(torch.ones(2, 3), axis=(0, 1), keepdims=True)
    tensor([[6.]])
    """
    kind = _whole(x, dtype)
    return _reduced(lambda x, d, k: torch.sum(x, d, k, dtype=kind), x, axis, keepdims)


def prod(x: Tensor, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product over axes; that of integers is int64."""
    kind = _whole(x, dtype)

    def product(x: Tensor, dims: Any, keep: bool) -> Tensor:
        for d in sorted(dims, reverse=True):
            x = torch.prod(x, d, keep, dtype=kind)
        return x

    return _reduced(product, x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over axes."""
    return _reduced(torch.mean, x, axis, keepdims)


def var(
    x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The variance over axes: squares divided by their number less the correction."""
    return _reduced(
        lambda x, d, k: torch.var(x, d, correction=correction, keepdim=k), x, axis, keepdims
    )


def std(
    x: Tensor, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False
) -> Tensor:
    """The standard deviation over axes."""
    return _reduced(
        lambda x, d, k: torch.std(x, d, correction=correction, keepdim=k), x, axis, keepdims
    )


def max(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element over axes."""
    return _reduced(torch.amax, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element over axes."""
    return _reduced(torch.amin, x, axis, keepdims)


def all(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements over axes are not zero."""
    return _reduced(lambda x, d, k: torch.all(x != 0, d, k), x, axis, keepdims)


def any(x: Tensor, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether an element over axes is not zero."""
    return _reduced(lambda x, d, k: torch.any(x != 0, d, k), x, axis, keepdims)


def _cumulative(
    function: Any, x: Tensor, axis: int | None, dtype: Any, start: int | None
) -> Tensor:
    if x.ndim == 0 or (axis is None and x.ndim != 1):
        raise ValueError(f"an axis is needed of an array of {x.ndim} dimensions")
    at = 0 if axis is None else axes_of(axis, x.ndim)[0]
    found: Tensor = function(x, at, dtype=_whole(x, dtype))
    if start is None:
        return found
    shape = list(x.shape)
    shape[at] = 1
    return torch.cat([torch.full(shape, start, dtype=found.dtype, device=x.device), found], at)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Sums of the elements so far along an axis, a 0 in front of them on request.

    >>> import rushlight as torch
    >>> xp = torch.ones(1).__array_namespace__()
    >>> xp.cumulative_sum(torch.tensor([1, 2]), include_initial=True)
    tensor([0, 1, 3])
    """
    return _cumulative(torch.cumsum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Products of the elements so far along an axis, a 1 in front of them on request."""
    return _cumulative(torch.cumprod, x, axis, dtype, 1 if include_initial else None)


def diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """Differences of neighbours along an axis, so many times over."""
    parts = [p for p in (prepend, x, append) if p is not None]
    if len(parts) > 1:
        x = torch.cat(together(*parts), axis)
    return torch.diff(x, n, axis)
