"""Copies of a module that share its parameters' history."""

from __future__ import annotations

import copy

from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight.nn.modules.module import Module

__all__ = ["replicate"]


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """A copy of the module for each device; gradients of the copies go to the module's parameters.

    >>> import rushlight as torch
    >>> model = torch.nn.Linear(1, 1, bias=False)
    >>> for copy in torch.nn.parallel.replicate(model, ["cpu", "cpu"]):
    ...     copy(torch.ones(1, 1)).sum().backward()
    >>> model.weight.grad
    tensor([[2.]])
    """

    def moved(tensor: Tensor | None, device: Any) -> Any:
        if tensor is None:
            return None
        source = tensor.detach() if detach else tensor
        return source.view_as(source).to(device)

    replicas: list[Module] = []
    for device in devices:
        copies: dict[int, Module] = {}
        for module in network.modules():
            copies[id(module)] = replica = copy.copy(module)
            inner: dict[str, Any] = replica.__dict__
            for kind in ("_modules", "_parameters", "_buffers"):
                inner[kind] = dict(inner[kind])
        for module in network.modules():
            inner = copies[id(module)].__dict__
            for name, child in module._modules.items():
                inner["_modules"][name] = None if child is None else copies[id(child)]
            # Copies are no leaves: they stand beside the parameters, as plain attributes.
            for name, parameter in module._parameters.items():
                del inner["_parameters"][name]
                inner[name] = moved(parameter, device)
            for name, buffer in module._buffers.items():
                inner["_buffers"][name] = moved(buffer, device)
        replicas.append(copies[id(network)])
    return replicas
