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
    """False."""
    return False


def range_push(msg: str) -> None:
    """Always an error."""
    _refuse("range_push")


def range_pop() -> None:
    """Always an error."""
    _refuse("range_pop")


def mark(msg: str) -> None:
    """Always an error."""
    _refuse("mark")


def range(msg: str, *args: object, **kwargs: object) -> AbstractContextManager[None]:
    """Always an error."""
    _refuse("range")
