"""Times by source line, forward and backward of a line together."""

from __future__ import annotations

from typing import Any


def self_times(rows: list[tuple[Any, ...]]) -> list[int]:
    """Nanoseconds of each event without those of the events inside it.

    >>> from rushlight.profiler._lines import self_times
    >>> self_times([("op", "a", 0, 10, -1), ("op", "b", 2, 5, 0)])
    [7, 3]
    """
    own = [row[3] - row[2] for row in rows]
    for row in rows:
        if row[4] >= 0:
            own[row[4]] -= row[3] - row[2]
    return own


def counts(row: tuple[Any, ...]) -> bool:
    """Whether an event's own time is work: of ranges, only that of optimizers, which run no ops."""
    return row[0] != "range" or row[1].startswith("Optimizer.step#")


def time_by_line(rows: list[tuple[Any, ...]]) -> dict[tuple[str, int], list[float]]:
    """Seconds forward, seconds backward and calls, by (file, line).

    What a node of the backward pass runs belongs to the line of the node.
    """
    places: list[tuple[Any, bool]] = []
    found: dict[tuple[str, int], list[float]] = {}
    for row, own in zip(rows, self_times(rows), strict=True):
        kind, parent, place = row[0], row[4], row[7]
        outer = places[parent] if parent >= 0 else (None, False)
        if kind == "backward":
            here, backward = place, True
        elif outer[1]:
            here, backward = outer
        else:
            here, backward = place, False
        places.append((here, backward))
        if here is None or not counts(row):
            continue
        entry = found.setdefault((here[0], here[1]), [0.0, 0.0, 0.0])
        entry[1 if backward else 0] += own * 1e-9
        entry[2] += parent < 0 or rows[parent][0] == "range"
    return found
