"""Marks for NVIDIA's profilers: nobody reads them here, and ranges may stay in a program."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]

_depth = 0


def range_push(msg: str) -> int:
    """Opens a range; returns its depth from 0.

    >>> import rushlight as torch
    >>> torch.cuda.nvtx.range_push("epoch"), torch.cuda.nvtx.range_push("step")
    (0, 1)
    >>> torch.cuda.nvtx.range_pop(), torch.cuda.nvtx.range_pop()
    (1, 0)
    """
    global _depth
    _depth += 1
    return _depth - 1


def range_pop() -> int:
    """Closes the innermost range; returns its depth.

    >>> import rushlight as torch
    >>> _ = torch.cuda.nvtx.range_push("step")
    >>> torch.cuda.nvtx.range_pop()
    0
    """
    global _depth
    _depth = max(_depth - 1, 0)
    return _depth


def range_start(msg: str) -> int:
    """Opens a range that another thread may close.

    >>> import rushlight as torch
    >>> number = torch.cuda.nvtx.range_start("copy")
    >>> torch.cuda.nvtx.range_end(number)
    """
    return 0


def range_end(range_id: int) -> None:
    """Closes a range that ``range_start`` opened.

    >>> import rushlight as torch
    >>> torch.cuda.nvtx.range_end(torch.cuda.nvtx.range_start("copy"))
    """


def mark(msg: str) -> None:
    """Marks a moment.

    >>> import rushlight as torch
    >>> torch.cuda.nvtx.mark("loaded")
    """


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """``with range(text):`` pushes and pops.

    >>> import rushlight as torch
    >>> with torch.cuda.nvtx.range("step {}", 1):
    ...     torch.ones(2)
    tensor([1., 1.])
    """
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
