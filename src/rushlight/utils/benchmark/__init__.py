"""Measuring how long statements take: ``Timer``, ``Measurement`` and ``Compare``."""

from rushlight.utils.benchmark._compare import Compare as Compare
from rushlight.utils.benchmark._measurement import (
    Measurement as Measurement,
    TaskSpec as TaskSpec,
    ordered_unique as ordered_unique,
    select_unit as select_unit,
    set_torch_threads as set_torch_threads,
    trim_sigfig as trim_sigfig,
    unit_to_english as unit_to_english,
)
from rushlight.utils.benchmark._timer import Timer as Timer, timer as timer

__all__ = [
    "Compare", "Measurement", "TaskSpec", "Timer", "ordered_unique", "select_unit",
    "set_torch_threads", "timer", "trim_sigfig", "unit_to_english",
]  # fmt: skip
