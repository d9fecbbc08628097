"""A number over the steps, in bounded memory: neighbours are joined as a run grows long."""

from __future__ import annotations

from typing import Any

_MOST = 4000


class Series:
    """Means, least and greatest values of buckets of steps.

    >>> from rushlight.reporting._series import Series
    >>> series = Series()
    >>> for step in range(1, 10001):
    ...     series.add(step, float(step))
    >>> len(series.step), series.least[0], series.greatest[-1]
    (2500, 1.0, 10000.0)
    """

    def __init__(self) -> None:
        self.width = 1  # values in a bucket
        self.step: list[int] = []  # the last of each bucket
        self.mean: list[float] = []
        self.least: list[float] = []
        self.greatest: list[float] = []
        self._room = 0  # values that still go into the last bucket
        self.last = 0.0
        self.count = 0

    def add(self, step: int, value: float) -> None:
        """Notes a value."""
        self.last = value
        self.count += 1
        if self._room:
            filled = self.width - self._room
            self._room -= 1
            mean = self.mean[-1]
            self.mean[-1] = mean + (value - mean) / (filled + 1)
            self.step[-1] = step
            # A comparison with NaN is False: what is not a number must be seen.
            if not value >= self.least[-1]:
                self.least[-1] = value
            if not value <= self.greatest[-1]:
                self.greatest[-1] = value
            return
        if len(self.step) >= _MOST:
            self._join()
        self.step.append(step)
        self.mean.append(value)
        self.least.append(value)
        self.greatest.append(value)
        self._room = self.width - 1

    def _join(self) -> None:
        pairs = range(0, len(self.step) - 1, 2)
        self.step = [self.step[i + 1] for i in pairs]
        self.mean = [(self.mean[i] + self.mean[i + 1]) / 2 for i in pairs]
        self.least = [min(self.least[i], self.least[i + 1]) for i in pairs]
        self.greatest = [max(self.greatest[i], self.greatest[i + 1]) for i in pairs]
        self.width *= 2

    def data(self) -> dict[str, Any]:
        """For the page."""
        found: dict[str, Any] = {"step": self.step, "mean": self.mean}
        if self.width > 1:
            found |= {"least": self.least, "greatest": self.greatest}
        return found
