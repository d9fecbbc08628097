"""Recorded work of CUDA devices: names, which raise when used."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> Any:
    from rushlight import cuda

    return getattr(cuda, name)
