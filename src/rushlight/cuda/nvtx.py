"""Marks for NVIDIA's profilers: nobody reads them here, and ranges may stay in a program."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_depth = 0


def range_push(msg: str) -> int:
    """Opens a range; returns its depth from 0."""
    global _depth
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """Closes the innermost range; returns its depth."""
    global _depth
    _depth = max(_depth - 1, 0)
    return _depth


def range_start(msg: str) -> int:
    """Opens a range that another thread may close."""
    return 0


def range_end(range_id: int) -> None:
    """Closes a range that ``range_start`` opened."""


def mark(msg: str) -> None:
    """Marks a moment."""


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """``with range(text):`` pushes and pops."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
