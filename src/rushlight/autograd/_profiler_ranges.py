"""The ranges that a running profiler adds by itself: the steps of optimizers."""

from __future__ import annotations

import sys
from typing import Any

from rushlight import _C


class StepRanges:
    """``Optimizer.step#SGD.step`` around each step, while it is installed."""

    def __init__(self) -> None:
        self._open: list[int | None] = []
        self._handles: list[Any] = []

    def install(self) -> None:
        """Nothing in a program that has no optimizers."""
        optim = sys.modules.get("rushlight.optim.optimizer")
        if optim is not None and not self._handles:
            self._handles = [
                optim.register_optimizer_step_pre_hook(self._begin),
                optim.register_optimizer_step_post_hook(self._end),
            ]

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()
        self._open.clear()

    def _begin(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._open.append(_C._profile_begin(f"Optimizer.step#{type(optimizer).__name__}.step"))

    def _end(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        _C._profile_end(self._open.pop() if self._open else None)
