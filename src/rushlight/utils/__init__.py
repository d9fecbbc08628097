"""Helpers around the core."""

from __future__ import annotations

from rushlight.utils import hooks as hooks

TYPE_CHECKING = False  # type checkers read it as True; these are loaded on first use
if TYPE_CHECKING:
    from typing import Any

    from rushlight.utils import checkpoint as checkpoint
    from rushlight.utils import data as data
    from rushlight.utils import deterministic as deterministic
    from rushlight.utils import dlpack as dlpack


_MODULES = (
    "_pytree", "_python_dispatch", "checkpoint", "data", "deterministic", "dlpack", "flop_counter",
    "tensorboard", "weak",
)  # fmt: skip


def _set_module(obj: Any, mod: str) -> None:
    """Makes an object say that it is of another module."""
    if not isinstance(mod, str):
        raise TypeError(f"The mod argument should be a string, got {type(mod).__name__}")
    obj.__module__ = mod


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"rushlight.utils.{name}")
    if name == "swap_tensors":
        from rushlight.utils._swapping import swap_tensors

        return swap_tensors
    if name == "set_module":
        return _set_module
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.utils", name)
