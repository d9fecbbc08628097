"""Events of a profiler as a table of text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.autograd.profiler_util import format_memory, format_time, lines_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.autograd.profiler_util import EventList

_GAP = "  "
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


class _Column:
    def __init__(
        self, title: str, cell: Callable[[Any], str], left: bool = False, width: int | None = 12
    ) -> None:
        self.title = title
        self.cell = cell
        self.left = left
        self.width = width  # None: as wide as what is in it

    def fit(self, cells: list[str], most: int | None) -> None:
        """Takes the width that its cells need, up to the most that is allowed."""
        if self.width is None:
            need = max(map(len, [self.title, *cells])) + (0 if self.left else 4)
            self.width = need if most is None else min(need, most)

    def lay(self, text: str) -> str:
        assert self.width is not None
        if len(text) > self.width:
            # The end of a path says more than its beginning.
            keep = max(self.width - 3, 0)
            text = "..." + text[len(text) - keep :] if self.left else text[:keep] + "..."
        return text.ljust(self.width) if self.left else text.rjust(self.width)


def _share(part: float, whole: float) -> str:
    return f"{100.0 * part / whole:.2f}%" if whole > 0 else "0.00%"


def source_of(event: Any) -> str:
    """The line to show for an event: where it was called; of backward nodes, their forward line.

    Of sums, the line that took most of the time, and how many others there are.
    """
    lines = lines_of(event)
    if lines:
        first = max(lines, key=lambda line: lines[line])
        return first if len(lines) == 1 else f"{first} (+{len(lines) - 1} more)"
    return event.stack[0] if event.stack else ""


def _flops_column(events: EventList) -> _Column | None:
    counts = [e.flops for e in events if e.flops > 0]
    if not counts:
        return None
    step = 0
    while step + 1 < len(_FLOPS) and min(counts) >= 1000 ** (step + 1):
        step += 1
    unit = 1000.0**step
    return _Column(
        f"Total {_FLOPS[step]}", lambda e: f"{e.flops / unit:.3f}" if e.flops > 0 else "--"
    )


def _columns(events: EventList, unit: str | None, memory: bool, flops: bool) -> list[_Column]:
    total = events.self_cpu_time_total
    columns = [
        _Column("Name", lambda e: e.key, width=None),
        _Column("Self CPU %", lambda e: _share(e.self_cpu_time_total, total)),
        _Column("Self CPU", lambda e: format_time(e.self_cpu_time_total, unit)),
        _Column("CPU total %", lambda e: _share(e.cpu_time_total, total)),
        _Column("CPU total", lambda e: format_time(e.cpu_time_total, unit)),
        _Column("CPU time avg", lambda e: format_time(e.cpu_time, unit)),
    ]
    if memory:
        columns.append(_Column("CPU Mem", lambda e: format_memory(e.cpu_memory_usage)))
        columns.append(_Column("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage)))
    columns.append(_Column("# of Calls", lambda e: str(e.count)))
    if any(e.input_shapes for e in events):
        columns.append(_Column("Input Shapes", lambda e: str(e.input_shapes or []), width=None))
    if any(source_of(e) for e in events):
        columns.append(_Column("Source Location", source_of, left=True, width=None))
    counted = _flops_column(events) if flops else None
    return [*columns, counted] if counted else columns


def build_table(
    events: EventList,
    *,
    row_limit: int,
    widths: tuple[int | None, int | None, int | None],
    header: str | None,
    top_level_events_only: bool,
    time_unit: str | None,
    memory: bool,
    flops: bool,
) -> str:
    """The table, of as many rows as asked for. No events make no table."""
    if not events:
        return ""
    if time_unit not in (None, "s", "ms", "us"):
        raise ValueError(f"table: time_unit must be 's', 'ms' or 'us', got {time_unit!r}")
    shown = [e for e in events if e.cpu_parent is None] if top_level_events_only else list(events)
    shown = shown if row_limit < 0 else shown[:row_limit]
    columns = _columns(events, time_unit, memory, flops)
    most = dict(zip(("Name", "Input Shapes", "Source Location"), widths, strict=True))
    cells = [[column.cell(event) for event in shown] for column in columns]
    for column, texts in zip(columns, cells, strict=True):
        column.fit(texts, most.get(column.title))
    rule = _GAP.join("-" * (column.width or 0) for column in columns)
    lines = []
    if header is not None:
        lines += ["=" * len(rule), header]
    if top_level_events_only:
        lines += ["=" * len(rule), "This report only display top-level ops statistics"]
    lines += [rule, _GAP.join(column.lay(column.title) for column in columns), rule]
    for row in zip(*cells, strict=True):
        pairs = zip(columns, row, strict=True)
        lines.append(_GAP.join(column.lay(text) for column, text in pairs))
    lines.append(rule)
    lines.append(f"Self CPU time total: {format_time(events.self_cpu_time_total, time_unit)}")
    return "\n".join(line.rstrip() for line in lines) + "\n"
