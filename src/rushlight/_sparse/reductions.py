"""Sums, norms and softmax of sparse tensors."""

from __future__ import annotations

from math import prod

from rushlight import _C
from rushlight._sparse.convert import in_layout_of
from rushlight._sparse.pattern import Pattern, coordinates_of, keys, no_grad
from rushlight._sparse.shapes import unsqueeze, wrap_dim
from rushlight._sparse.table import is_sparse, rule
from rushlight._structured.base import content, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_ops = _C._namespaces[""]


def _dims(dim: Any, dims: int) -> list[int]:
    if dim is None or (not isinstance(dim, int) and len(dim) == 0):
        return list(range(dims))
    found = [wrap_dim(d, dims) for d in ((dim,) if isinstance(dim, int) else dim)]
    if len(set(found)) != len(found):
        raise RuntimeError(f"dim appears multiple times in the list of dims: {dim}")
    return found


@rule("sum")
def sum(
    input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None
) -> Any:
    """Sums over sparse dimensions leave a sparse tensor, unless none remains."""
    dim = axis if dim is None else dim
    x = input if dtype is None else input.to(dtype)
    gone = _dims(dim, x.dim())
    if len(gone) == x.dim():
        total = content(x).sum()
        return total.reshape((1,) * x.dim()) if keepdim else total
    pattern, values = coordinates_of(x)
    sparse = pattern.sparse
    inner = [d - sparse + 1 for d in gone if d >= sparse]
    if inner:
        values = values.sum(inner)
    elif values.dtype is _C.bool or not (values.is_floating_point() or values.is_complex()):
        values = values.to(_C.int64)
    kept = [d for d in range(sparse) if d not in gone]
    size = tuple(pattern.size[d] for d in range(x.dim()) if d not in gone)
    dense = pattern.dense - len(inner)
    if not kept:
        result: Any = values.sum(0)
    elif len(kept) == sparse:
        result = wrap(values, Pattern.coo(pattern.indices, size, dense, True))
    else:
        with no_grad():
            indices = pattern.indices[kept]
        result = wrap(values, Pattern.coo(indices, size, dense)).coalesce()
    if keepdim:
        for d in sorted(gone):
            result = unsqueeze(result, d) if is_sparse(result) else result.unsqueeze(d)
    if is_sparse(result) and not x._pattern.is_coo:
        return in_layout_of(x, *coordinates_of(result))
    return result


@rule("mean")
def mean(input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    count = 1
    for d in _dims(dim, input.dim()):
        count *= input.shape[d]
    return sum(input, dim, keepdim, dtype=dtype) / count


@rule("norm", "vector_norm")
def norm(input: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, *,
         dtype: Any = None, ord: Any = None) -> Any:  # fmt: skip
    """The norm of all elements: those that are not stored are zero."""
    if dim is not None and len(_dims(dim, input.dim())) != input.dim():
        raise RuntimeError(
            "norm_sparse currently only supports full reductions, so 'dim' must either be empty or "
            "contain all dimensions of the input"
        )
    p = 2 if (p if ord is None else ord) in ("fro", None) else (p if ord is None else ord)
    values = coordinates_of(input)[1]
    if dtype is not None:
        values = values.to(dtype)
    if values.numel() == 0:
        found = values.new_zeros(()).abs()
    else:
        found = _C._namespaces["linalg"]["vector_norm"](values, p)
    return found.reshape((1,) * input.dim()) if keepdim else found


@rule("any")
def any_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    if dim is not None:
        return sum(input.bool().to(_C.int64), dim, keepdim).bool()
    return coordinates_of(input)[1].bool().any()


@rule("dist")
def dist(input: Any, other: Any, p: float = 2) -> Any:
    difference = input - other
    return norm(difference, p) if is_sparse(difference) else difference.norm(p)


@rule("native_norm")
def native_norm(input: Any, p: Any = 2) -> Any:
    return norm(input, p)


def softmax(input: Any, dim: int, dtype: Any = None, log: bool = False) -> Any:
    """Of the stored elements along `dim`: the others count as minus infinity."""
    if not is_sparse(input) or not input._pattern.is_coo:
        raise NotImplementedError(
            "Could not run 'aten::_sparse_softmax': it is for sparse tensors of coordinates "
            f"(COO), got a tensor of layout {input.layout}"
        )
    x = input if dtype is None else input.to(dtype)
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"\"softmax\" not implemented for '{x.dtype}': give dtype=torch.float32")
    dim = wrap_dim(dim, x.dim())
    pattern, values = coordinates_of(x)
    if dim >= pattern.sparse:
        func = values.log_softmax if log else values.softmax
        return wrap(func(dim - pattern.sparse + 1), pattern)
    others = [d for d in range(pattern.sparse) if d != dim]
    sizes = [pattern.size[d] for d in others]
    with no_grad():
        inverse, pools = keys(pattern.indices[others], sizes), prod(sizes)
        if pools > 2 * pattern.nnz:  # most lines are empty
            found, inverse = _ops["unique"](inverse, return_inverse=True)
            pools = found.numel()
        at = inverse.reshape(-1, *(1,) * pattern.dense).expand(values.shape)
        low = _ops["full"]((pools, *values.shape[1:]), float("-inf"), dtype=values.dtype)
        highest = low.scatter_reduce(0, at, values.detach(), "amax")
        highest = _ops["where"](highest.isinf(), _ops["zeros_like"](highest), highest)
    shifted = values - highest.index_select(0, inverse)
    powers = shifted.exp()
    zeros = _ops["zeros"]((pools, *values.shape[1:]), dtype=values.dtype)
    total = zeros.index_add(0, inverse, powers).index_select(0, inverse)
    return wrap(shifted - total.log() if log else powers / total, pattern)


def plain_sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:
    """``torch.sparse.sum``."""
    if not is_sparse(input):
        raise RuntimeError(
            "sparse.sum: expected a sparse tensor, got an ordinary one; use torch.sum"
        )
    return sum(input, dim, dtype=dtype)
