"""Modules without initial values."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["skip_init"]


def skip_init(module_cls: type, *args: Any, **kwargs: Any) -> Any:
    """A module whose parameters have undefined content; no random number is drawn for it.

    >>> import rushlight as torch
    >>> layer = torch.nn.utils.skip_init(torch.nn.Linear, 20, 30)
    >>> layer.weight.shape
    torch.Size([30, 20])
    """
    from inspect import signature

    from rushlight.nn.modules.module import Module
    from rushlight.random import fork_rng

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    with fork_rng():
        module = module_cls(*args, **kwargs)
    return module.to_empty(device=kwargs.get("device", "cpu"))
