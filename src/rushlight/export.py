"""Whole programs as graphs is left out: the names are here to say what to use instead.

>>> import rushlight as torch
>>> torch.export.export(torch.nn.ReLU(), (torch.ones(1),))
Traceback (most recent call last):
    ...
RuntimeError: torch.export.export: rushlight has no exported programs: ...
"""

from __future__ import annotations

import enum

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = [
    "Dim", "ExportedProgram", "draft_export", "export", "export_for_training", "load",
    "register_dataclass", "save", "unflatten",
]  # fmt: skip


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"torch.export.{name}: rushlight has no exported programs: use torch.fx.symbolic_trace for "
        "a graph of a module, and torch.save(model.state_dict()) to store it"
    )


class ExportedProgram:
    """A program as a graph: nothing is one, so that ``isinstance`` can be asked.

    >>> import rushlight as torch
    >>> isinstance(torch.nn.ReLU(), torch.export.ExportedProgram)
    False
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("ExportedProgram")


class Dim:
    """A size that may vary: libraries state them beside their models.

    >>> import rushlight as torch
    >>> torch.export.Dim("batch", min=1, max=64).__name__
    'batch'
    """

    class _Hint(enum.Enum):
        AUTO = enum.auto()
        STATIC = enum.auto()
        DYNAMIC = enum.auto()

    AUTO = _Hint.AUTO
    STATIC = _Hint.STATIC
    DYNAMIC = _Hint.DYNAMIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        least, most = 0 if min is None else min, float("inf") if max is None else max
        if most <= least:
            raise ValueError(
                f"Cannot create Dim with inconsistent min={min}, max={max}: max must be larger"
            )
        if not name.isidentifier():
            raise ValueError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min = least
        self.max = most


def export(mod: Any, args: Any, kwargs: Any = None, **options: Any) -> NoReturn:
    """Raises: there are no exported programs.

    >>> import rushlight as torch
    >>> torch.export.export(torch.nn.ReLU(), (torch.ones(1),))
    Traceback (most recent call last):
        ...
    RuntimeError: torch.export.export: rushlight has no exported programs: ...
    """
    _refuse("export")


def export_for_training(mod: Any, args: Any, kwargs: Any = None, **options: Any) -> NoReturn:
    """Raises: there are no exported programs.

    >>> import rushlight as torch
    >>> torch.export.export_for_training(torch.nn.ReLU(), (torch.ones(1),))
    Traceback (most recent call last):
        ...
    RuntimeError: torch.export.export_for_training: rushlight has no exported programs: ...
    """
    _refuse("export_for_training")


def draft_export(mod: Any, args: Any, kwargs: Any = None, **options: Any) -> NoReturn:
    """Raises: there are no exported programs.

    >>> import rushlight as torch
    >>> torch.export.draft_export(torch.nn.ReLU(), (torch.ones(1),))
    Traceback (most recent call last):
        ...
    RuntimeError: torch.export.draft_export: rushlight has no exported programs: ...
    """
    _refuse("draft_export")


def save(ep: Any, f: Any, **options: Any) -> NoReturn:
    """Raises: there are no exported programs.

    >>> import rushlight as torch
    >>> torch.export.save(None, "program.pt2")
    Traceback (most recent call last):
        ...
    RuntimeError: torch.export.save: rushlight has no exported programs: ...
    """
    _refuse("save")


def load(f: Any, **options: Any) -> NoReturn:
    """Raises: there are no exported programs.

    >>> import rushlight as torch
    >>> torch.export.load("program.pt2")
    Traceback (most recent call last):
        ...
    RuntimeError: torch.export.load: rushlight has no exported programs: ...
    """
    _refuse("load")


def unflatten(module: Any, flat_args_adapter: Any = None) -> NoReturn:
    """Raises: there are no exported programs.

    >>> import rushlight as torch
    >>> torch.export.unflatten(None)
    Traceback (most recent call last):
        ...
    RuntimeError: torch.export.unflatten: rushlight has no exported programs: ...
    """
    _refuse("unflatten")


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Lets objects of a data class be seen as containers of their fields.

    >>> import rushlight as torch
    >>> from dataclasses import dataclass
    >>> @dataclass
    ... class Batch:
    ...     x: torch.Tensor
    >>> torch.export.register_dataclass(Batch)
    """
    from rushlight.utils import _pytree

    _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)
