"""Transposing, picking and joining sparse tensors."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from rushlight._sparse.convert import in_layout_of, line_begins
from rushlight._sparse.pattern import Pattern, coordinates_of, no_grad
from rushlight._sparse.table import is_sparse, rule
from rushlight._structured.base import content, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_ops = _C._namespaces[""]

_FLIPPED = {
    sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr
}  # fmt: skip


def wrap_dim(dim: int, dims: int) -> int:
    if not -max(dims, 1) <= dim < max(dims, 1):
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-max(dims, 1)}, "
            f"{max(dims, 1) - 1}], but got {dim})"
        )
    return dim % max(dims, 1)


@rule("permute")
def permute(input: Any, *dims: Any) -> Any:
    order = tuple(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else dims
    if len(order) == input.dim():
        order = tuple(wrap_dim(d, input.dim()) for d in order)
    if sorted(order) != list(range(input.dim())):
        raise RuntimeError(
            f"permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {input.dim()} is not "
            f"equal to len(dims) = {len(order)}, or a dimension is named twice: {order}"
        )
    pattern: Pattern = input._pattern
    if order == tuple(range(input.dim())):
        return input
    if not pattern.is_coo:
        return _permute_compressed(input, order)
    sparse = pattern.sparse
    front, back = order[:sparse], order[sparse:]
    if any(d >= sparse for d in front):
        raise RuntimeError(
            f"permute(sparse_coo): cannot permute sparse dimensions with dense dimensions: {order}"
        )
    size = tuple(pattern.size[d] for d in order)
    values = content(input)
    if list(back) != list(range(sparse, len(order))):
        values = values.permute(0, *(d - sparse + 1 for d in back))
    moved = front != tuple(range(sparse))
    with no_grad():
        indices = pattern.indices[list(front)] if moved else pattern.indices
    ordered = pattern.coalesced and not moved
    return wrap(values, Pattern.coo(indices, size, pattern.dense, ordered))


def _permute_compressed(x: Any, order: tuple[int, ...]) -> Any:
    pattern: Pattern = x._pattern
    first = len(pattern.batch)
    flip = (*range(first), first + 1, first, *range(first + 2, x.dim()))
    if order != flip:
        coo, values = coordinates_of(x)
        moved = permute(wrap(values, coo), order).coalesce()
        return in_layout_of(x, *coordinates_of(moved))
    size = tuple(pattern.size[d] for d in order)
    values = content(x)
    blocks = pattern.blocks
    if blocks is not None:
        values = values.transpose(first + 1, first + 2)
        blocks = (blocks[1], blocks[0])
    layout = _FLIPPED[pattern.layout]
    return wrap(values, Pattern(layout, size, pattern.parts, pattern.dense, blocks=blocks))


@rule("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    a, b = wrap_dim(dim0, input.dim()), wrap_dim(dim1, input.dim())
    order = list(range(input.dim()))
    order[a], order[b] = order[b], order[a]
    return permute(input, order)


@rule("t", ".T")
def t(input: Any) -> Any:
    if input.dim() > 2:
        raise RuntimeError(
            "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but self is "
            f"{input.dim()}D"
        )
    return input if input.dim() < 2 else permute(input, 1, 0)


@rule(".mT")
def flipped(input: Any) -> Any:
    return transpose(input, -2, -1)


@rule(".H", ".mH", "adjoint")
def adjoint(input: Any) -> Any:
    moved = transpose(input, -2, -1)
    return moved.conj() if input.dtype.is_complex else moved


@rule("unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    dim = wrap_dim(dim, input.dim() + 1)
    pattern: Pattern = input._of_coo("unsqueeze")._pattern
    size = (*pattern.size[:dim], 1, *pattern.size[dim:])
    values = content(input)
    if dim > pattern.sparse:
        values = values.unsqueeze(dim - pattern.sparse + 1)
        return wrap(
            values, Pattern.coo(pattern.indices, size, pattern.dense + 1, pattern.coalesced)
        )
    zeros = _ops["zeros"]((1, pattern.nnz), dtype=_C.int64)
    indices = _ops["cat"]([pattern.indices[:dim], zeros, pattern.indices[dim:]])
    return wrap(values, Pattern.coo(indices, size, pattern.dense, pattern.coalesced))


@rule("squeeze")
def squeeze(input: Any, dim: Any = None) -> Any:
    pattern: Pattern = input._of_coo("squeeze")._pattern
    dims = range(input.dim()) if dim is None else ((dim,) if isinstance(dim, int) else dim)
    gone = {d for d in (wrap_dim(d, input.dim()) for d in dims) if pattern.size[d] == 1}
    kept = [d for d in range(input.dim()) if d not in gone]
    front = [d for d in kept if d < pattern.sparse]
    values = content(input)
    for d in sorted(gone, reverse=True):
        if d >= pattern.sparse:
            values = values.squeeze(d - pattern.sparse + 1)
    size = tuple(pattern.size[d] for d in kept)
    indices = pattern.indices[front]
    return wrap(values, Pattern.coo(indices, size, len(kept) - len(front), pattern.coalesced))


@rule("select", "select_copy")
def select(input: Any, dim: int, index: int) -> Any:
    dim = wrap_dim(dim, input.dim())
    if input.dim() == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    size = input.shape[dim]
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at "
            f"dimension {dim}"
        )
    index = int(index) % size
    if not input._pattern.is_coo:
        coo, values = coordinates_of(input)
        if dim >= len(input._pattern.batch):
            return select(wrap(values, coo), dim, index)
        return in_layout_of(input, *coordinates_of(select(wrap(values, coo), dim, index)))
    pattern: Pattern = input._pattern
    rest = (*pattern.size[:dim], *pattern.size[dim + 1 :])
    values = content(input)
    if dim >= pattern.sparse:
        values = values.select(dim - pattern.sparse + 1, index)
        return wrap(
            values, Pattern.coo(pattern.indices, rest, pattern.dense - 1, pattern.coalesced)
        )
    with no_grad():
        kept = (pattern.indices[dim] == index).nonzero().reshape(-1)
        others = [d for d in range(pattern.sparse) if d != dim]
        indices = pattern.indices[:, kept][others] if others else None
    values = values.index_select(0, kept)
    if indices is None:
        return values.sum(0)
    return wrap(values, Pattern.coo(indices, rest, pattern.dense, pattern.coalesced))


@rule("index_select")
def index_select(input: Any, dim: int, index: Tensor) -> Any:
    dim = wrap_dim(dim, input.dim())
    if input.dim() == 0:
        raise IndexError("index_select() cannot be applied to a 0-dim tensor.")
    if index.dim() > 1 or index.dtype not in (_C.int64, _C.int32):
        raise IndexError("index_select(): Index is supposed to be a vector of int64 or int32")
    size = input.shape[dim]
    index = index.reshape(-1).long()
    if index.numel() and (int(index.min()) < -size or int(index.max()) >= size):
        raise IndexError(
            f"index_select(): index contains {index.tolist()[:8]} that is out of range for tensor "
            f"of size {list(input.shape)} at dimension {dim}"
        )
    with no_grad():
        index = index + (index < 0) * size
    pattern, values = coordinates_of(input)
    rest = (*pattern.size[:dim], index.numel(), *pattern.size[dim + 1 :])
    if dim >= pattern.sparse:
        values = values.index_select(dim - pattern.sparse + 1, index)
        return in_layout_of(input, Pattern.coo(pattern.indices, rest, pattern.dense, True), values)
    with no_grad():
        line = pattern.indices[dim]
        order = line.argsort(stable=True)
        begins = line_begins(line[order], size)
        first = begins[index]
        counts = begins[index + 1] - first
        new = _ops["arange"](index.numel()).repeat_interleave(counts)
        before = counts.cumsum(0) - counts
        at = order[_ops["arange"](new.numel()) - (before - first)[new]]
        indices = pattern.indices[:, at]
        indices[dim] = new
    made = wrap(values.index_select(0, at), Pattern.coo(indices, rest, pattern.dense))
    return in_layout_of(input, *coordinates_of(made))


@rule("narrow_copy", "narrow")
def narrow_copy(input: Any, dim: int, start: int, length: int) -> Any:
    dim = wrap_dim(dim, input.dim())
    size = input.shape[dim]
    start = int(start) + (size if start < 0 else 0)
    if length < 0 or start < 0 or start + length > size:
        raise RuntimeError(
            f"Invalid range [{start}, {start + length}) for a dimension of size {size}"
        )
    if not input._pattern.is_coo:
        coo, values = coordinates_of(input)
        part = narrow_copy(wrap(values, coo), dim, start, length)
        return in_layout_of(input, *coordinates_of(part))
    pattern: Pattern = input._pattern
    rest = (*pattern.size[:dim], length, *pattern.size[dim + 1 :])
    values = content(input)
    if dim >= pattern.sparse:
        values = values.narrow(dim - pattern.sparse + 1, start, length)
        return wrap(values, Pattern.coo(pattern.indices, rest, pattern.dense, pattern.coalesced))
    with no_grad():
        line = pattern.indices[dim]
        kept = ((line >= start) & (line < start + length)).nonzero().reshape(-1)
        indices = pattern.indices[:, kept]
        indices[dim] = indices[dim] - start
    return wrap(
        values.index_select(0, kept), Pattern.coo(indices, rest, pattern.dense, pattern.coalesced)
    )


@rule("__getitem__")
def getitem(input: Any, index: Any) -> Any:
    """Numbers, slices, one vector of indices: what can be picked without writing it out."""
    given = index if isinstance(index, tuple) else (index,)
    if any(i is Ellipsis for i in given):
        at = next(n for n, i in enumerate(given) if i is Ellipsis)
        used = sum(i is not None for i in given) - 1
        given = (*given[:at], *[slice(None)] * (input.dim() - used), *given[at + 1 :])
    if sum(i is not None for i in given) > input.dim():
        raise IndexError(f"too many indices for tensor of dimension {input.dim()}")
    x, dim = input, 0
    for part in given:
        if not is_sparse(x):
            return x[given[given.index(part) :]]
        if part is None:
            x, dim = unsqueeze(x, dim), dim + 1
        elif isinstance(part, slice):
            start, stop, step = part.indices(x.shape[dim])
            if step == 1:
                x = (
                    x
                    if stop - start == x.shape[dim]
                    else narrow_copy(x, dim, start, max(stop - start, 0))
                )
            else:
                x = index_select(x, dim, _ops["arange"](start, stop, step))
            dim += 1
        elif (isinstance(part, Tensor) and part.dim() == 1) or isinstance(part, list):
            part = part if isinstance(part, Tensor) else _C._tensor(part, None, None, False)
            if part.dtype is _C.bool:
                part = part.nonzero().reshape(-1)
            x, dim = index_select(x, dim, part), dim + 1
        elif isinstance(part, Tensor) and part.dim() > 1:
            raise NotImplementedError(
                "Could not run 'aten::index.Tensor' with arguments from the 'SparseCPU' backend: a "
                "sparse tensor is indexed by numbers, slices and vectors"
            )
        else:
            x = select(x, dim, int(part))
    return x


def _as_coordinates(x: Any) -> Any:
    pattern, values = coordinates_of(x)
    return wrap(values, pattern)


def _check_all_sparse(name: str, tensors: Sequence[Any]) -> None:
    dense = [i for i, t in enumerate(tensors) if not is_sparse(t)]
    if dense:
        raise RuntimeError(
            f"{name}: all tensors must be sparse, or none: a dense tensor is at position {dense[0]}"
        )


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    _check_all_sparse("cat", tensors)
    first = tensors[0]
    if not first._pattern.is_coo:
        joined = cat([_as_coordinates(x) for x in tensors], dim)
        return in_layout_of(first, *coordinates_of(joined))
    dim = wrap_dim(dim, first.dim())
    pattern: Pattern = first._pattern
    for i, x in enumerate(tensors):
        if (x._pattern.sparse, x._pattern.dense) != (pattern.sparse, pattern.dense):
            raise RuntimeError(
                "All tensors must have the same number of sparse and dense dimensions to be "
                f"concatenated, but tensor {i} has {x._pattern.sparse} and {x._pattern.dense}"
            )
        for d in range(x.dim()):
            if d != dim and x.shape[d] != first.shape[d]:
                raise RuntimeError(
                    "All tensors must have the same shape: "
                    f"{list(first.shape)} (except in the concatenating dimension), but found "
                    f"shape: {list(x.shape)}"
                )
    total = sum(x.shape[dim] for x in tensors)
    size = (*pattern.size[:dim], total, *pattern.size[dim + 1 :])
    indices, values, offset = [], [], 0
    for x in tensors:
        own, part = x._pattern.indices, content(x)
        if dim < pattern.sparse:
            own = own.clone()
            own[dim] += offset
        else:
            where = dim - pattern.sparse + 1
            parts = [(offset, x), (total - offset - x.shape[dim], x)]
            before, after = (
                part.new_zeros((*part.shape[:where], n, *part.shape[where + 1 :])) for n, _ in parts
            )
            part = _ops["cat"]([before, part, after], where)
        indices.append(own)
        values.append(part)
        offset += x.shape[dim]
    ordered = dim == 0 and pattern.sparse > 0 and all(x._pattern.coalesced for x in tensors)
    joined = Pattern.coo(_ops["cat"](indices, 1), size, pattern.dense, ordered)
    return wrap(_ops["cat"](values), joined)


@rule("stack")
def stack(tensors: Sequence[Any], dim: int = 0) -> Any:
    _check_all_sparse("stack", tensors)
    dim = wrap_dim(dim, tensors[0].dim() + 1)
    return cat([unsqueeze(x, dim) for x in tensors], dim)


@rule("reshape", "flatten")
def reshape(input: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "reshape is not implemented for sparse tensors. Fix: x.to_dense().reshape(...).to_sparse()"
    )


@rule("expand", "repeat", "expand_as")
def expand(input: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(
        "expand is unsupported for Sparse tensors. Fix: x.to_dense().expand(...).to_sparse()"
    )
