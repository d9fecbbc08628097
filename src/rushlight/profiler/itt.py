"""Marks for Intel's VTune, whose library is not part of rushlight."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


def _refuse(name: str) -> NoReturn:
    raise RuntimeError(
        f"itt.{name}: ITT functions not installed. torch.profiler.record_function names a block "
        "in rushlight's own profiler."
    )


def is_available() -> bool:
    """False: the library is not there.

    >>> import rushlight as torch
    >>> torch.profiler.itt.is_available()
    False
    """
    return False


def range_push(msg: str) -> None:
    """Opens a range. Raises: the library is not there.

    >>> import rushlight as torch
    >>> torch.profiler.itt.range_push("step")
    Traceback (most recent call last):
        ...
    RuntimeError: itt.range_push: ITT functions not installed...
    """
    _refuse("range_push")


def range_pop() -> None:
    """Closes the innermost range. Raises: the library is not there.

    >>> import rushlight as torch
    >>> torch.profiler.itt.range_pop()
    Traceback (most recent call last):
        ...
    RuntimeError: itt.range_pop: ITT functions not installed...
    """
    _refuse("range_pop")


def mark(msg: str) -> None:
    """Marks a moment. Raises: the library is not there.

    >>> import rushlight as torch
    >>> torch.profiler.itt.mark("loaded")
    Traceback (most recent call last):
        ...
    RuntimeError: itt.mark: ITT functions not installed...
    """
    _refuse("mark")


def range(msg: str, *args: object, **kwargs: object) -> AbstractContextManager[None]:
    """A range for a block. Raises: the library is not there.

    >>> import rushlight as torch
    >>> torch.profiler.itt.range("step")
    Traceback (most recent call last):
        ...
    RuntimeError: itt.range: ITT functions not installed...
    """
    _refuse("range")
