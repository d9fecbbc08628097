"""From ordinary tensors to sparse ones, and between the layouts."""

from __future__ import annotations

from math import prod

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import sparse_bsr, sparse_coo, sparse_csr, strided
from rushlight._sparse.pattern import (
    BLOCKED,
    BY_ROW,
    Pattern,
    coordinates_of,
    keys,
    no_grad,
    places,
    with_dense,
)
from rushlight._structured.base import is_structured, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_ops = _C._namespaces[""]


def to_sparse(
    x: Any,
    sparse_dim: int | None = None,
    *,
    layout: Any = None,
    blocksize: Sequence[int] | int | None = None,
    dense_dim: int | None = None,
) -> Any:
    """Any tensor in a sparse layout."""
    if sparse_dim is not None and (layout is not None or blocksize is not None):
        raise RuntimeError("to_sparse: sparse_dim and layout do not go together")
    layout = sparse_coo if layout is None else layout
    if not isinstance(layout, type(sparse_coo)):
        raise TypeError(
            f"to_sparse(): argument 'layout' must be torch.layout, not {type(layout).__name__}"
        )
    if isinstance(blocksize, int):
        blocksize = (blocksize, blocksize)
    if layout is strided:
        return x.to_dense() if is_structured(x) else x
    if blocksize is not None and layout not in BLOCKED:
        raise RuntimeError(
            f"to_sparse for {_name(x)} to {_words(layout)} conversion does not use specified "
            "blocksize"
        )
    if layout in BLOCKED and blocksize is None and not (is_structured(x) and x.layout in BLOCKED):
        raise RuntimeError(
            f"to_sparse for {_name(x)} to {_words(layout)} conversion requires blocksize"
        )
    if is_structured(x):
        old = x._pattern
        same_blocks = blocksize is None or tuple(blocksize) == old.blocks
        if old.layout is layout and sparse_dim in (None, old.sparse) and same_blocks:
            return x
        pattern, values = coordinates_of(x)
    else:
        pattern, values = _specified(x, layout, sparse_dim, dense_dim, blocksize)
    if layout is sparse_coo:
        if sparse_dim is not None and sparse_dim != pattern.sparse:
            pattern, values = with_dense(pattern, values, len(pattern.size) - sparse_dim)
        return wrap(values, pattern)
    if blocksize is None and layout in BLOCKED:
        blocksize = x._pattern.blocks
    return compress(pattern, values, layout, blocksize)


def _name(x: Any) -> str:
    return _words(x.layout)


def _words(layout: Any) -> str:
    name = str(layout._name)
    return {"strided": "Strided", "sparse_coo": "Sparse"}.get(
        name, "Sparse" + name[7:].capitalize()
    )


def _specified(
    x: Tensor, layout: Any, sparse_dim: int | None, dense_dim: int | None, blocksize: Any
) -> tuple[Pattern, Tensor]:
    """The elements of an ordinary tensor that are not zero."""
    dims = x.dim()
    if layout is sparse_coo:
        count = dims if sparse_dim is None else sparse_dim
        if not (0 < count <= dims or (count == 0 and dims == 0)):
            raise RuntimeError(
                f"sparse_dim argument must be in [1,{dims}] range, but {count} is given"
            )
        dense = dims - count
    else:
        dense = dense_dim or 0
        count = dims - dense
        if count < 2:
            raise RuntimeError(
                f"to_sparse for strided to {_words(layout)} conversion expects at least 2 "
                f"dimensions besides the dense ones, got a tensor of {dims} dimensions"
            )
    sizes = tuple(x.shape[:count])
    flat = x.reshape(prod(sizes), *x.shape[count:])
    with no_grad():
        present = flat.detach() != 0
        if dense:
            present = present.reshape(present.shape[0], -1).any(1)
        key = present.nonzero().reshape(-1)
        indices = places(key, sizes)
    return Pattern.coo(indices, x.shape, dense, True), flat.index_select(0, key)


def line_begins(lines: Tensor, count: int) -> Tensor:
    """Where each of `count` lines begins in an ascending list of lines."""
    return _ops["searchsorted"](lines.contiguous(), _ops["arange"](count + 1, device=lines.device))


def compress(pattern: Pattern, values: Tensor, layout: Any, blocksize: Any = None) -> Any:
    """Coalesced coordinates in a compressed layout."""
    dims = pattern.sparse
    if dims < 2:
        raise RuntimeError(
            f"to_sparse for Sparse to {_words(layout)} conversion expects a tensor of at least 2 "
            f"sparse dimensions, got {dims}"
        )
    sizes = pattern.sparse_size
    batch, rows, columns = sizes[:-2], sizes[-2], sizes[-1]
    if layout in BLOCKED:
        return _block(pattern, values, layout, tuple(blocksize))
    with no_grad():
        which = keys(pattern.indices[:-2], batch)
        row, column = pattern.indices[-2], pattern.indices[-1]
        major, minor, lines = (row, column, rows) if layout in BY_ROW else (column, row, columns)
        order = None
        if layout not in BY_ROW:
            order = (which * columns + column).argsort(stable=True)
            which, major, minor = which[order], major[order], minor[order]
        parts, nnz = _compressed_parts(which, major, minor, lines, batch)
    if order is not None:
        values = values.index_select(0, order)
    values = values.reshape(*batch, nnz, *pattern.dense_size)
    return wrap(values, Pattern(layout, pattern.size, parts, pattern.dense))


