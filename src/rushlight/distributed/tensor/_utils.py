"""Where the parts of a tensor that is spread over a mesh lie."""

from __future__ import annotations

from rushlight.distributed.tensor.placement_types import Shard, _StridedShard, rows_of

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.distributed.tensor.placement_types import Placement


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: Any, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape of the part of this process, and where in the whole it begins.

    >>> import rushlight as torch
    >>> from rushlight.distributed.tensor import Shard
    >>> from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset
    >>> torch.distributed.init_process_group(rank=0, world_size=1)
    >>> mesh = torch.distributed.init_device_mesh("cpu", (1,))
    >>> compute_local_shape_and_global_offset((4, 3), mesh, [Shard(0)])
    ((4, 3), (0, 0))
    >>> torch.distributed.destroy_process_group()
    """
    rows: list[Sequence[int]] = [range(size) for size in global_shape]
    for k, placement in enumerate(placements):
        if isinstance(placement, (Shard, _StridedShard)):
            left = rows[placement.dim]
            own = rows_of(placement, len(left), mesh.size(k), mesh.get_local_rank(k))
            rows[placement.dim] = [left[row] for row in own]
    offsets = (own[0] if len(own) else size for own, size in zip(rows, global_shape, strict=True))
    return tuple(len(own) for own in rows), tuple(offsets)


def compute_local_shape(
    global_shape: Sequence[int], mesh: Any, placements: Sequence[Placement]
) -> tuple[int, ...]:
    """The shape of the part of this process."""
    return compute_local_shape_and_global_offset(global_shape, mesh, placements)[0]
