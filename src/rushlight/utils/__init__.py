"""Helpers around the core."""

from rushlight.utils import hooks as hooks

TYPE_CHECKING = False  # type checkers read it as True; checkpoint is loaded on first use
if TYPE_CHECKING:
    from rushlight.utils import checkpoint as checkpoint


def __getattr__(name: str) -> object:
    if name == "checkpoint":
        from importlib import import_module

        return import_module("rushlight.utils.checkpoint")
    raise AttributeError(f"module 'rushlight.utils' has no attribute {name!r}")
