"""Helpers around the core."""

from rushlight.utils import hooks as hooks

TYPE_CHECKING = False  # type checkers read it as True; these are loaded on first use
if TYPE_CHECKING:
    from rushlight.utils import checkpoint as checkpoint
    from rushlight.utils import data as data
    from rushlight.utils import deterministic as deterministic
    from rushlight.utils import dlpack as dlpack


_MODULES = (
    "_pytree", "_python_dispatch", "checkpoint", "data", "deterministic", "dlpack", "flop_counter",
    "tensorboard", "weak",
)  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _MODULES:
        from importlib import import_module

        return import_module(f"rushlight.utils.{name}")
    if name == "swap_tensors":
        from rushlight.utils._swapping import swap_tensors

        return swap_tensors
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.utils", name)
