"""What was measured, and the statistics of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

_UNITS = {"ns": ("nanosecond", 1e-9), "us": ("microsecond", 1e-6), "ms": ("millisecond", 1e-3),
          "s": ("second", 1.0)}  # fmt: skip


@dataclass(frozen=True)
class TaskSpec:
    """What was run, and how it is called in tables.

    >>> from rushlight.utils.benchmark import TaskSpec
    >>> TaskSpec("x + 1", "x = 1", label="adding", sub_label="ints").title
    'adding: ints'
    """

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label and the sublabel, or else the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        if "\n" not in self.stmt:
            return self.stmt
        return f"stmt:\n  {'  '.join(self.stmt.splitlines(keepends=True))}"

    def summarize(self) -> str:
        """The title and what else is known of it."""
        parts = [self.title, self.description or ""]
        if self.setup and self.setup != "pass":
            parts.append(
                f"setup:\n  {self.setup}" if "\n" in self.setup else f"setup: {self.setup}"
            )
        return "\n".join(part for part in parts if part)


def _quantile(values: list[float], q: float) -> float:
    at = q * (len(values) - 1)
    low, high = math.floor(at), math.ceil(at)
    return values[low] + (values[high] - values[low]) * (at - low)


@dataclass(repr=False)
class Measurement:
    """Seconds that runs took; each of ``raw_times`` is of ``number_per_run`` runs.

    >>> from rushlight.utils.benchmark import Measurement, TaskSpec
    >>> m = Measurement(10, [1e-5, 1.2e-5, 1.1e-5], TaskSpec("f()", "pass"))
    >>> f"{m.median:.1e}", m.significant_figures
    ('1.1e-06', 1)
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None, compare=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "task_spec" not in self.__dict__:
            raise AttributeError(f"'Measurement' object has no attribute '{name}'")
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of one run, for each measurement."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def _sorted(self) -> list[float]:
        if not self.raw_times:
            raise ValueError("Measurement: there are no times")
        return sorted(self.times)

    @property
    def median(self) -> float:
        """The median of the times of a run."""
        return _quantile(self._sorted, 0.5)

    @property
    def mean(self) -> float:
        """The mean of the times of a run."""
        return sum(self._sorted) / len(self.raw_times)

    @property
    def iqr(self) -> float:
        """The range of the middle half of the times."""
        return _quantile(self._sorted, 0.75) - _quantile(self._sorted, 0.25)

    @property
    def significant_figures(self) -> int:
        """How many digits of the median mean something, by the spread of the times."""
        count, total = len(self.raw_times), sum(self._sorted)
        if count < 4:  # too few for a spread
            spread = (self._sorted[-1] - self._sorted[0]) if count > 1 else 0.0
        else:
            spread = self.iqr / 1.35
        error = spread / math.sqrt(count) * 1.645
        if not total or error <= 0:
            return 2 if count == 1 else 4
        return max(1, min(4, round(-math.log10(error / self.median))))

    @property
    def has_warnings(self) -> bool:
        """Whether the times are spread too far to be trusted."""
        return not self.meets_confidence()

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the middle half lies within this part of the median."""
        return self.iqr <= threshold * self.median

    @property
    def title(self) -> str:
        """The title of the task."""
        return self.task_spec.title

    @property
    def env(self) -> str:
        """Where it ran, as the program said."""
        return self.task_spec.env or "Unspecified env"

    @property
    def as_row_name(self) -> str:
        """What a table calls it."""
        return self.sub_label or self.stmt or "[Unknown]"

    def __repr__(self) -> str:
        unit, scale = select_unit(self.median)
        count = len(self.raw_times)
        plural = "" if count == 1 else "s"
        lines = [f"<{type(self).__module__}.Measurement object at {id(self):#x}>"]
        lines.append(self.task_spec.summarize())
        if count == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}")
            runs = f"{self.number_per_run} runs "
        else:
            first, last = _quantile(self._sorted, 0.25), _quantile(self._sorted, 0.75)
            lines.append(f"  Median: {self.median / scale:.2f} {unit}")
            middle = f"({first / scale:.2f} to {last / scale:.2f})"
            lines.append(f"  IQR:    {self.iqr / scale:.2f} {unit} {middle}")
            runs = f"{self.number_per_run} runs per measurement"
        threads = f"{self.num_threads} thread{'' if self.num_threads == 1 else 's'}"
        lines.append(f"  {count} measurement{plural}, {runs}, {threads}")
        if self.has_warnings:
            part = 100 * self.iqr / self.median
            lines.append(f"  WARNING: the middle half of the times is {part:.1f}% of the median:")
            lines.append("           something else was running, too.")
        return "\n".join(lines)

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """The measurements of each task as one."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        merged = []
        for task, group in groups.items():
            number = group[0].number_per_run
            times = [t * number for m in group for t in m.times]
            merged.append(Measurement(number, times, task))
        return merged


def select_unit(t: float) -> tuple[str, float]:
    """A unit of time that suits, and its seconds.

    >>> from rushlight.utils.benchmark import select_unit
    >>> select_unit(3e-5)
    ('us', 1e-06)
    """
    power = math.floor(math.log10(t) / 3) * 3 if t > 0 else 0
    unit = {-9: "ns", -6: "us", -3: "ms"}.get(max(power, -9), "s")
    return unit, _UNITS[unit][1]


def unit_to_english(u: str) -> str:
    """The name of a unit of time.

    >>> from rushlight.utils.benchmark import unit_to_english
    >>> unit_to_english("ms")
    'millisecond'
    """
    return _UNITS[u][0]


def trim_sigfig(x: float, n: int) -> float:
    """A number with that many digits kept.

    >>> from rushlight.utils.benchmark import trim_sigfig
    >>> trim_sigfig(123456.0, 2)
    120000.0
    """
    if not x:
        return 0.0
    scale = 10 ** (math.floor(math.log10(abs(x))) + 1 - n)
    return float(round(x / scale) * scale)


def ordered_unique(elements: Iterable[Any]) -> list[Any]:
    """The elements without repetition, in their order.

    >>> from rushlight.utils.benchmark import ordered_unique
    >>> ordered_unique([3, 1, 3])
    [3, 1]
    """
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Computes with that many threads for the length of a block.

    >>> import rushlight
    >>> from rushlight.utils.benchmark import set_torch_threads
    >>> with set_torch_threads(1):
    ...     rushlight.get_num_threads()
    1
    """
    import rushlight

    before = rushlight.get_num_threads()
    try:
        rushlight.set_num_threads(n)
        yield
    finally:
        rushlight.set_num_threads(before)
