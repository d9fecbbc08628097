"""How the processes of a mesh hold a tensor."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


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
