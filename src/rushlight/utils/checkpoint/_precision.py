"""Mixed precision as it was in the forward pass, for a recomputation."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rushlight import _C


def precision() -> tuple[Any, ...]:
    """The state of mixed precision now."""
    return _C._is_autocast(), _C._autocast_dtype(), _C._is_autocast_cached()


def under(state: tuple[Any, ...]) -> AbstractContextManager[Any]:
    """A block in which mixed precision is as ``precision()`` found it then."""
    if state == precision():
        return nullcontext()
    from rushlight.amp import autocast

    enabled, dtype, cached = state
    return autocast("cpu", dtype, enabled, cached)
