"""Names in files: which are known, which the user allows, and what to say of the others."""

from __future__ import annotations

import _compat_pickle
import sys
from collections.abc import Callable, Sequence
from pickle import UnpicklingError
from typing import Any

from rushlight._serialization.building import CLASSES, VALUES

Allowed = Callable[..., Any] | tuple[Callable[..., Any], str]

_extra: list[Allowed] = []


def add_safe_globals(safe_globals: Sequence[Allowed]) -> None:
    """Lets ``load`` call these classes and functions when a file names them.

    An item is a class or function, or a pair of it and the full name that files give it. What is
    allowed runs with the arguments that the file states: allow only what you trust with any.

    >>> import fractions, io, rushlight as torch
    >>> file = io.BytesIO()
    >>> torch.save(fractions.Fraction(1, 3), file)
    >>> torch.serialization.add_safe_globals([fractions.Fraction])
    >>> _ = file.seek(0)
    >>> torch.load(file)
    Fraction(1, 3)
    >>> torch.serialization.clear_safe_globals()
    """
    for item in safe_globals:
        _name(item)
    _extra.extend(item for item in safe_globals if item not in _extra)


def get_safe_globals() -> list[Allowed]:
    """What ``add_safe_globals`` added.

    >>> import rushlight as torch
    >>> from fractions import Fraction
    >>> torch.serialization.add_safe_globals([Fraction])
    >>> Fraction in torch.serialization.get_safe_globals()
    True
    >>> torch.serialization.clear_safe_globals()
    """
    return list(_extra)


def clear_safe_globals() -> None:
    """Takes back all that ``add_safe_globals`` allowed.

    >>> import rushlight as torch
    >>> torch.serialization.clear_safe_globals()
    >>> torch.serialization.get_safe_globals()
    []
    """
    _extra.clear()


class safe_globals:
    """``add_safe_globals`` for the length of a ``with`` block.

    >>> import rushlight as torch
    >>> import io
    >>> from fractions import Fraction
    >>> file = io.BytesIO()
    >>> torch.save(Fraction(1, 3), file)
    >>> _ = file.seek(0)
    >>> with torch.serialization.safe_globals([Fraction]):
    ...     torch.load(file)
    Fraction(1, 3)
    """

    def __init__(self, safe_globals: Sequence[Allowed]) -> None:
        self._items = list(safe_globals)

    def __enter__(self) -> safe_globals:
        self._before = list(_extra)
        add_safe_globals(self._items)
        return self

    def __exit__(self, *error: Any) -> None:
        _extra[:] = self._before


def _name(item: Allowed) -> str:
    if isinstance(item, tuple):
        if len(item) != 2 or not callable(item[0]) or not isinstance(item[1], str):
            raise TypeError(f"expected a pair of a class or function and its name, got {item!r}")
        return item[1]
    if not callable(item) or not hasattr(item, "__qualname__"):
        raise TypeError(f"expected a class or function, got {item!r}")
    return f"{item.__module__}.{item.__qualname__}"


def allowed_globals() -> dict[str, Any]:
    """What the user allowed, by every name that a file may use for it."""
    table: dict[str, Any] = {}
    for item in _extra:
        value = item[0] if isinstance(item, tuple) else item
        name = _name(item)
        table[name] = value
        if name.startswith("rushlight."):
            table["torch." + name.removeprefix("rushlight.")] = value
        elif name.startswith("torch."):
            table["rushlight." + name.removeprefix("torch.")] = value
    return table


def python3_name(module: str, name: str) -> tuple[str, str]:
    """The name in Python 3 of what a pickle of protocol 2 or less calls by its older name."""
    if (module, name) in _compat_pickle.NAME_MAPPING:
        return _compat_pickle.NAME_MAPPING[module, name]
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


def known(full_name: str) -> Any:
    """The value of a name that every file may use, or None."""
    found = VALUES.get(full_name)
    return CLASSES.get(full_name) if found is None else found


class UnknownGlobal(UnpicklingError):
    """A file names what is neither known nor allowed."""

    def __init__(self, names: Sequence[str], forced: bool = False) -> None:
        super().__init__("\n".join(_explanation(names, forced)))
        self.names = names


def _explanation(names: Sequence[str], forced: bool) -> list[str]:
    first = names[0]
    lines = [
        f"Weights only load failed. Unsupported global: GLOBAL {first} was not an allowed global "
        "by default. The file asks for it to be called, and load runs nothing that a file names."
    ]
    hint = missing_from_rushlight(first, "")
    if any(name.startswith("torch.nn.") or "Module" in _bases(name) for name in names):
        lines.append(
            "The file holds a whole module, which is a recipe for running code. Better save "
            "model.state_dict() and load it with model.load_state_dict(torch.load(path))."
        )
    elif hint:
        lines.append(hint)
    shown = ", ".join(name.removeprefix("builtins.") for name in names)
    lines.append(
        f"Please use `torch.serialization.add_safe_globals([{shown}])` or the "
        f"`torch.serialization.safe_globals([{shown}])` context manager to allowlist "
        f"{'this global' if len(names) == 1 else 'these globals'} if you trust "
        f"{'it' if len(names) == 1 else 'them'} and the file."
    )
    if forced:
        lines.append(
            "weights_only=False is forbidden in this process: by the environment variable "
            "TORCH_FORCE_WEIGHTS_ONLY_LOAD, or by torch.serialization.set_force_weights_only."
        )
    else:
        lines.append(
            "Or load it with `weights_only=False`, if you got the file from a source that you "
            "trust: it may then run any code."
        )
    return lines


def missing_from_rushlight(full_name: str, otherwise: str | None = None) -> str:
    """What to say of a name of PyTorch that rushlight has nothing for."""
    if full_name.startswith("torch._utils._rebuild_"):
        return f"{full_name} makes a kind of tensor that rushlight does not have."
    if full_name.startswith(("torch.bits", "torch.float", "torch.int", "torch.q", "torch.uint")):
        return f"{full_name} is a dtype that rushlight does not have."
    if otherwise is not None:
        return otherwise
    return f"The file names {full_name}, which rushlight does not have."


def _resolve_loaded(module: str, name: str) -> Any:
    """The object of that name where its module is loaded already; nothing is imported."""
    value: Any = sys.modules.get(module)
    for part in name.split("."):
        value = getattr(value, "__dict__", {}).get(part)
    return value


def _bases(full_name: str) -> list[str]:
    """The names of the classes that a class derives from; none where it is not loaded."""
    module, _, name = full_name.rpartition(".")
    kind = _resolve_loaded(module, name)
    return [base.__name__ for base in kind.__mro__] if isinstance(kind, type) else []
