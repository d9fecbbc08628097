"""Tables of measurements."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.utils.benchmark._measurement import (
    Measurement,
    ordered_unique,
    select_unit,
    trim_sigfig,
    unit_to_english,
)

_BEST, _GOOD, _END = "\033[92m\033[1m", "\033[34m\033[1m", "\033[0m\033[0m"


class Compare:
    """A table: a row for each sublabel, a column for each description, a part for each label.

    >>> from rushlight.utils.benchmark import Compare, Measurement, TaskSpec
    >>> times = {"old": 2e-6, "new": 1e-6}
    >>> results = [
    ...     Measurement(1, [t], TaskSpec("f()", "pass", label="f", sub_label="8", description=d))
    ...     for d, t in times.items()
    ... ]
    >>> print(Compare(results))
    [--------- f ---------]
             |  old  |  new
    1 threads: -------------
          8  |  2.0  |  1.0
    <BLANKLINE>
    Times are in microseconds (us).
    <BLANKLINE>
    """

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self.extend_results(results)
        self._trim = self._colour = self._highlight = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements."""
        for each in results:
            if not isinstance(each, Measurement):
                raise ValueError(
                    "Compare: Expected an instance of `Measurement`, got "
                    f"{type(each).__name__} instead."
                )
            self._results.append(each)

    def trim_significant_figures(self) -> None:
        """Shows only digits that mean something."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Marks the best times of each column, or of each row."""
        self._colour, self._rowwise = True, rowwise

    def highlight_warnings(self) -> None:
        """Shows how far times are spread where that is too far."""
        self._highlight = True

    def print(self) -> None:
        """Prints the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = ordered_unique(m.label for m in merged)
        return "\n".join(self._table([m for m in merged if m.label == k]) for k in labels)

    def _table(self, group: list[Measurement]) -> str:
        columns = ordered_unique(m.description for m in group)
        threads = ordered_unique(m.num_threads for m in group)
        unit, scale = select_unit(min(m.median for m in group))
        names = ordered_unique(m.as_row_name for m in group)
        left = 6 + max(len(n) for n in names)
        cells = {(m.num_threads, m.as_row_name, m.description): m for m in group}
        text = {k: self._cell(m, scale) for k, m in cells.items()}
        widths = [
            max(len(str(c or "")), *(len(t) for k, t in text.items() if k[2] == c)) for c in columns
        ]
        head = " " * left + "".join(
            f"  |  {c or '':^{w}}".rstrip(" ") if c is columns[-1] else f"  |  {c or '':^{w}}"
            for c, w in zip(columns, widths, strict=True)
        )
        whole = left + sum(w + 5 for w in widths)
        title = f" {group[0].label or group[0].title} "
        lines = [f"[{title:-^{max(whole - 2, len(title) + 2)}}]", head]
        for n in threads:
            start = f"{n} threads: "
            lines.append(start + "-" * (len(lines[0]) - len(start) + 1))
            for name in names:
                row = [(n, name, c) for c in columns]
                parts = [
                    self._coloured(text.get(k, ""), k, cells, w)
                    for k, w in zip(row, widths, strict=True)
                ]
                if any(k in cells for k in row):
                    lines.append(f"{name:>{left}}" + "".join(f"  |  {p}" for p in parts).rstrip())
        return "\n".join([*lines, "", f"Times are in {unit_to_english(unit)}s ({unit}).", ""])

    def _cell(self, m: Measurement, scale: float) -> str:
        value = m.median / scale
        if self._trim:
            digits = m.significant_figures
            value = trim_sigfig(value, digits)
            shown = f"{value:.{1 if value < 10 and digits > 1 else 0}f}"
        else:
            shown = f"{value:.1f}"
        if self._highlight and m.has_warnings:
            shown += f" (! {100 * m.iqr / m.median:.0f}%)"
        return shown

    def _coloured(
        self,
        text: str,
        key: tuple[int, str, str | None],
        cells: dict[tuple[int, str, str | None], Measurement],
        width: int,
    ) -> str:
        padded = f"{text:>{width}}"
        if not self._colour or key not in cells:
            return padded
        same = 1 if self._rowwise else 2
        best = min(m.median for k, m in cells.items() if k[0] == key[0] and k[same] == key[same])
        ratio = cells[key].median / best
        return f"{_BEST if ratio <= 1.05 else _GOOD if ratio <= 1.2 else ''}{padded}" + (
            _END if ratio <= 1.2 else ""
        )
