"""Timers of statements."""

from __future__ import annotations

import textwrap
import timeit
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.utils.benchmark._measurement import Measurement, TaskSpec, set_torch_threads


def timer() -> float:
    """Seconds on a clock, after all devices have finished.

    >>> from rushlight.utils.benchmark import timer
    >>> timer() <= timer()
    True
    """
    if rushlight.cuda.is_available():
        rushlight.cuda.synchronize()
    return timeit.default_timer()


class Timer:
    """Measures a statement, with one thread unless told otherwise; ``torch`` is known to it.

    >>> from rushlight.utils.benchmark import Timer
    >>> measured = Timer("x + 1", globals={"x": 1}).timeit(100)
    >>> measured.number_per_run, measured.median > 0
    (100, True)
    """

    _timer_cls = timeit.Timer

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if str(getattr(language, "name", language)).lower() not in ("python", "py"):
            raise ValueError(
                f"Timer: language {language!r} is not supported: statements in C++ need a compiler "
                "and PyTorch's headers; measure Python"
            )
        if global_setup:
            raise ValueError("Timer: global_setup is C++ only: use setup")
        stmt, setup = (textwrap.dedent(text).strip("\n").rstrip() for text in (stmt, setup))
        known = dict(globals or {})
        known.setdefault("torch", rushlight)
        self._timer = self._timer_cls(stmt=stmt, setup=setup, timer=timer, globals=known)
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )

    def _run(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of that many runs, after a few to get warm."""
        with set_torch_threads(self._task_spec.num_threads):
            self._run(max(number // 100, 2))
            return self._measured(number, [self._run(number)])

    def _block(self, seconds: float) -> int:
        """How many runs take this time, so that the clock does not count."""
        number, taken = 1, 0.0
        self._run(2)
        while taken < seconds and number < 10**9:
            taken = self._run(number)
            if taken < seconds:
                number *= 10
        return number

    def blocked_autorange(
        self,
        callback: Callable[[int, float], Any] | None = None,
        min_run_time: float = 0.2,
    ) -> Measurement:
        """Measurements of blocks of runs, for at least this time."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block(min_run_time / 1000)
            times: list[float] = []
            total = 0.0
            while total < min_run_time:
                times.append(self._run(number))
                total += times[-1]
                if callback is not None:
                    callback(number, times[-1])
        return self._measured(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Measurements until their spread is below ``threshold`` of the median, or time is up."""
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block(min(min_run_time, 0.05) / 1000)
            times: list[float] = []
            total = 0.0
            while total < max_run_time:
                times.append(self._run(number))
                total += times[-1]
                if callback is not None:
                    callback(number, times[-1])
                enough = total >= min_run_time and len(times) > 3
                if enough and self._measured(number, times).meets_confidence(threshold):
                    break
        return self._measured(number, times)

    autorange = blocked_autorange

    def collect_callgrind(self, *args: Any, **kwargs: Any) -> Any:
        """Raises: Valgrind is not used. ``timeit`` measures."""
        raise OSError("Timer.collect_callgrind: rushlight does not run Valgrind: use timeit()")
