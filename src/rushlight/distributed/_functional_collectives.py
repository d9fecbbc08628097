"""Collectives that return new tensors, through which gradients flow, by PyTorch's private names.

They are done when they return, so there is nothing to wait for.
"""

from __future__ import annotations

import rushlight
from rushlight import distributed as _dist
from rushlight._C import Tensor
from rushlight.distributed._groups import ProcessGroup, _groups, get_process_group_ranks
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.nn import functional as _functional

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn


class AsyncCollectiveTensor(Tensor):
    """A tensor that is still on its way: nothing is one."""

    def __new__(cls, elem: Any) -> NoReturn:
        raise RuntimeError("AsyncCollectiveTensor: collectives are done when they return")


def _resolve_group(group: Any, tag: str = "") -> ProcessGroup:
    """The group that a group, its name, its ranks or a mesh (with a dimension) stands for."""
    if isinstance(group, ProcessGroup):
        return group
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise ValueError(
                f"a mesh of {group.ndim} dimensions is no group: give (mesh, dim) or get_group(dim)"
            )
        return group.get_group(0)
    if isinstance(group, tuple) and len(group) == 2 and isinstance(group[0], DeviceMesh):
        return group[0].get_group(group[1])
    if isinstance(group, str) and group in _groups:
        return _groups[group]
    if isinstance(group, list) and group and all(isinstance(rank, int) for rank in group):
        for made in _groups.values():
            if get_process_group_ranks(made) == group:
                return made
    raise ValueError(f"no process group is {group!r}: make one with torch.distributed.new_group")


def _op(name: str) -> Any:
    names = {"sum": "SUM", "avg": "AVG", "product": "PRODUCT", "min": "MIN", "max": "MAX",
             "band": "BAND", "bor": "BOR", "bxor": "BXOR"}  # fmt: skip
    if name.lower() not in names:
        raise ValueError(f"unknown reduction {name!r}: one of {', '.join(names)}")
    return getattr(_dist.ReduceOp, names[name.lower()])


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself."""
    return tensor


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """The tensor of the process of global rank ``src``."""
    found: Tensor = _functional.broadcast(self, src, _resolve_group(group, tag))
    return found


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The sum, or another combination, of everyone's tensors."""
    found: Tensor = _functional.all_reduce(self, _op(reduceOp), _resolve_group(group, tag))
    return found


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """Everyone's tensors, one after the other along a dimension."""
    parts = _functional.all_gather(self.contiguous(), _resolve_group(group, tag))
    return rushlight.cat(parts, gather_dim)


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """This process's part, along a dimension, of the sum of everyone's tensors."""
    members = _resolve_group(group, tag)
    if self.size(scatter_dim) % members.size() != 0:
        raise RuntimeError(
            f"reduce_scatter_tensor: {self.size(scatter_dim)} rows are no multiple of the "
            f"{members.size()} processes"
        )
    parts = [part.contiguous() for part in self.chunk(members.size(), scatter_dim)]
    found: Tensor = _functional.reduce_scatter(parts[0], parts, _op(reduceOp), members)
    return found


def all_to_all_single(
    self: Tensor,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any,
    tag: str = "",
) -> Tensor:
    """Rows are sent to every process, and what they send is joined."""
    members = _resolve_group(group, tag)
    rows = self.shape[0] if output_split_sizes is None else sum(output_split_sizes)
    out = self.new_empty((rows, *self.shape[1:]))
    found: Tensor = _functional.all_to_all_single(
        out, self, output_split_sizes, input_split_sizes, members
    )
    return found


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """Process i sends its tensor to process ``src_dst[i]``."""
    members = _resolve_group(group, tag)
    own, flat = members.rank(), self.reshape(-1)
    sent, received = [0] * members.size(), [0] * members.size()
    sent[src_dst[own]] = flat.numel()
    received[list(src_dst).index(own)] = flat.numel()
    return all_to_all_single(flat, received, sent, members).reshape(self.shape)


def all_reduce_coalesced(
    self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = ""
) -> list[Tensor]:
    """``all_reduce`` of each tensor."""
    return [all_reduce(each, reduceOp, group, tag) for each in self]


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: Any, tag: str = ""
) -> list[Tensor]:
    """``all_gather_tensor`` of each tensor, along its first dimension."""
    return [all_gather_tensor(each, 0, group, tag) for each in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """``reduce_scatter_tensor`` of each tensor."""
    return [
        reduce_scatter_tensor(each, reduceOp, dim, group, tag)
        for each, dim in zip(inputs, scatter_dim, strict=True)
    ]


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
