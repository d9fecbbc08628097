"""How the parts of a nested tensor lie in its values.

The values of a *jagged* tensor are its parts joined along the ragged dimension: dimension d of the
tensor is dimension d - 1 of the values. Those of one of strided layout are the flat parts, joined.
"""

from __future__ import annotations

from itertools import count, pairwise
from math import prod

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import jagged, strided
from rushlight._structured.base import content, is_structured, stand_in

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_ops = _C._namespaces[""]
_numbers = count(1)


class NestedInt:
    """The size of a ragged dimension: equal for tensors of one structure."""

    __slots__ = ("_number",)

    def __init__(self) -> None:
        self._number = next(_numbers)

    def __repr__(self) -> str:
        return f"j{self._number}"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class NestedSize(tuple):
    """The shape of a jagged tensor."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    def numel(self) -> int:
        raise RuntimeError("the number of elements of a ragged shape is Tensor.numel()")


class Jagged:
    """Parts joined along one dimension."""

    __slots__ = ("_cached", "lengths", "offsets", "ragged", "symbol")
    layout = jagged

    def __init__(
        self,
        offsets: Tensor,
        lengths: Tensor | None = None,
        ragged: int = 1,
        symbol: NestedInt | None = None,
        cached: dict[str, Any] | None = None,
    ) -> None:
        self.offsets, self.lengths, self.ragged = offsets, lengths, ragged
        self.symbol = symbol or NestedInt()
        self._cached: dict[str, Any] = {} if cached is None else cached

    def __reduce__(self) -> tuple[Any, ...]:
        return Jagged, (self.offsets, self.lengths, self.ragged)

    def copied(self) -> Jagged:
        return self

    def moved(self, ragged: int) -> Jagged:
        """The same with the ragged dimension elsewhere."""
        if ragged == self.ragged:
            return self
        return Jagged(self.offsets, self.lengths, ragged, self.symbol, self._cached)

    @property
    def batch(self) -> int:
        return int(self.offsets.shape[0]) - 1

    def spans(self) -> list[tuple[int, int]]:
        """Where each part begins, and its length."""
        found: Any = self._cached.get("spans")
        if found is None:
            starts = self.offsets.tolist()
            if self.lengths is None:
                sizes = [b - a for a, b in pairwise(starts)]
            else:
                sizes = self.lengths.tolist()
            found = self._cached["spans"] = list(zip(starts[:-1], sizes, strict=True))
        return found

    def longest(self) -> int:
        return max((n for _, n in self.spans()), default=0)

    def shortest(self) -> int:
        return min((n for _, n in self.spans()), default=0)

    def owners(self) -> Tensor:
        """Of each row of contiguous values, the number of its part."""
        found = self._cached.get("owners")
        if found is None:
            counts = self.offsets.diff() if self.lengths is None else self.lengths
            found = _ops["arange"](self.batch).repeat_interleave(counts.long())
            self._cached["owners"] = found
        return found

    def rows(self) -> Tensor | None:
        """The rows of the values that belong to parts; None: all of them."""
        if self.lengths is None:
            return None
        found = self._cached.get("rows")
        if found is None:
            owners = self.owners()
            before = self.lengths.cumsum(0) - self.lengths
            found = _ops["arange"](owners.numel()) + (self.offsets[:-1] - before)[owners]
            self._cached["rows"] = found
        return found

    def make(self, values: Tensor) -> Any:
        from rushlight._nested.tensor import NestedTensor

        made = stand_in(NestedTensor, (self.batch, *values.shape), values.dtype)
        made._structure, made._raw = self, values
        return made

    def read(self, grad: Any) -> Tensor:
        return content(grad) if is_structured(grad) else grad[0]

    def gradient(self, grad: Tensor) -> Any:
        from rushlight._structured.base import wrap

        return wrap(grad, self)

    def shape(self, values: Tensor) -> NestedSize:
        sizes: list[Any] = [self.batch, *values.shape]
        sizes[self.ragged] = self.symbol
        return NestedSize(sizes)

    def parts(self, values: Tensor) -> list[Tensor]:
        return [values.narrow(self.ragged - 1, start, size) for start, size in self.spans()]

    def same(self, other: Any) -> bool:
        return isinstance(other, Jagged) and other.symbol is self.symbol


class Pieces:
    """Flat parts of any shapes, joined: the strided layout."""

    __slots__ = ("sizes",)
    layout = strided

    def __init__(self, sizes: Sequence[Sequence[int]]) -> None:
        self.sizes = [tuple(size) for size in sizes]

    def __reduce__(self) -> tuple[Any, ...]:
        return Pieces, (self.sizes,)

    def copied(self) -> Pieces:
        return self

    @property
    def batch(self) -> int:
        return len(self.sizes)

    def make(self, values: Tensor) -> Any:
        from rushlight._nested.tensor import NestedTensor

        made = stand_in(NestedTensor, (self.batch, *values.shape), values.dtype)
        made._structure, made._raw = self, values
        return made

    read = Jagged.read
    gradient = Jagged.gradient

    def shape(self, values: Tensor) -> Any:
        raise RuntimeError(
            "NestedTensorImpl doesn't support sizes: the parts of a nested tensor of strided "
            "layout have a shape each. Ask size(dim) for a regular dimension, or use "
            "layout=torch.jagged"
        )

    def parts(self, values: Tensor) -> list[Tensor]:
        if not self.sizes:
            return []
        pieces = values.split([prod(size) for size in self.sizes])
        return [p.reshape(size) for p, size in zip(pieces, self.sizes, strict=True)]

    def same(self, other: Any) -> bool:
        return isinstance(other, Pieces) and other.sizes == self.sizes


def join(parts: Sequence[Tensor]) -> tuple[Tensor, Pieces]:
    """Parts of any shapes as values and their structure."""
    if not parts:
        return _ops["zeros"](0), Pieces([])
    flat = _ops["cat"]([p.reshape(-1) for p in parts])
    return flat, Pieces([tuple(p.shape) for p in parts])
