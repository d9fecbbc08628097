"""Helpers around the core."""

from rushlight.utils import hooks as hooks

TYPE_CHECKING = False  # type checkers read it as True; these are loaded on first use
if TYPE_CHECKING:
    from rushlight.utils import checkpoint as checkpoint
    from rushlight.utils import data as data


def __getattr__(name: str) -> object:
    if name in ("checkpoint", "data"):
        from importlib import import_module

        return import_module(f"rushlight.utils.{name}")
    raise AttributeError(f"module 'rushlight.utils' has no attribute {name!r}")
