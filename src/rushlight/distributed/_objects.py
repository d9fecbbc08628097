"""Collectives on any Python objects: they travel pickled."""

from __future__ import annotations

import pickle

from rushlight.distributed import _collectives, _point_to_point
from rushlight.distributed._buffers import Call, root, start

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def _packed(value: Any, device: str) -> Any:
    """An object as a tensor of bytes, on the device that the group's engine takes."""
    import rushlight as torch

    return torch.frombuffer(bytearray(pickle.dumps(value)), dtype=torch.uint8).to(device)


def _unpacked(data: Any) -> Any:
    import ctypes

    data = data.cpu()
    return pickle.loads(ctypes.string_at(data.data_ptr(), data.numel()))


def _number(value: int, device: str) -> Any:
    import rushlight as torch

    return torch.tensor([value], dtype=torch.int64, device=device)


def _bytes(count: int, device: str) -> Any:
    import rushlight as torch

    return torch.empty(int(count), dtype=torch.uint8, device=device)


def _lengths(length: int, call: Call) -> list[int]:
    """The length that each process has."""
    import rushlight as torch

    device = call.group._main_device()
    made = torch.empty(call.group.size(), dtype=torch.int64, device=device)
    _collectives.all_gather_into_tensor(made, _number(length, device), call.group)
    return [int(x) for x in made.tolist()]


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Collects an object of each process in a list, in all of them.

    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> objects = [None]
    >>> dist.all_gather_object(objects, {"rank": 0})
    >>> objects
    [{'rank': 0}]
    >>> dist.destroy_process_group()
    """
    call = start("all_gather_object", group)
    if call is None:
        return
    device = call.group._main_device()
    data = _packed(obj, device)
    parts = [_bytes(n, device) for n in _lengths(data.numel(), call)]
    _collectives.all_gather(parts, data, call.group)
    for i, part in enumerate(parts):
        object_list[i] = _unpacked(part)


def gather_object(
    obj: Any,
    object_gather_list: list[Any] | None = None,
    dst: int | None = None,
    group: Any = None,
    group_dst: int | None = None,
) -> None:
    """Collects an object of each process in a list, in the process of rank ``dst``.

    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> objects = [None]
    >>> dist.gather_object("a", objects, dst=0)
    >>> objects
    ['a']
    >>> dist.destroy_process_group()
    """
    call = start("gather_object", group)
    if call is None:
        return
    to = root(call, dst, group_dst, "dst", 0)
    here = call.group.rank() == to
    if here and object_gather_list is None:
        raise ValueError("gather_object: object_gather_list must be given on rank dst")
    if not here and object_gather_list:
        raise ValueError("gather_object: object_gather_list must not be given on other ranks")
    device = call.group._main_device()
    data = _packed(obj, device)
    lengths = _lengths(data.numel(), call)
    parts = [_bytes(n, device) for n in lengths] if here else None
    _collectives.gather(data, parts, group=call.group, group_dst=to)
    if parts is not None and object_gather_list is not None:
        object_gather_list[:] = [_unpacked(part) for part in parts]


def broadcast_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Copies the objects in a list of rank ``src`` to the lists of all processes.

    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.broadcast_object_list(["a", 1], src=0)
    >>> dist.destroy_process_group()
    """
    call = start("broadcast_object_list", group)
    if call is None:
        return
    from_ = root(call, src, group_src, "src", 0)
    here = call.group.rank() == from_
    on = call.group._main_device()
    data = _packed(list(object_list), on) if here else None
    length = _number(data.numel() if data is not None else 0, on)
    _collectives.broadcast(length, group=call.group, group_src=from_)
    if data is None:
        data = _bytes(int(length.item()), on)
    _collectives.broadcast(data, group=call.group, group_src=from_)
    if not here:
        got = _unpacked(data)
        if len(got) != len(object_list):
            raise ValueError(
                f"broadcast_object_list: rank {call.group._ranks[from_]} sent {len(got)} objects, "
                f"but the list has {len(object_list)}"
            )
        object_list[:] = got


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int | None = None,
    group: Any = None,
    group_src: int | None = None,
) -> None:
    """Hands the objects in a list of rank ``src`` out, one to each process.

    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> got = [None]
    >>> dist.scatter_object_list(got, ["a"], src=0)
    >>> got
    ['a']
    >>> dist.destroy_process_group()
    """
    import rushlight as torch

    call = start("scatter_object_list", group)
    if call is None:
        return
    if not isinstance(scatter_object_output_list, list) or not scatter_object_output_list:
        raise ValueError(
            "Expected argument scatter_object_output_list to be a list of size at least 1."
        )
    from_ = root(call, src, group_src, "src", 0)
    size = call.group.size()
    parts, longest = [], 0
    if call.group.rank() == from_:
        given = scatter_object_input_list or []
        if len(given) != size:
            raise ValueError(f"scatter_object_list: {len(given)} objects for {size} processes")
        parts = [_packed(x, "cpu") for x in given]
        longest = max(p.numel() for p in parts)
    device = call.group._main_device()
    shared = _number(longest, device)
    _collectives.broadcast(shared, group=call.group, group_src=from_)
    longest = int(shared.item())
    rows = [torch.cat([_number(p.numel(), "cpu").view(torch.uint8), p]) for p in parts]
    rows = [torch.cat([r, _bytes(longest + 8 - r.numel(), "cpu")]).to(device) for r in rows]
    own = _bytes(longest + 8, device)
    _collectives.scatter(own, rows or None, group=call.group, group_src=from_)
    own = own.cpu()
    length = int(own[:8].clone().view(torch.int64).item())
    scatter_object_output_list[0] = _unpacked(own[8 : 8 + length])


def send_object_list(
    object_list: list[Any],
    dst: int | None = None,
    group: Any = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Sends the objects in a list to a process.

    >>> import rushlight.distributed as dist
    >>> dist.send_object_list(["a"], dst=1)
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.send(): Default process group has not been initialized...
    """
    call = start("send", group)
    if call is None:
        return
    on = call.group._main_device()
    data = _packed(list(object_list), on)
    _point_to_point.send(_number(data.numel(), on), dst, group, group_dst=group_dst)
    _point_to_point.send(data, dst, group, group_dst=group_dst)


def recv_object_list(
    object_list: list[Any],
    src: int | None = None,
    group: Any = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receives objects into a list; returns the rank that sent them.

    >>> import rushlight.distributed as dist
    >>> dist.recv_object_list([None], src=1)
    Traceback (most recent call last):
        ...
    ValueError: torch.distributed.recv(): Default process group has not been initialized...
    """
    call = start("recv", group)
    if call is None:
        return -1
    on = call.group._main_device()
    length = _number(0, on)
    sender = _point_to_point.recv(length, src, group, group_src=group_src)
    data = _bytes(int(length.item()), on)
    _point_to_point.recv(data, sender, group)
    got = _unpacked(data)
    if len(got) != len(object_list):
        raise ValueError(
            f"recv_object_list: rank {sender} sent {len(got)} objects, but the list has "
            f"{len(object_list)}"
        )
    object_list[:] = got
    return sender
