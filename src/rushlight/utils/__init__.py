"""Helpers around the core."""

from rushlight.utils import hooks as hooks

TYPE_CHECKING = False  # type checkers read it as True; these are loaded on first use
if TYPE_CHECKING:
    from rushlight.utils import checkpoint as checkpoint
    from rushlight.utils import data as data
    from rushlight.utils import deterministic as deterministic
    from rushlight.utils import dlpack as dlpack


def __getattr__(name: str) -> object:
    if name in ("checkpoint", "data", "deterministic", "dlpack"):
        from importlib import import_module

        return import_module(f"rushlight.utils.{name}")
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.utils", name)
