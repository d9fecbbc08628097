"""Collectives that gradients flow through, of any order. They return new tensors.

All processes of the group run the backward pass, each from its own loss: a gradient is that of the
sum of all losses.
"""

from __future__ import annotations

from rushlight import distributed as _dist
from rushlight.autograd import Function
from rushlight.distributed._reductions import ReduceOp
from rushlight.distributed._reductions import kind as _kind

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def _own(group: Any) -> int:
    return _dist.get_rank(group)


def _world_rank(group: Any, rank: int) -> int:
    """The rank in the group of one in the whole world."""
    members = group if group is not None else _dist.group.WORLD
    return _dist.get_group_rank(members, rank)


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, tensor: Any) -> Any:
        ctx.src, ctx.group = src, group
        result = tensor.detach().clone()
        _dist.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, _Reduce.apply(ctx.src, ctx.group, grad)


class _Reduce(Function):
    """The sum at one rank and zeros elsewhere; the gradient is a broadcast from there."""

    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        result = tensor.detach().clone()
        _dist.reduce(result, dst, ReduceOp.SUM, group)
        return result if _own(group) == _world_rank(group, dst) else result.zero_()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, _Broadcast.apply(ctx.dst, ctx.group, grad)


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, tensor: Any) -> Any:
        ctx.op, ctx.group = op, group
        result = tensor.detach().clone()
        _dist.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, _AllReduce.apply(ctx.op, ctx.group, grad)


