"""Sums of sparse tensors over processes: everyone's elements, joined."""

from __future__ import annotations

import rushlight
from rushlight import distributed as dist

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def summed(
    part: Any, like: Any, group: Any, sparse_dim: int = 1, mark: bool = True
) -> tuple[Any, int]:
    """The sum of everyone's sparse tensors, and how many processes gave a mark.

    ``part`` is None where a process has none; ``like`` has the shape, dtype and device.
    """
    device, shape = like.device, tuple(like.shape)
    if part is None:
        indices = rushlight.empty(0, sparse_dim, dtype=rushlight.int64, device=device)
        values = rushlight.empty(0, *shape[sparse_dim:], dtype=like.dtype, device=device)
    else:
        part = part.detach().coalesce()
        indices, values = part.indices().t().contiguous(), part.values().contiguous()
    world = dist.get_world_size(group)
    told = rushlight.tensor([len(indices), int(mark)], device=device)
    everyone = rushlight.empty(world, 2, dtype=rushlight.int64, device=device)
    dist.all_gather_into_tensor(everyone, told, group=group)
    sizes, marks = everyone.t().tolist()
    joined = [rushlight.cat(_gathered(t, sizes, group)) for t in (indices, values)]
    total = rushlight.sparse_coo_tensor(joined[0].t(), joined[1], shape).coalesce()
    return total, sum(marks)


def _gathered(rows: Any, sizes: list[int], group: Any) -> list[Any]:
    parts = [rows.new_empty(n, *rows.shape[1:]) for n in sizes]
    if rows.shape[1:].numel() and any(sizes):
        dist.all_gather(parts, rows, group=group)
    return parts


def all_reduce(tensor: Any, op: Any, group: Any) -> None:
    """``all_reduce`` of a sparse tensor, whose elements may lie elsewhere in each process."""
    if op.name not in ("SUM", "AVG"):
        raise ValueError(
            f"all_reduce: sparse tensors are summed (ReduceOp.SUM, AVG), got {op.name}"
        )
    mine: tuple[Any, ...] = (tuple(tensor.shape), tensor.sparse_dim(), str(tensor.dtype))
    everyone: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(everyone, mine, group=group)
    for rank, other in enumerate(everyone):
        if other != everyone[0]:
            raise ValueError(
                "all_reduce: sparse tensors must agree in shape, sparse dimensions and dtype: "
                f"rank 0 has {everyone[0]}, rank {rank} has {other}"
            )
    total, count = summed(tensor, tensor, group, tensor.sparse_dim())
    with rushlight.no_grad():
        tensor.copy_(total / count if op.name == "AVG" else total)
