"""Reading files that the user trusts: Python's own unpickler, with PyTorch's names understood."""

from __future__ import annotations

import os
import pickle
from importlib import import_module
from pickle import UnpicklingError
from typing import Any

from rushlight._serialization.allowed import known, missing_from_rushlight

_forced = False


def get_force_weights_only() -> bool:
    """Whether ``load(weights_only=False)`` is forbidden in this process.

    >>> import rushlight as torch
    >>> torch.serialization.get_force_weights_only()
    False
    """
    return _forced or _is_on("TORCH_FORCE_WEIGHTS_ONLY_LOAD")


def set_force_weights_only(forced: bool) -> None:
    """Has ``load`` take ``weights_only=False`` for True, whoever says it.

    The environment variable ``TORCH_FORCE_WEIGHTS_ONLY_LOAD=1`` does the same from outside.

    >>> import rushlight as torch
    >>> torch.serialization.set_force_weights_only(True)
    >>> torch.serialization.get_force_weights_only()
    True
    >>> torch.serialization.set_force_weights_only(False)
    """
    global _forced
    _forced = bool(forced)


def _is_on(variable: str) -> bool:
    return os.environ.get(variable, "0").lower() in ("1", "y", "yes", "true")


def is_trusted(weights_only: bool | None, pickle_module: Any) -> bool:
    """Whether a file may run code, from what the caller of ``load`` and the environment say."""
    forced, freed = get_force_weights_only(), _is_on("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    if forced and freed:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` or `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` "
            "should be set, but both were set."
        )
    if weights_only is None:
        weights_only = not freed and pickle_module is None
    if (weights_only or forced) and pickle_module is not None:
        raise RuntimeError(
            "Can not safely load weights when explicit pickle_module is specified; say "
            "weights_only=False if you trust the file"
        )
    return not weights_only and not forced


def unpickler(file: Any, persistent_load: Any, module: Any = None, **options: Any) -> Any:
    """An unpickler of ``module``, or Python's, that finds PyTorch's names in rushlight."""
    base = pickle.Unpickler if module is None else module.Unpickler

    class Unpickler(base):  # type: ignore[misc, valid-type]
        def find_class(self, module: str, name: str) -> Any:
            found = known(f"{module}.{name}")
            if found is not None:
                return found
            if module.partition(".")[0] == "torch":
                return _of_torch(module, name)
            return super().find_class(module, name)

        def persistent_load(self, identity: Any) -> Any:
            return persistent_load(identity)

    return Unpickler(file, **options)


# PyTorch keeps its functions of C++ in a module and a class without counterparts here.
_HOMES = {"torch._C._nn": "torch.nn.functional", "torch._C._VariableFunctionsClass": "torch"}


def _of_torch(module: str, name: str) -> Any:
    """What rushlight has for a name of PyTorch: in the same place, or in a package around it."""
    if f"{module}.{name}" in _HOMES:
        return import_module("rushlight")
    place = "rushlight" + _HOMES.get(module, module)[5:]
    while place:
        try:
            value: Any = import_module(place)
            for part in name.split("."):
                value = getattr(value, part)
            return value
        except (ImportError, AttributeError):
            place = place.rpartition(".")[0]
    raise UnpicklingError(missing_from_rushlight(f"{module}.{name}"))
