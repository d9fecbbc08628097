"""Moving tensors between devices: on one device, cutting and joining them."""

from __future__ import annotations

from rushlight.nn.parallel.scatter_gather import gather as _gather
from rushlight.nn.parallel.scatter_gather import scatter as _scatter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight._C import Tensor

__all__ = ["broadcast", "gather", "reduce_add", "scatter"]


def broadcast(tensor: Tensor, devices: Sequence[Any]) -> tuple[Tensor, ...]:
    """The tensor on each of the devices.

    >>> import rushlight as torch
    >>> torch.nn.parallel.comm.broadcast(torch.ones(1), ["cpu"])
    (tensor([1.]),)
    """
    return tuple(tensor.to(device) for device in devices)


def scatter(tensor: Tensor, devices: Sequence[Any], dim: int = 0) -> tuple[Tensor, ...]:
    """A part of the tensor on each of the devices.

    >>> import rushlight as torch
    >>> torch.nn.parallel.comm.scatter(torch.arange(4), ["cpu", "cpu"])
    (tensor([0, 1]), tensor([2, 3]))
    """
    return tuple(_scatter(tensor, devices, dim))


def gather(tensors: Sequence[Tensor], dim: int = 0, destination: Any = "cpu") -> Tensor:
    """The parts as one tensor.

    >>> import rushlight as torch
    >>> torch.nn.parallel.comm.gather([torch.zeros(1), torch.ones(1)])
    tensor([0., 1.])
    """
    whole: Tensor = _gather(tensors, destination, dim)
    return whole


def reduce_add(inputs: Sequence[Tensor], destination: Any = "cpu") -> Tensor:
    """The sum of the tensors.

    >>> import rushlight as torch
    >>> torch.nn.parallel.comm.reduce_add([torch.ones(2), torch.ones(2)])
    tensor([2., 2.])
    """
    total = inputs[0].to(destination)
    for tensor in inputs[1:]:
        total = total + tensor.to(destination)
    return total