def _compressed_parts(
    which: Tensor, major: Tensor, minor: Tensor, lines: int, batch: tuple[int, ...]
) -> tuple[tuple[Tensor, Tensor], int]:
    many = prod(batch)
    begins = line_begins(which * lines + major, many * lines)
    if not batch:
        return (begins, minor.contiguous()), minor.numel()
    starts = begins[::lines] if lines else _ops["zeros"](many + 1, dtype=_C.int64)
    counts = starts.diff()
    nnz = int(counts[0]) if many else 0
    if many and not bool((counts == nnz).all()):
        raise RuntimeError(
            "Expect the same number of specified elements per batch: a compressed layout holds "
            f"equally many for each matrix, got {counts.tolist()}"
        )
    own = begins[:-1].reshape(many, lines) - starts[:-1].reshape(many, 1)
    end = _ops["full"]((many, 1), nnz, dtype=_C.int64)
    compressed = _ops["cat"]([own, end], 1).reshape(*batch, lines + 1)
    return (compressed, minor.reshape(*batch, nnz)), nnz


def _block(pattern: Pattern, values: Tensor, layout: Any, blocks: tuple[int, ...]) -> Any:
    sizes = pattern.sparse_size
    batch, rows, columns = sizes[:-2], sizes[-2], sizes[-1]
    if len(blocks) != 2 or min(blocks) <= 0:
        raise RuntimeError(
            f"to_sparse_{layout._name[7:]}: blocksize must be a tuple of two positive integers, "
            f"got {blocks}"
        )
    high, wide = blocks
    if rows % high or columns % wide:
        raise RuntimeError(
            f"tensor sparse size ({rows},{columns}) must be divisible by given blocksize "
            f"({high},{wide})"
        )
    across, down = columns // wide, rows // high
    by_row = layout is sparse_bsr
    with no_grad():
        which = keys(pattern.indices[:-2], batch)
        row, column = pattern.indices[-2], pattern.indices[-1]
        r, c = (i.div(n, rounding_mode="floor") for i, n in ((row, high), (column, wide)))
        major, minor, lines, others = (r, c, down, across) if by_row else (c, r, across, down)
        key = (which * lines + major) * others + minor
        unique, inverse = _ops["unique"](key, return_inverse=True)
        found = places(unique, (max(prod(batch), 1), lines, others))
        parts, nnz = _compressed_parts(found[0], found[1], found[2], lines, batch)
        inside = (inverse * high + row % high) * wide + column % wide
    zeros = _ops["zeros"]((unique.numel() * high * wide, *pattern.dense_size), dtype=values.dtype)
    values = zeros.index_add(0, inside, values)
    values = values.reshape(*batch, nnz, high, wide, *pattern.dense_size)
    return wrap(values, Pattern(layout, pattern.size, parts, pattern.dense, blocks=(high, wide)))


def empty_like(x: Any, size: Any = None, dtype: Any = None) -> Any:
    """A tensor of that layout without elements."""
    old: Pattern = x._pattern
    size = old.size if size is None else tuple(size)
    dtype = x.dtype if dtype is None else dtype
    return empty(size, dtype, old.layout, old.dense, old.blocks)


def empty(
    size: tuple[int, ...],
    dtype: Any,
    layout: Any,
    dense: int = 0,
    blocks: Any = None,
    device: Any = None,
) -> Any:
    """A sparse tensor in which nothing is stored."""
    if layout is sparse_coo:
        sparse = len(size) - dense
        indices = _ops["zeros"]((sparse, 0), dtype=_C.int64, device=device)
        values = _ops["zeros"]((0, *size[sparse:]), dtype=dtype, device=device)
        return Pattern.coo(indices, size, dense, True).make(values)
    batch = size[: len(size) - 2 - dense]
    rows, columns = size[len(batch) : len(batch) + 2]
    if blocks is not None:
        rows, columns = rows // blocks[0], columns // blocks[1]
    lines = rows if layout in BY_ROW else columns
    parts = (
        _ops["zeros"]((*batch, lines + 1), dtype=_C.int64, device=device),
        _ops["zeros"]((*batch, 0), dtype=_C.int64, device=device),
    )
    rest = size[len(size) - dense :] if dense else ()
    values = _ops["zeros"]((*batch, 0, *(blocks or ()), *rest), dtype=dtype, device=device)
    return Pattern(layout, size, parts, dense, blocks=blocks).make(values)


def in_layout_of(x: Any, pattern: Pattern, values: Tensor) -> Any:
    """Coordinates in the layout of `x`, where their dimensions allow it."""
    old: Pattern = x._pattern
    if old.is_coo or pattern.sparse < 2:
        return wrap(values, pattern)
    blocks = old.blocks
    if blocks is not None and (
        pattern.sparse_size[-2] % blocks[0] or pattern.sparse_size[-1] % blocks[1]
    ):
        return compress(pattern, values, sparse_csr)
    return compress(pattern, values, old.layout, blocks)
