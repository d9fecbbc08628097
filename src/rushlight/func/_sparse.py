"""Jacobians with a known pattern of zeros: columns that never meet in a row share one pass."""

from __future__ import annotations

from collections import namedtuple

from rushlight import _C
from rushlight._functions import tensor
from rushlight.func._grad import jvp, vjp
from rushlight.func._vmap import vmap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ops = _C._namespaces[""]


class SparseJacobian(namedtuple("SparseJacobian", ["indices", "values", "size"])):
    """The entries of a matrix: row and column of each, the values, and the matrix's size.

    >>> import rushlight as torch
    >>> jacobian = torch.func.sparse_jacobian(torch.square, torch.tensor([1.0, 2.0]), torch.eye(2))
    >>> jacobian.values
    tensor([2., 4.])
    >>> jacobian.to_dense()
    tensor([[2., 0.],
            [0., 4.]])
    """

    __slots__ = ()

    def to_dense(self) -> Any:
        """The matrix, with zeros."""
        rows, columns = self.indices
        zeros = _ops["zeros"](self.size, dtype=self.values.dtype, device=self.values.device)
        return zeros.index_put((rows, columns), self.values)


class Coloring:
    """Which rows or columns of a pattern share a pass; made by `coloring`.

    >>> import rushlight as torch
    >>> groups = torch.func.coloring(torch.tensor([[1, 1, 0], [0, 1, 1]]))
    >>> groups.count, groups.colors
    (2, tensor([1, 0, 1]))
    """

    def __init__(
        self, rows: Any, columns: Any, size: tuple[int, int], by: str, colors: Sequence[int]
    ) -> None:
        self.rows, self.columns, self.size, self.by = rows, columns, size, by
        self.colors = tensor(list(colors), dtype=_C.int64)
        self.count = max(colors, default=0) + 1

    def __repr__(self) -> str:
        return f"Coloring(size={self.size}, entries={len(self.rows)}, {self.count} {self.by})"


def coloring(pattern: Any, by: str | None = None) -> Coloring:
    """Groups the columns, or rows, of a pattern of nonzeros so that no two in a group meet.

    `pattern` is a matrix, whose nonzero elements may be nonzero in the Jacobian. Of "columns"
    (forward mode) and "rows" (reverse mode), None takes what needs fewer passes.

    >>> import rushlight as torch
    >>> torch.func.coloring(torch.eye(100))
    Coloring(size=(100, 100), entries=100, 1 columns)
    """
    if not isinstance(pattern, _C.Tensor) or pattern.dim() != 2:
        raise ValueError("coloring: the pattern must be a matrix of truths")
    if by not in (None, "columns", "rows"):
        raise ValueError(f"coloring: by must be 'columns', 'rows' or None, got {by!r}")
    rows, columns = _ops["nonzero"](pattern).unbind(1)
    height, width = pattern.shape
    i, j = rows.tolist(), columns.tolist()
    options = []
    if by != "rows":
        options.append(("columns", _greedy(j, i, width, height)))
    if by != "columns":
        options.append(("rows", _greedy(i, j, height, width)))
    best, colors = min(options, key=lambda option: max(option[1], default=0))
    return Coloring(rows, columns, (height, width), best, colors)


def _greedy(lines: list[int], across: list[int], count: int, other: int) -> list[int]:
    """Each line takes the first color free where it goes, those with most entries first."""
    entries: list[list[int]] = [[] for _ in range(count)]
    for line, at in zip(lines, across, strict=True):
        entries[line].append(at)
    taken = [0] * other  # the colors of each crossing line, as bits
    colors = [0] * count
    for line in sorted(range(count), key=lambda n: -len(entries[n])):
        used = 0
        for at in entries[line]:
            used |= taken[at]
        free = ~used & (used + 1)
        colors[line] = free.bit_length() - 1
        for at in entries[line]:
            taken[at] |= free
    return colors


def sparse_jacobian(func: Callable[[Any], Any], x: Any, pattern: Any) -> SparseJacobian:
    """The Jacobian of `func` at x, where only the elements in a pattern can be nonzero.

    The pattern is a matrix of truths with a row for each element of the result and a column for
    each of x, or a `coloring` of one, which saves finding it again. There are as many passes as
    the coloring has groups, all in one batch. Elements outside the pattern must be zero: what the
    function has there is added to others.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0, 3.0])
    >>> found = torch.func.sparse_jacobian(torch.square, x, torch.eye(3))
    >>> found.values
    tensor([2., 4., 6.])
    >>> found.to_dense()[1]
    tensor([0., 4., 0.])
    """
    groups = pattern if isinstance(pattern, Coloring) else coloring(pattern)
    height, width = groups.size
    if x.numel() != width:
        raise ValueError(
            f"sparse_jacobian: the pattern has {width} columns for {x.numel()} elements"
        )
    if groups.by == "columns":
        lines, crossing = groups.columns, groups.rows
        result = _pushed(func, x, _seeds(groups, x))
        _check_height(result.numel() // groups.count, height)
    else:
        lines, crossing = groups.rows, groups.columns
        output, pull = vjp(func, x)
        _check_height(output.numel(), height)
        result = vmap(lambda g: pull(g)[0])(_seeds(groups, output))
    values = result.reshape(groups.count, -1)[groups.colors[lines], crossing]
    return SparseJacobian(_ops["stack"]([groups.rows, groups.columns]), values, groups.size)


def _check_height(elements: int, height: int) -> None:
    if elements != height:
        raise ValueError(
            f"sparse_jacobian: the pattern has {height} rows for a result of {elements} elements"
        )


def _seeds(groups: Coloring, like: Any) -> Any:
    """For each group, a tensor with ones at its lines."""
    chosen = _ops["arange"](groups.count).unsqueeze(1) == groups.colors
    return chosen.to(like.dtype).reshape((groups.count, *like.shape))


def _pushed(func: Callable[[Any], Any], x: Any, seeds: Any) -> Any:
    return vmap(lambda v: jvp(func, (x,), (v,))[1])(seeds)


def banded_jacobian(
    func: Callable[[Any], Any], x: Any, lower: int, upper: int | None = None
) -> SparseJacobian:
    """The Jacobian of a function whose i-th result depends on x[i - lower] to x[i + upper] alone.

    `lower + upper + 1` passes in one batch, for any size. `upper` is `lower` unless given.

    >>> import rushlight as torch
    >>> second_difference = lambda x: x[2:] - 2 * x[1:-1] + x[:-2]
    >>> torch.func.banded_jacobian(second_difference, torch.zeros(5), 0, 2).to_dense()
    tensor([[ 1., -2.,  1.,  0.,  0.],
            [ 0.,  1., -2.,  1.,  0.],
            [ 0.,  0.,  1., -2.,  1.]])
    """
    upper = lower if upper is None else upper
    if lower + upper < 0:
        raise ValueError(f"banded_jacobian: no diagonals from {-lower} to {upper}")
    width, band = x.numel(), lower + upper + 1
    each = _ops["arange"](width)
    groups = min(band, max(width, 1))
    chosen = (_ops["arange"](groups).unsqueeze(1) == each % groups).to(x.dtype)
    result = _pushed(func, x, chosen.reshape((groups, *x.shape))).reshape(groups, -1)
    height = result.shape[1]
    offsets = _ops["arange"](-lower, upper + 1)
    rows = _ops["arange"](height).repeat_interleave(band)
    columns = rows + offsets.repeat(height)
    inside = (columns >= 0) & (columns < width)
    rows, columns = rows[inside], columns[inside]
    values = result[columns % groups, rows]
    return SparseJacobian(_ops["stack"]([rows, columns]), values, (height, width))
