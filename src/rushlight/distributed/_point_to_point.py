"""Messages from one process to another."""

from __future__ import annotations

from rushlight.distributed._buffers import Call, root, start

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def isend(
    tensor: Any,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Any:
    """Sends a tensor to a process; returns a ``Work``.

    >>> import rushlight as torch
    >>> torch.distributed.isend(torch.ones(2), 1)
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.isend(): Default process group has not been initialized...
    """
    call = start("isend", group)
    return None if call is None else _send(call, tensor, dst, tag, group_dst, True)


def send(
    tensor: Any,
    dst: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Sends a tensor to a process; returns when the tensor may be changed.

    >>> import rushlight as torch
    >>> torch.distributed.send(torch.ones(2), 1)
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.send(): Default process group has not been initialized...
    """
    call = start("send", group)
    if call is not None:
        _send(call, tensor, dst, tag, group_dst, False)


def _send(
    call: Call, tensor: Any, dst: int | None, tag: int, group_dst: int | None, async_op: bool
) -> Any:
    call.tensor(tensor)
    to = root(call, dst, group_dst, "dst")
    _not_self(call, to, "destination")
    request = call.comm.Isend(call.memory(call.source(tensor)), dest=to, tag=tag)
    return call.run([request], async_op, [tensor])


def irecv(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Any:
    """Receives a tensor from a process, or from any; returns a ``Work``.

    >>> import rushlight as torch
    >>> torch.distributed.irecv(torch.ones(2), 1)
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.irecv(): Default process group has not been initialized...
    """
    call = start("irecv", group)
    return None if call is None else _receive(call, tensor, src, tag, group_src)


def recv(
    tensor: Any,
    src: int | None = None,
    group: Any = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receives a tensor from a process, or from any; returns the rank that sent it.

    >>> import rushlight as torch
    >>> torch.distributed.recv(torch.ones(2), 1)
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.recv(): Default process group has not been initialized...
    """
    call = start("recv", group)
    if call is None:
        return -1
    return int(_receive(call, tensor, src, tag, group_src).source_rank())


def _receive(call: Call, tensor: Any, src: int | None, tag: int, group_src: int | None) -> Any:
    call.tensor(tensor)
    into = call.target(tensor)
    from_ = None
    if src is not None or group_src is not None:
        from_ = root(call, src, group_src, "src")
        _not_self(call, from_, "source")
    request, status = call.engine.receive(call, into, from_, tag)
    return call.run([request], True, [tensor], status)


def _not_self(call: Call, rank: int, what: str) -> None:
    if rank == call.group.rank():
        raise ValueError(
            f"{call.name}: Invalid {what} rank: {what} rank should not be the same as the rank of "
            f"the current process: {call.group._ranks[rank]}"
        )


class P2POp:
    """A message for ``batch_isend_irecv``: ``isend`` or ``irecv``, a tensor and the other rank.

    >>> import rushlight.distributed as dist
    >>> import rushlight as torch
    >>> dist.P2POp(dist.isend, torch.ones(2), peer=1)
    P2POp(isend peer=1, (2,))
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Any,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(
                f"Invalid ``op``: {op!r}. Expected ``op`` to be of type "
                "``torch.distributed.isend`` or ``torch.distributed.irecv``."
            )
        self.op = op
        self.tensor = tensor
        self.peer = peer
        self.group = group
        self.tag = tag
        self.group_peer = group_peer

    def __repr__(self) -> str:
        return f"P2POp({self.op.__name__} peer={self.peer}, {tuple(self.tensor.shape)})"


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Any]:
    """Starts messages in both directions; returns their ``Work`` handles.

    >>> import rushlight as torch
    >>> torch.distributed.batch_isend_irecv([])
    Traceback (most recent call last):
        ...
    ValueError: Invalid ``p2p_op_list``...
    """
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type "
            "``torch.distributed.P2POp``."
        )
    if len({id(op.group) for op in p2p_op_list}) > 1:
        raise ValueError("batch_isend_irecv: all ops need to use the same group.")
    call = start("batch_isend_irecv", p2p_op_list[0].group)
    if call is None:
        return []
    peers = []
    for op in p2p_op_list:
        call.tensor(op.tensor)
        if op.peer is not None or op.group_peer is not None:
            peers.append(root(call, op.peer, op.group_peer, "peer"))
    others = sorted(set(peers) - {call.group.rank()})
    for device in dict.fromkeys(op.tensor.device for op in p2p_op_list):
        call.engine.meet(call, others, device)
    works = []
    for op in p2p_op_list:
        peer = {"group_dst" if op.op is isend else "group_src": op.group_peer}
        works.append(op.op(op.tensor, op.peer, op.group, op.tag, **peer))
    return works
