"""Switches of libraries that a program may set: kept, and without effect on results."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_MODULES = ("cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "opt_einsum", "quantized")

__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        import importlib

        return importlib.import_module(f"rushlight.backends.{name}")
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.backends", name)
