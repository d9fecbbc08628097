"""Where the elements of a sparse tensor lie.

A pattern is what a sparse tensor has besides its values: the layout, the size and the indices. It
never changes, so results may share it. Coordinates (COO) hold an index for each sparse dimension;
compressed layouts hold where each row (CSR, BSR) or column (CSC, BSC) begins, and the other index.
"""

from __future__ import annotations

from math import prod

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csr
from rushlight._structured.base import content, is_structured, stand_in, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ops = _C._namespaces[""]
_arange, _cat, _stack = _ops["arange"], _ops["cat"], _ops["stack"]

BY_ROW = (sparse_csr, sparse_bsr)
BLOCKED = (sparse_bsr, sparse_bsc)


def no_grad() -> Any:
    return _C._Scope(("grad", False))


def grid(shape: Sequence[int]) -> list[Tensor]:
    """Of every element of a tensor, in the order of rows, the index in each dimension."""
    found = []
    total = prod(shape)
    after = total
    for size in shape:
        after = after // size if size else 0
        one = _arange(size).reshape(-1, 1).expand(size, max(after, 0)).reshape(-1)
        times = total // (size * after) if size and after else 0
        found.append(one.repeat(times) if times != 1 else one)
    return found


def keys(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """One number for each place, ascending in the order of rows."""
    if indices.shape[0] == 0:
        return _ops["zeros"](indices.shape[1], dtype=_C.int64, device=indices.device)
    result = indices[0]
    for row, size in zip(indices[1:], sizes[1:], strict=True):
        result = result * size + row
    return result


def places(key: Tensor, sizes: Sequence[int]) -> Tensor:
    """The indices that belong to such numbers."""
    rows = []
    for size in reversed(sizes):
        rows.append(key % max(size, 1))
        key = key.div(max(size, 1), rounding_mode="floor")
    if not rows:
        return _ops["zeros"]((0, key.numel()), dtype=_C.int64)
    return _stack(rows[::-1])


def ascending(key: Tensor) -> bool:
    return key.numel() < 2 or bool((key[1:] > key[:-1]).all())


def find(sorted_keys: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor]:
    """Where each wanted number stands in an ascending list, and whether it is there."""
    if sorted_keys.numel() == 0:
        zeros = _ops["zeros_like"](wanted)
        return zeros, zeros.bool()
    at = _ops["searchsorted"](sorted_keys, wanted).clamp(max=sorted_keys.numel() - 1)
    return at, sorted_keys[at] == wanted


class Pattern:
    """The layout, size and indices of a sparse tensor."""

    __slots__ = ("_lines", "_merged", "blocks", "coalesced", "dense", "layout", "parts", "size")

    def __init__(
        self,
        layout: Any,
        size: Sequence[int],
        parts: tuple[Tensor, ...],
        dense: int = 0,
        coalesced: bool = False,
        blocks: tuple[int, int] | None = None,
    ) -> None:
        self.layout = layout
        self.size = tuple(size)
        self.parts = parts  # (indices,) or (compressed, plain)
        self.dense = dense
        self.coalesced = coalesced or (layout is sparse_coo and parts[0].shape[-1] < 2)
        self.blocks = blocks
        self._merged: Any = None
        self._lines: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        args = (self.layout, self.size, self.parts, self.dense, self.coalesced, self.blocks)
        return Pattern, args

    @classmethod
    def coo(
        cls, indices: Tensor, size: Sequence[int], dense: int = 0, coalesced: bool = False
    ) -> Pattern:
        return cls(sparse_coo, size, (indices,), dense, coalesced)

    def lines(self) -> tuple[Tensor, Tensor]:
        """The rows and columns of a matrix of coordinates."""
        if self._lines is None:
            self._lines = self.parts[0][0], self.parts[0][1]
        found: tuple[Tensor, Tensor] = self._lines
        return found

    # -- facts -------------------------------------------------------------------------------------

    @property
    def indices(self) -> Tensor:
        return self.parts[0]

    @property
    def is_coo(self) -> bool:
        return self.layout is sparse_coo

    @property
    def by_row(self) -> bool:
        return self.layout in BY_ROW

    @property
    def sparse(self) -> int:
        return len(self.size) - self.dense if self.is_coo else 2

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading dimensions of a compressed layout."""
        return () if self.is_coo else self.size[: len(self.size) - self.dense - 2]

    @property
    def nnz(self) -> int:
        return self.parts[-1].shape[-1]

    @property
    def sparse_size(self) -> tuple[int, ...]:
        return self.size[: len(self.size) - self.dense]

    @property
    def dense_size(self) -> tuple[int, ...]:
        return self.size[len(self.size) - self.dense :]

    def copied(self) -> Pattern:
        parts = tuple(p.clone() for p in self.parts)
        return Pattern(self.layout, self.size, parts, self.dense, self.coalesced, self.blocks)

    # -- as the recipe of a structured tensor ------------------------------------------------------

    def make(self, values: Tensor) -> Any:
        from rushlight._sparse.tensor import SparseTensor

        made = stand_in(SparseTensor, self.size, values.dtype, device=values.device)
        made._pattern, made._raw = self, values
        return made

    def read(self, grad: Any) -> Tensor:
        """The gradient of each value: that of the element to which it is added."""
        if not is_structured(grad):
            return self.pick(grad)
        other: Pattern = grad._pattern
        if other is self and (self.coalesced or not self.is_coo):
            return content(grad)
        return self.pick_sparse(grad)

    def gradient(self, grad: Tensor) -> Any:
        """The sparse gradient with these numbers: once for each place, however many values lie
        there."""
        if not self.is_coo or self.coalesced:
            return wrap(grad, self)
        merged, inverse = self.merged()
        if inverse is None:
            return wrap(grad, merged)
        first = _ops["empty"]((merged.nnz,), dtype=_C.int64)
        first.index_copy_(0, inverse.flip(0), _arange(self.nnz).flip(0))
        return wrap(grad.index_select(0, first), merged)

    # -- coordinates -------------------------------------------------------------------------------

    def pick(self, dense: Tensor) -> Tensor:
        """The elements of an ordinary tensor at these places, as values of this pattern."""
        pattern, _, back = self.coordinates()
        flat = dense.reshape(prod(pattern.sparse_size), *self.dense_size)
        return back(flat.index_select(0, keys(pattern.indices, pattern.sparse_size)))

    def pick_sparse(self, other: Any) -> Tensor:
        """The elements of a sparse tensor at these places."""
        pattern, _, back = self.coordinates()
        sizes = pattern.sparse_size
        theirs, values = coordinates_of(other, pattern.dense)
        with no_grad():
            at, known = find(keys(theirs.indices, sizes), keys(pattern.indices, sizes))
        if values.shape[0] == 0:
            return back(values.new_zeros((pattern.nnz, *self.dense_size)))
        found = values.index_select(0, at)
        if not bool(known.all()):
            mask = known.reshape(-1, *(1,) * pattern.dense)
            found = _ops["where"](mask, found, _ops["zeros"]((), dtype=found.dtype))
        return back(found)

    def coordinates(
        self,
    ) -> tuple[Pattern, Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
        """The same places as coordinates, in the order of the values, with the map of values from
        this pattern to that and back."""
        if self.is_coo:
            return self, _same, _same
        with no_grad():
            indices = self._coordinates()
        rest, nnz = self.dense_size, self.nnz
        blocks = self.blocks or ()
        ordered = not self.batch and self.layout is sparse_csr
        pattern = Pattern.coo(indices, self.size, self.dense, ordered)
        if not self.batch and not blocks:
            return pattern, _same, _same
        count = indices.shape[1]
        shape = (*self.batch, nnz, *blocks, *rest)
        return (
            pattern,
            lambda values: values.reshape(count, *rest),
            lambda values: values.reshape(shape),
        )

    def _coordinates(self) -> Tensor:
        compressed, plain = self.parts[0].long(), self.parts[1].long()
        batch, nnz = prod(self.batch), self.nnz
        lines = compressed.shape[-1] - 1
        counts = compressed.diff(dim=-1).reshape(-1)
        line = _arange(lines).repeat(batch) if batch != 1 else _arange(lines)
        major = line.repeat_interleave(counts)
        minor = plain.reshape(-1)
        which = _arange(batch).repeat_interleave(nnz) if self.batch else None
        if self.blocks is not None:
            high, wide = self.blocks
            rows, columns = (major, minor) if self.by_row else (minor, major)
            shape = (rows.numel(), high, wide)
            down = rows.reshape(-1, 1, 1) * high + _arange(high).reshape(1, -1, 1)
            across = columns.reshape(-1, 1, 1) * wide + _arange(wide).reshape(1, 1, -1)
            rows, columns = down.expand(shape).reshape(-1), across.expand(shape).reshape(-1)
            if which is not None:
                which = which.repeat_interleave(high * wide)
        else:
            rows, columns = (major, minor) if self.by_row else (minor, major)
        own = [rows, columns]
        if which is not None:
            own = [*places(which, self.batch), *own]
        return _stack(own)

    def merged(self) -> tuple[Pattern, Tensor | None]:
        """The coalesced pattern, and the place of every value in it (None: its own)."""
        if self.coalesced:
            return self, None
        if self._merged is None:
            with no_grad():
                key = keys(self.indices, self.sparse_size)
                if ascending(key):
                    self._merged = Pattern.coo(self.indices, self.size, self.dense, True), None
                else:
                    unique, inverse = _ops["unique"](key, return_inverse=True)
                    found = places(unique, self.sparse_size)
                    self._merged = Pattern.coo(found, self.size, self.dense, True), inverse
        merged: tuple[Pattern, Tensor | None] = self._merged
        return merged


def _same(values: Tensor) -> Tensor:
    return values


def merge(pattern: Pattern, values: Tensor) -> tuple[Pattern, Tensor]:
    """A pattern of coordinates coalesced: values of one place are added up."""
    merged, inverse = pattern.merged()
    if inverse is None:
        return merged, values
    zeros = _ops["zeros"]((merged.nnz, *values.shape[1:]), dtype=values.dtype)
    return merged, zeros.index_add(0, inverse, values)


def coordinates_of(x: Any, dense: int | None = None) -> tuple[Pattern, Tensor]:
    """A sparse tensor as coalesced coordinates, with values that have its history."""
    pattern, forth, _ = x._pattern.coordinates()
    pattern, values = merge(pattern, forth(content(x)))
    if dense is not None and dense != pattern.dense:
        pattern, values = with_dense(pattern, values, dense)
    return pattern, values


def with_dense(pattern: Pattern, values: Tensor, dense: int) -> tuple[Pattern, Tensor]:
    """The same elements with that many dense dimensions, fewer than there are."""
    if dense > pattern.dense:
        raise RuntimeError(
            f"sparse tensors with {pattern.dense} and {dense} dense dimensions do not go together"
        )
    extra = pattern.dense - dense
    more = pattern.dense_size[:extra]
    inner = prod(more)
    added = grid(more)
    indices = _cat(
        [
            pattern.indices.repeat_interleave(inner, dim=1),
            _stack(added).repeat(1, pattern.nnz) if added else pattern.indices[:0],
        ]
    )
    values = values.reshape(-1, *pattern.dense_size[extra:])
    return Pattern.coo(indices, pattern.size, dense, pattern.coalesced), values
