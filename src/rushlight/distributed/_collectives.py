"""Collectives on tensors: every process of a group calls the same one."""

from __future__ import annotations

from rushlight.distributed._buffers import Call, root, start
from rushlight.distributed._reductions import ReduceOp

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta
    from typing import Any


def all_reduce(
    tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Combines a tensor over all processes; each has the result in its tensor.

    Sparse tensors are summed, wherever each process has its elements.

    Args:
        tensor: input and output.
        op: ``ReduceOp.SUM``, ``AVG``, ``PRODUCT``, ``MIN``, ``MAX``, ``BAND``, ``BOR``, ``BXOR``.
        group: the processes; all of them by default.
        async_op: return a ``Work`` at once.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> dist.all_reduce(t)
    >>> t
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    call = start("all_reduce", group)
    if call is None:
        return None
    call.tensor(tensor)
    if tensor.is_sparse:
        from rushlight.distributed import _sparse

        _sparse.all_reduce(tensor, op, group)
        return call.run([], async_op, [tensor])
    return call.run([_all_reduce(call, tensor, op, not async_op)], async_op, [tensor])


def _all_reduce(call: Call, tensor: Any, op: Any, in_turn: bool) -> Any:
    into = call.target(tensor)
    call.prepare(into, op)
    call.average(into, op)
    operation = call.op(op, tensor.dtype)
    call.agree(tensor, op)
    if in_turn:
        *earlier, into = call.engine.pieces(into)
        for piece in earlier:
            call.wait(_reduced(call, piece, op, operation))
    return _reduced(call, into, op, operation)


def _reduced(call: Call, into: Any, op: Any, operation: Any) -> Any:
    exchange = call.engine.exchange
    if exchange is not None and exchange.suits("all_reduce", into, op):
        return exchange.all_reduce(into)
    return call.comm.Iallreduce(call.in_place, call.memory(into), op=operation)


def mean_later(tensor: Any, divisor: float, group: Any, broken: int, watched: bool) -> Any:
    """The Work of an ``all_reduce`` whose sum is divided; for gradients, in one piece.

    Where messages carry it each process divides its part of the sum, else its own values, as always
    those of halves, whose sum may be too large. All must have the same number of ``broken`` passes.
    Who waits for it soon lets no thread be woken.
    """
    call = start("all_reduce", group)
    assert call is not None
    into = call.target(call.tensor(tensor))
    operation = call.op(ReduceOp.SUM, tensor.dtype)
    call.agree(tensor, ReduceOp.SUM, f"after {broken} failed backward passes" if broken else None)
    exchange, factor = call.engine.exchange, 1.0 / divisor
    narrow = tensor.element_size() == 2
    if exchange is not None and not narrow and exchange.suits("all_reduce", into, ReduceOp.SUM):
        request = exchange.all_reduce(into, factor)
    else:
        if divisor != 1:
            into.mul_(factor)
        request = call.comm.Iallreduce(call.in_place, call.memory(into), op=operation)
    return call.run([request], True, [tensor], watched=watched)


def all_reduce_coalesced(
    tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """``all_reduce`` of several tensors at once.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> dist.all_reduce_coalesced([t])
    >>> dist.destroy_process_group()
    """
    call = start("all_reduce_coalesced", group)
    if call is None:
        return None
    given = call.tensors([tensors] if hasattr(tensors, "numel") else tensors, "tensors")
    _check_dtypes(call, given)
    return call.run([_all_reduce(call, t, op, False) for t in given], async_op, given)


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Combines a tensor over all processes; the one of rank ``dst`` has the result.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> dist.reduce(t, dst=0)
    >>> dist.destroy_process_group()
    """
    call = start("reduce", group)
    if call is None:
        return None
    call.tensor(tensor)
    to = root(call, dst, group_dst, "dst")
    operation = call.op(op, tensor.dtype)
    call.agree(tensor, op, f"dst={to}")
    if call.group.rank() == to:
        into = call.target(tensor)
        call.prepare(into, op)
        call.average(into, op)
        request = call.comm.Ireduce(call.in_place, call.memory(into), op=operation, root=to)
    else:
        source = call.source(tensor)
        if getattr(op, "factor", None) is not None:
            source = call.source(source * op.factor)
        request = call.comm.Ireduce(call.memory(source), None, op=operation, root=to)
    return call.run([request], async_op, [tensor])


def broadcast(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Copies the tensor of rank ``src`` to all processes.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> dist.broadcast(t, src=0)
    >>> dist.destroy_process_group()
    """
    call = start("broadcast", group)
    if call is None:
        return None
    call.tensor(tensor)
    from_ = root(call, src, group_src, "src")
    here = call.group.rank() == from_
    memory = call.memory(call.source(tensor) if here else call.target(tensor))
    call.agree(tensor, None, f"src={from_}")
    return call.run([call.comm.Ibcast(memory, root=from_)], async_op, [tensor])


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Any:
    """Collects the tensors of all processes in a list, in each of them.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> parts = [torch.empty(2)]
    >>> dist.all_gather(parts, t)
    >>> parts
    [tensor([1., 1.])]
    >>> dist.destroy_process_group()
    """
    call = start("all_gather", group)
    if call is None:
        return None
    call.tensors(tensor_list, "tensor_list")
    call.tensor(tensor)
    return call.run([_all_gather(call, tensor_list, tensor)], async_op, [tensor_list])


def _all_gather(call: Call, tensor_list: Sequence[Any], tensor: Any) -> Any:
    _check_length(call, tensor_list, "tensor_list")
    _check_dtypes(call, [*tensor_list, tensor])
    own = tensor_list[call.group.rank()]
    if own.numel() != tensor.numel():
        raise ValueError(
            f"{call.name}: tensor_list[{call.group.rank()}] has shape {tuple(own.shape)}, but the "
            f"tensor of this rank has shape {tuple(tensor.shape)}"
        )
    counts = [t.numel() for t in tensor_list]
    into = call.joined_target(tensor_list)
    send = call.memory(call.source(tensor))
    if len(set(counts)) == 1:
        call.agree(tensor)
        return call.comm.Iallgather(send, call.memory(into))
    call.agree(None, None, tensor.dtype, f"counts={counts}")
    return call.comm.Iallgatherv(send, call.memory(into, counts))


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """``all_gather`` of several tensors at once.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> parts = [torch.empty(2)]
    >>> dist.all_gather_coalesced([parts], [t])
    >>> parts
    [tensor([1., 1.])]
    >>> dist.destroy_process_group()
    """
    call = start("all_gather_coalesced", group)
    if call is None:
        return None
    inputs = call.tensors(input_tensor_list, "input_tensor_list")
    requests = [
        _all_gather(call, call.tensors(outputs, "output_tensor_lists"), tensor)
        for outputs, tensor in zip(output_tensor_lists, inputs, strict=True)
    ]
    return call.run(requests, async_op, output_tensor_lists)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Collects the tensors of all processes in one, joined or stacked along the first dim.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> out = torch.empty(2)
    >>> dist.all_gather_into_tensor(out, t)
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    call = start("all_gather_into_tensor", group)
    if call is None:
        return None
    call.tensor(output_tensor, "output_tensor")
    call.tensor(input_tensor, "input_tensor")
    request = _all_gather_into(call, output_tensor, input_tensor)
    return call.run([request], async_op, [output_tensor])


def _all_gather_into(call: Call, output: Any, tensor: Any) -> Any:
    _check_dtypes(call, [output, tensor])
    if output.numel() != tensor.numel() * call.group.size():
        raise ValueError(
            f"{call.name}: output tensor size must be equal to world_size times input tensor "
            f"size: {tuple(output.shape)} for {call.group.size()} × {tuple(tensor.shape)}"
        )
    into, source = call.target(output), call.source(tensor)
    call.agree(tensor)
    exchange = call.engine.exchange
    if exchange is not None and exchange.suits("all_gather", into):
        return exchange.all_gather(source, into)
    return call.comm.Iallgather(call.memory(call.apart(source, into)), call.memory(into))


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Any:
    """Collects the tensors of all processes in a list, in the process of rank ``dst``.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> parts = [torch.empty(2)]
    >>> dist.gather(t, parts, dst=0)
    >>> parts
    [tensor([1., 1.])]
    >>> dist.destroy_process_group()
    """
    call = start("gather", group)
    if call is None:
        return None
    call.tensor(tensor)
    to = root(call, dst, group_dst, "dst", 0)
    send = call.memory(call.source(tensor))
    count, none = call.group.size(), [0] * call.group.size()
    sent = [tensor.numel() if r == to else 0 for r in range(count)]
    told = str(list(tensor.shape))
    if call.group.rank() != to:
        if gather_list:
            raise ValueError("gather: gather_list must not be specified on non-destination ranks")
        call.agree(None, None, tensor.dtype, f"dst={to}", pairs=(told, sent, none))
        return call.run([call.comm.Igatherv(send, None, root=to)], async_op)
    if gather_list is None:
        raise ValueError("gather: gather_list must be specified on destination rank")
    call.tensors(gather_list, "gather_list")
    _check_length(call, gather_list, "gather_list")
    _check_dtypes(call, [*gather_list, tensor])
    counts = [t.numel() for t in gather_list]
    told = f"{told}, gather_list={[list(t.shape) for t in gather_list]}"
    call.agree(None, None, tensor.dtype, f"dst={to}", pairs=(told, sent, counts))
    into = call.memory(call.joined_target(gather_list), counts)
    return call.run([call.comm.Igatherv(send, into, root=to)], async_op, [gather_list])


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Any:
    """Hands a list of tensors out from rank ``src``, one to each process.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> out = torch.empty(2)
    >>> dist.scatter(out, [t], src=0)
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    call = start("scatter", group)
    if call is None:
        return None
    call.tensor(tensor)
    from_ = root(call, src, group_src, "src", 0)
    send = None
    if call.group.rank() == from_:
        if scatter_list is None:
            raise ValueError("scatter: scatter_list must be specified on source rank")
        call.tensors(scatter_list, "scatter_list")
        _check_length(call, scatter_list, "scatter_list")
        _check_dtypes(call, [*scatter_list, tensor])
        _check_sizes(call, [*scatter_list, tensor])
        send = call.memory(call.joined_source(scatter_list))
    elif scatter_list:
        raise ValueError("scatter: scatter_list must not be specified on non-source ranks")
    into = call.memory(call.target(tensor))
    call.agree(tensor, None, f"src={from_}")
    return call.run([call.comm.Iscatter(send, into, root=from_)], async_op, [tensor])


def reduce_scatter(
    output: Any,
    input_list: Any,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Combines lists of tensors over all processes; each gets the entry of its rank.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> out = torch.empty(2)
    >>> dist.reduce_scatter(out, [t])
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    call = start("reduce_scatter", group)
    if call is None:
        return None
    call.tensor(output, "output")
    return call.run([_reduce_scatter(call, output, input_list, op)], async_op, [output])


def _reduce_scatter(call: Call, output: Any, input_list: Any, op: Any) -> Any:
    call.tensors(input_list, "input_list")
    _check_length(call, input_list, "input_list")
    _check_dtypes(call, [*input_list, output])
    own = input_list[call.group.rank()]
    if own.numel() != output.numel():
        raise ValueError(
            f"{call.name}: input_list[{call.group.rank()}] has shape {tuple(own.shape)}, but the "
            f"output has shape {tuple(output.shape)}"
        )
    counts = [t.numel() for t in input_list]
    return _scatter_sums(call, output, call.joined_source(input_list), counts, op)


def _scatter_sums(call: Call, output: Any, source: Any, counts: list[int], op: Any) -> Any:
    if getattr(op, "factor", None) is not None:
        source = call.source(source * op.factor)
    operation = call.op(op, output.dtype)
    into = call.target(output)
    call.average(into, op)
    even = len(set(counts)) == 1
    exchange = call.engine.exchange
    if even and exchange is not None and exchange.suits("reduce_scatter", source, op):
        call.agree(source, op)
        return exchange.reduce_scatter(source, into)
    send, memory = call.memory(call.apart(source, into)), call.memory(into)
    if even:
        call.agree(source, op)
        return call.comm.Ireduce_scatter_block(send, memory, op=operation)
    call.agree(source, op, f"counts={counts}")
    return call.comm.Ireduce_scatter(send, memory, counts, op=operation)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """Combines a tensor over all processes; each gets the part of its rank.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> out = torch.empty(2)
    >>> dist.reduce_scatter_tensor(out, t)
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    call = start("reduce_scatter_tensor", group)
    if call is None:
        return None
    call.tensor(output, "output")
    call.tensor(input, "input")
    return call.run([_reduce_scatter_into(call, output, input, op)], async_op, [output])


def _reduce_scatter_into(call: Call, output: Any, input: Any, op: Any) -> Any:
    _check_dtypes(call, [output, input])
    size = call.group.size()
    if input.numel() != output.numel() * size:
        raise ValueError(
            f"{call.name}: input tensor must be the same size as output size times world size: "
            f"{tuple(input.shape)} for {size} × {tuple(output.shape)}"
        )
    return _scatter_sums(call, output, call.source(input), [output.numel()] * size, op)


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Sends the i-th input to rank i, and receives the i-th output from it.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> out = torch.empty(2)
    >>> dist.all_to_all([out], [t])
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    call = start("all_to_all", group)
    if call is None:
        return None
    outputs = call.tensors(output_tensor_list, "output_tensor_list")
    inputs = call.tensors(input_tensor_list, "input_tensor_list")
    _check_length(call, outputs, "output_tensor_list")
    _check_length(call, inputs, "input_tensor_list")
    _check_dtypes(call, [*outputs, *inputs])
    sent, received = [t.numel() for t in inputs], [t.numel() for t in outputs]
    send = call.memory(call.joined_source(inputs), sent)
    into = call.memory(call.joined_target(outputs), received)
    call.agree(None, None, inputs[0].dtype, pairs=_exchanged(sent, received))
    return call.run([call.comm.Ialltoallv(send, into)], async_op, outputs)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Any:
    """Splits a tensor along its first dim, sends a part to each process, joins what comes.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> t = torch.ones(2)
    >>> out = torch.empty(2)
    >>> dist.all_to_all_single(out, t)
    >>> out
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """
    call = start("all_to_all_single", group)
    if call is None:
        return None
    call.tensor(output, "output")
    call.tensor(input, "input")
    _check_dtypes(call, [output, input])
    sent = _counts(call, input, input_split_sizes, "input")
    received = _counts(call, output, output_split_sizes, "output")
    send = call.memory(call.source(input), sent)
    into = call.memory(call.target(output), received)
    call.agree(None, None, input.dtype, pairs=_exchanged(sent, received))
    return call.run([call.comm.Ialltoallv(send, into)], async_op, [output])


def _exchanged(sent: list[int], received: list[int]) -> tuple[str, list[int], list[int]]:
    """What goes to whom, in words and in numbers."""
    return f"sends {sent}, receives {received}", sent, received


def _counts(call: Call, tensor: Any, sizes: Sequence[int] | None, what: str) -> list[int]:
    """How many values go to, or come from, each process."""
    count = call.group.size()
    rows = tensor.shape[0] if tensor.dim() else tensor.numel()
    if not sizes:
        if rows % count != 0:
            raise RuntimeError(
                f"{call.name}: Tensor's dim 0 does not divide equally across group size: "
                f"{what} has {rows} rows for {count} processes"
            )
        sizes = [rows // count] * count
    if len(sizes) != count or sum(sizes) != rows:
        raise RuntimeError(
            f"{call.name}: Split sizes doesn't match total dim 0 size: {list(sizes)} for {what} "
            f"of {rows} rows and {count} processes"
        )
    row = tensor.numel() // rows if rows else 0
    return [int(size) * row for size in sizes]


def barrier(
    group: Any = None,
    async_op: bool = False,
    device_ids: Any = None,
    timeout: timedelta | None = None,
) -> Any:
    """Waits until every process of the group is here.

    >>> import rushlight as torch
    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.barrier()
    >>> dist.destroy_process_group()
    """
    call = start("barrier", group)
    if call is None:
        return None
    call.use("cuda" if device_ids is not None else call.group._main_device())
    call.agree()
    if device_ids and call.engine.device == "cuda":
        request = call.comm.Ibarrier(device_ids[0])
    else:
        request = call.comm.Ibarrier()
    return call.run([request], async_op, timeout=timeout)


def _check_length(call: Call, tensors: Sequence[Any], what: str) -> None:
    if len(tensors) != call.group.size():
        raise ValueError(
            f"{call.name}: {what} must have one tensor for each of the {call.group.size()} "
            f"processes of the group, got {len(tensors)}"
        )


def _check_dtypes(call: Call, tensors: Sequence[Any]) -> None:
    kinds = {t.dtype for t in tensors}
    if len(kinds) > 1:
        raise ValueError(
            f"{call.name}: Invalid usage of tensors with different dtypes: "
            f"{', '.join(sorted(map(str, kinds)))}"
        )


def _check_sizes(call: Call, tensors: Sequence[Any]) -> None:
    if len({t.numel() for t in tensors}) > 1:
        shapes = ", ".join(str(tuple(t.shape)) for t in tensors)
        raise ValueError(f"{call.name}: the tensors must have the same size: {shapes}")
