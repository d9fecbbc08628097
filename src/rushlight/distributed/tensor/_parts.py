"""Parts of tensors that processes exchange, and the derivatives of the exchanges.

Each exchange comes in the two readings that its derivative may have. A gradient that every process
has whole is cut where the tensor was gathered (``gather``); a gradient of which every process has a
term is also added up (``gather_sum``). The pairs are each other's derivative.
"""

from __future__ import annotations

import rushlight
from rushlight import distributed as dist
from rushlight.autograd import Function
from rushlight.distributed.tensor.placement_types import _StridedShard, bounds, rows_of

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight._C import Tensor
    from rushlight.distributed.tensor.placement_types import Shard


def _padded(t: Tensor, dim: int, size: int) -> Tensor:
    if t.shape[dim] == size:
        return t.contiguous()
    wide = t.new_zeros([*t.shape[:dim], size, *t.shape[dim + 1 :]])
    wide.narrow(dim, 0, t.shape[dim]).copy_(t)
    return wide


def own_part(t: Tensor, dim: int, group: Any) -> Tensor:
    """This process's part of a tensor that every process has."""
    start, end = bounds(t.shape[dim], dist.get_world_size(group), dist.get_rank(group))
    return t.narrow(dim, start, end - start).contiguous()


def gathered(part: Tensor, dim: int, size: int, group: Any) -> Tensor:
    """The whole tensor, of ``size`` along ``dim``, from everyone's parts."""
    world = dist.get_world_size(group)
    part = _padded(part.detach(), dim, -(-size // world))
    out = part.new_empty([world * part.shape[0], *part.shape[1:]] if part.dim() else [world])
    dist.all_gather_into_tensor(out, part, group=group)
    if dim != 0:
        out = rushlight.cat(out.chunk(world, 0), dim)
    return out.narrow(dim, 0, size)


def scattered_sum(whole: Tensor, dim: int, group: Any) -> Tensor:
    """This process's part of the sum of everyone's tensors."""
    world, size = dist.get_world_size(group), whole.shape[dim]
    chunk = -(-size // world)
    padded = _padded(whole.detach(), dim, chunk * world)
    if dim != 0:
        padded = rushlight.cat(padded.split(chunk, dim), 0)
    out = padded.new_empty([padded.shape[0] // world, *padded.shape[1:]])
    dist.reduce_scatter_tensor(out, padded, group=group)
    start, end = bounds(size, world, dist.get_rank(group))
    return out.narrow(dim, 0, end - start).contiguous()


def summed(t: Tensor, group: Any) -> Tensor:
    """The sum of everyone's tensors."""
    t = t.detach().clone(memory_format=rushlight.contiguous_format)
    dist.all_reduce(t, group=group)
    return t


def reduced(t: Tensor, op: str, group: Any) -> Tensor:
    """The largest, smallest or product of everyone's tensors, without a history."""
    if rushlight.is_grad_enabled() and t.requires_grad:
        raise RuntimeError(
            f"redistribute: Partial({op}) of a tensor that requires grad: gradients of terms are "
            "those of sums: use Partial('sum'), or detach() it"
        )
    if op not in ("max", "min", "product"):
        raise RuntimeError(f"redistribute: Partial({op}): sum, avg, max, min and product are known")
    t = t.detach().clone(memory_format=rushlight.contiguous_format)
    dist.all_reduce(t, op=getattr(dist.ReduceOp, op.upper()), group=group)
    return t


class Gather(Function):
    """Parts become the whole; every process has the whole gradient and takes its part of it."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, dim: int, size: int, group: Any) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return gathered(part, dim, size, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return Split.apply(grad, ctx.dim, ctx.group), None, None, None


class Split(Function):
    """The whole is cut; the gradients of the parts are gathered."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, dim: int, group: Any) -> Tensor:
        ctx.dim, ctx.size, ctx.group = dim, whole.shape[dim], group
        return own_part(whole, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return Gather.apply(grad, ctx.dim, ctx.size, ctx.group), None, None


class StridedGather(Function):
    """``Gather`` of parts that are made of several blocks."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, placement: _StridedShard, size: int, group: Any) -> Tensor:
        ctx.placement, ctx.group = placement, group
        dim, world = placement.dim, dist.get_world_size(group)
        rows = [rows_of(placement, size, world, rank) for rank in range(world)]
        longest = max(map(len, rows))
        wide = gathered(_padded(part.detach(), dim, longest), dim, longest * world, group)
        order = [0] * size  # where each element of the whole lies among the gathered ones
        for rank, own in enumerate(rows):
            for place, row in enumerate(own):
                order[row] = rank * longest + place
        return wide.index_select(dim, rushlight.tensor(order, device=part.device))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return StridedSplit.apply(grad, ctx.placement, ctx.group), None, None, None


class StridedSplit(Function):
    """``Split`` into parts that are made of several blocks."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, placement: _StridedShard, group: Any) -> Tensor:
        ctx.placement, ctx.size, ctx.group = placement, whole.shape[placement.dim], group
        rows = rows_of(placement, ctx.size, dist.get_world_size(group), dist.get_rank(group))
        index = rushlight.tensor(rows, dtype=rushlight.int64, device=whole.device)
        return whole.index_select(placement.dim, index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return StridedGather.apply(grad, ctx.placement, ctx.size, ctx.group), None, None


def cut(whole: Tensor, placement: Shard | _StridedShard, group: Any) -> Tensor:
    """This process's part of a tensor that every process has, with its history."""
    if isinstance(placement, _StridedShard):
        part: Tensor = StridedSplit.apply(whole, placement, group)
    else:
        part = Split.apply(whole, placement.dim, group)
    return part


def joined(part: Tensor, placement: Shard | _StridedShard, size: int, group: Any) -> Tensor:
    """The whole from everyone's parts, with their history."""
    if isinstance(placement, _StridedShard):
        whole: Tensor = StridedGather.apply(part, placement, size, group)
    else:
        whole = Gather.apply(part, placement.dim, size, group)
    return whole


class GatherSum(Function):
    """Parts become the whole; gradients are terms, which are summed and cut."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, dim: int, size: int, group: Any) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return gathered(part, dim, size, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        return ScatterSum.apply(grad, ctx.dim, ctx.group), None, None, None


class ScatterSum(Function):
    """Terms are summed and cut; the gradients of the parts are gathered."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, dim: int, group: Any) -> Tensor:
        ctx.dim, ctx.size, ctx.group = dim, whole.shape[dim], group
        return scattered_sum(whole, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return GatherSum.apply(grad, ctx.dim, ctx.size, ctx.group), None, None


class Copy(Function):
    """The whole for everyone; gradients are terms, which are summed."""

    @staticmethod
    def forward(ctx: Any, whole: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return whole.view_as(whole)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return Sum.apply(grad, ctx.group), None


class Sum(Function):
    """Terms are summed; every process has the whole gradient."""

    @staticmethod
    def forward(ctx: Any, term: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return summed(term, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return Copy.apply(grad, ctx.group), None