class _AllGather(Function):
    """Stacks the tensors of all processes."""

    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Any) -> Any:
        ctx.group = group
        result = tensor.new_empty((_dist.get_world_size(group), *tensor.shape))
        _dist.all_gather_into_tensor(result, tensor.detach(), group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, _ReduceScatter.apply(ctx.group, grad)


class _ReduceScatter(Function):
    """Sums over processes; each gets its entry along the first dim."""

    @staticmethod
    def forward(ctx: Any, group: Any, tensor: Any) -> Any:
        ctx.group = group
        result = tensor.new_empty(tuple(tensor.shape[1:]))
        _dist.reduce_scatter_tensor(result, tensor.detach().contiguous(), group=group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, _AllGather.apply(ctx.group, grad)


class _AllToAll(Function):
    """Exchanges parts of a flat tensor: ``sent[i]`` values to rank i, ``received[i]`` from it."""

    @staticmethod
    def forward(ctx: Any, group: Any, sent: list[int], received: list[int], flat: Any) -> Any:
        ctx.group, ctx.sent, ctx.received = group, sent, received
        result = flat.new_empty(sum(received))
        _dist.all_to_all_single(result, flat.detach().contiguous(), received, sent, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        flat = _AllToAll.apply(ctx.group, ctx.received, ctx.sent, grad)
        return None, None, None, flat


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """The tensor of rank ``src``, in all processes.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> import rushlight.distributed.nn.functional
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = torch.ones(2, requires_grad=True)
    >>> dist.nn.functional.broadcast(x, 0).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    return _Broadcast.apply(src, group, tensor)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The sum (or another combination) of the tensors of all processes, at rank ``dst``.

    The other processes get zeros, of which nothing depends on the inputs.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> import rushlight.distributed.nn.functional
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.nn.functional.reduce(torch.ones(2), 0)
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    if _kind(op, "reduce").name == "SUM":
        return _Reduce.apply(dst, group, tensor)
    whole = all_reduce(tensor, op, group)
    return whole if _own(group) == _world_rank(group, dst) else whole * 0


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """The sum (or another combination) of the tensors of all processes, in each.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> import rushlight.distributed.nn.functional
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> x = torch.ones(2, requires_grad=True)
    >>> dist.nn.functional.all_reduce(x).sum().backward()
    >>> x.grad
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    name = _kind(op, "all_reduce").name
    if name in ("SUM", "AVG", "PREMUL_SUM"):
        return _AllReduce.apply(op, group, tensor)
    stacked = _AllGather.apply(group, tensor)
    if name == "PRODUCT":
        return stacked.prod(0)
    if name == "MAX":
        return stacked.amax(0)
    if name == "MIN":
        return stacked.amin(0)
    raise ValueError(f"all_reduce: {name} has no gradient: use torch.distributed.all_reduce")


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all processes.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> import rushlight.distributed.nn.functional
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.nn.functional.all_gather(torch.ones(2))
    (tensor([1., 1.]),)
    >>> dist.destroy_process_group()
    """
    return tuple(_AllGather.apply(group, tensor).unbind(0))


def _all_gather_base(output_tensor: Any, input_tensor: Any, group: Any = None) -> Any:
    """The tensors of all processes, in the shape of ``output_tensor``."""
    return _AllGather.apply(group, input_tensor).reshape(output_tensor.shape)


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """The tensors of all processes at rank ``dst``; the others get zeros.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> import rushlight.distributed.nn.functional
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.nn.functional.gather(torch.ones(2))
    (tensor([1., 1.]),)
    >>> dist.destroy_process_group()
    """
    size, to = _dist.get_world_size(group), _world_rank(group, dst)
    count = tensor.numel()
    sent = [count if r == to else 0 for r in range(size)]
    here = _own(group) == to
    flat = _AllToAll.apply(group, sent, [count if here else 0] * size, tensor.reshape(-1))
    if here:
        return tuple(part.reshape(tensor.shape) for part in flat.split(count))
    zeros = flat.sum() * 0  # keeps this process in the backward pass of the others
    return tuple(tensor.detach().new_zeros(tensor.shape) + zeros for _ in range(size))


def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Any:
    """The entry of this rank in the list of tensors of rank ``src``.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> import rushlight.distributed.nn.functional
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.nn.functional.scatter([torch.ones(2)])
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    import rushlight as torch

    size, from_, own = _dist.get_world_size(group), _world_rank(group, src), _own(group)
    flat = torch.cat([t.reshape(-1) for t in tensors])
    sent = [t.numel() for t in tensors] if own == from_ else [0] * size
    received = [tensors[own].numel() if r == from_ else 0 for r in range(size)]
    source = flat if own == from_ else flat[:0]
    return _AllToAll.apply(group, sent, received, source).reshape(tensors[own].shape)


def reduce_scatter(
    output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None
) -> Any:
    """Combines lists of tensors over all processes; the entry of this rank.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> import rushlight.distributed.nn.functional
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.nn.functional.reduce_scatter(torch.empty(2), [torch.ones(2)])
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    import rushlight as torch

    name = _kind(op, "reduce_scatter").name
    if name in ("SUM", "AVG") and len({t.shape for t in input_list}) == 1:
        result = _ReduceScatter.apply(group, torch.stack(list(input_list)))
        return result / _dist.get_world_size(group) if name == "AVG" else result
    return [all_reduce(t, op, group) for t in input_list][_own(group)].reshape(output.shape)


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None
) -> tuple[Any, ...]:
    """Sends the i-th input to rank i; what comes has the shapes of the outputs.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> import rushlight.distributed.nn.functional
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.nn.functional.all_to_all([torch.empty(2)], [torch.ones(2)])
    (tensor([1., 1.]),)
    >>> dist.destroy_process_group()
    """
    import rushlight as torch

    flat = torch.cat([t.reshape(-1) for t in input_tensor_list])
    sent = [t.numel() for t in input_tensor_list]
    received = [t.numel() for t in output_tensor_list]
    parts = _AllToAll.apply(group, sent, received, flat).split(received)
    return tuple(part.reshape(t.shape) for part, t in zip(parts, output_tensor_list, strict=True))


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Any:
    """Splits a tensor along its first dim, sends a part to each process, joins what comes.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> import rushlight.distributed.nn.functional
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.nn.functional.all_to_all_single(torch.empty(2), torch.ones(2))
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    size = _dist.get_world_size(group)

    def counts(tensor: Any, sizes: Sequence[int] | None) -> list[int]:
        rows = tensor.shape[0]
        row = tensor.numel() // rows if rows else 0
        return [int(n) * row for n in (sizes or [rows // size] * size)]

    sent, received = counts(input, input_split_sizes), counts(output, output_split_sizes)
    return _AllToAll.apply(group, sent, received, input.reshape(-1)).reshape(output.shape)
