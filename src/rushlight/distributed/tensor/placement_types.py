"""How the processes of a mesh hold a tensor."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


def bounds(size: int, count: int, index: int) -> tuple[int, int]:
    """Where part ``index`` of ``count`` begins and ends, as ``torch.chunk`` cuts.

    >>> from rushlight.distributed.tensor.placement_types import bounds
    >>> [bounds(5, 4, i) for i in range(4)]
    [(0, 2), (2, 4), (4, 5), (5, 5)]
    """
    chunk = -(-size // count)
    return min(index * chunk, size), min((index + 1) * chunk, size)


def rows_of(placement: Shard | _StridedShard, size: int, count: int, index: int) -> list[int]:
    """The elements along the dimension that process ``index`` of ``count`` has.

    >>> from rushlight.distributed.tensor.placement_types import _StridedShard, rows_of
    >>> rows_of(_StridedShard(0, split_factor=2), 8, 2, 0)
    [0, 1, 4, 5]
    """
    rows: list[int] = []
    blocks = placement.split_factor if isinstance(placement, _StridedShard) else 1
    for block in range(blocks):
        first, last = bounds(size, blocks, block)
        start, end = bounds(last - first, count, index)
        rows.extend(range(first + start, first + end))
    return rows


class Placement:
    """One dimension of a mesh: every process has a part, the whole, or a term of the sum.

    >>> from rushlight.distributed.tensor.placement_types import Partial, Replicate, Shard
    >>> Shard(0).is_shard(), Replicate().is_shard(), Partial().is_partial()
    (True, False, True)
    """

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part, along this dimension where one is named."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether each process has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether the whole is the sum (or what ``reduce_op`` says) of what processes have."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Parts along a dimension, as ``torch.chunk`` cuts: the last ones may be smaller or empty.

    >>> from rushlight.distributed.tensor.placement_types import Shard
    >>> Shard(1)
    Shard(dim=1)
    """

    dim: int

    @staticmethod
    def local_shard_size_and_offset(
        curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        """How many of so many elements process ``rank`` has, and where they begin.

        >>> from rushlight.distributed.tensor.placement_types import Shard
        >>> Shard.local_shard_size_and_offset(5, 2, 1)
        (2, 3)
        """
        start, end = bounds(curr_local_size, num_chunks, rank)
        return end - start, start


@dataclass(frozen=True)
class _StridedShard(Placement):
    """A part of each of ``split_factor`` blocks along a dimension, joined.

    Matrices that lie in one tensor, one below the other, are cut each for itself.
    """

    dim: int
    _: KW_ONLY
    split_factor: int

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def local_shard_size_and_offset(
        self, curr_local_size: int, num_chunks: int, rank: int
    ) -> tuple[int, int]:
        rows = rows_of(self, curr_local_size, num_chunks, rank)
        return len(rows), rows[0] if rows else -1


@dataclass(frozen=True)
class Replicate(Placement):
    """The whole tensor in every process.

    >>> from rushlight.distributed.tensor.placement_types import Replicate
    >>> Replicate()
    Replicate()
    """


@dataclass(frozen=True)
class Partial(Placement):
    """Terms that add up to the tensor.

    >>> from rushlight.distributed.tensor.placement_types import Partial
    >>> Partial()
    Partial(sum)
    """

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"
