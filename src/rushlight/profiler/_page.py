"""The profiler's page: a flame graph by source line, the memory's course, lines and operations."""

from __future__ import annotations

import linecache
import os
from typing import Any

from rushlight import _pages
from rushlight.profiler._lines import counts, self_times, time_by_line

Row = tuple[Any, ...]
_POINTS = 1500  # of the memory's course
_LEAST = 2e-4  # of the whole: smaller frames are not drawn
_LINES = 40


def all_rows(single: Any) -> tuple[list[Row], list[Row]]:
    """The events of a finished profile, and the blocks of memory, numbered alike."""
    rows: list[Row] = []
    memory: list[Row] = []
    first = 0 if single.acc_events else max(0, len(single._blocks) - 1)
    for i in range(first, len(single._blocks)):
        shift = len(rows)
        if i < len(single._memory):
            memory += [(*m[:3], m[3] + shift if m[3] >= 0 else -1) for m in single._memory[i]]
        rows += [(*r[:4], r[4] + shift if r[4] >= 0 else -1, *r[5:]) for r in single._blocks[i]]
    return rows, memory


def _where(place: Any) -> str:
    return f"{os.path.basename(place[0])}:{place[1]}" if place else "elsewhere"


def _paths(rows: list[Row]) -> list[tuple[tuple[Any, ...], bool, str]]:
    """Of each event: the frames it belongs to, outermost first, whether it is backward, its name.

    A backward node belongs to the operation that recorded it; what runs inside it too.
    """
    makers: dict[int, int] = {}
    for i, row in enumerate(rows):
        if row[0] == "op":
            makers[row[5]] = i
    found: list[tuple[tuple[Any, ...], bool, str]] = []
    of_place: dict[Any, tuple[Any, ...]] = {}
    for row in rows:
        kind, parent, sequence, place, frames = row[0], row[4], row[5], row[7], row[9]
        if kind == "backward":
            maker = makers.get(sequence)
            if maker is not None and rows[maker][7] == place:
                path, name = found[maker][0], found[maker][2]
            else:  # a leaf, or made before: where that line last ran
                path, name = of_place.get(place, (place,)), row[1]
            found.append((path, True, name))
        elif parent >= 0 and found[parent][1]:
            found.append(found[parent])
        elif frames:
            own = [f for f in reversed(frames) if not f[0].startswith("<frozen ")]
            found.append((tuple(own or [place]), False, row[1]))
            of_place[place] = found[-1][0]
        else:
            found.append(((place,), False, row[1]))
    return found


class _Frame:
    __slots__ = ("backward", "children", "forward")

    def __init__(self) -> None:
        self.forward = self.backward = 0
        self.children: dict[Any, _Frame] = {}


def _flames(rows: list[Row]) -> tuple[_Frame, dict[Any, str]]:
    root, names = _Frame(), {}
    for row, own, (path, backward, name) in zip(rows, self_times(rows), _paths(rows), strict=True):
        if not counts(row) or own <= 0:
            continue
        at = root
        for key in (*path, ("op", name.removeprefix("Optimizer.step#"))):
            if backward:
                at.backward += own
            else:
                at.forward += own
            if key not in names:
                names[key] = key[1] if key and key[0] == "op" and len(key) == 2 else _where(key)
            at = at.children.setdefault(key, _Frame())
        if backward:
            at.backward += own
        else:
            at.forward += own
    return root, names


def _flame_data(rows: list[Row]) -> dict[str, Any]:
    root, names = _flames(rows)
    least = _LEAST * (root.forward + root.backward)
    texts: dict[tuple[str, str, str], int] = {}

    def write(key: Any, frame: _Frame) -> list[Any]:
        is_op = key is not None and len(key) == 2
        if is_op:
            entry = (names[key], "", "")
        elif key is None:
            entry = ("elsewhere", "", "")
        else:
            entry = (names[key], linecache.getline(key[0], key[1]).strip(), key[2])
        number = texts.setdefault(entry, len(texts))
        inner = [write(k, f) for k, f in frame.children.items() if f.forward + f.backward >= least]
        inner.sort(key=lambda child: -(child[1] + child[2]))
        return [number, round(frame.forward / 1e3, 1), round(frame.backward / 1e3, 1), inner]

    top = [write(key, frame) for key, frame in root.children.items()]
    top.sort(key=lambda child: -(child[1] + child[2]))
    return {
        "forward": root.forward / 1e3,
        "backward": root.backward / 1e3,
        "frames": top,
        "texts": list(texts),
    }


def memory_course(rows: list[Row], memory: list[Row]) -> dict[str, Any] | None:
    """Bytes of blocks taken while profiling, over time, and who holds them at the peak."""
    if not memory:
        return None
    paths = _paths(rows)
    start = min([memory[0][0], *(row[2] for row in rows[:1])])
    live: dict[int, tuple[int, int]] = {}
    now = peak = peak_time = 0
    course: list[tuple[float, int]] = [(0.0, 0)]
    taken: list[tuple[int, int]] = []  # of the peak: blocks by number of the row
    at_peak = -1
    for i, (time, block, size, event) in enumerate(memory):
        if size > 0:
            live[block] = (size, event)
            now += size
        elif block in live:  # others were there before
            now -= live.pop(block)[0]
        course.append(((time - start) / 1e3, now))
        if now > peak:
            peak, peak_time, at_peak = now, time, i
    live.clear()
    for _, block, size, event in memory[: at_peak + 1]:
        if size > 0:
            live[block] = (size, event)
        else:
            live.pop(block, None)
    taken = list(live.values())
    holders: dict[Any, list[int]] = {}
    for size, event in taken:
        path, backward, _ = paths[event] if event >= 0 else ((None,), False, "")
        entry = holders.setdefault((path[-1], backward), [0, 0])
        entry[0] += size
        entry[1] += 1
    ranked = sorted(holders.items(), key=lambda item: -item[1][0])
    return {
        "course": _thinned(course),
        "peak": peak,
        "peak_time": (peak_time - start) / 1e3,
        "backward": _phases(rows, start),
        "holders": [
            {**_line(place), "backward": backward, "bytes": size, "blocks": blocks}
            for (place, backward), (size, blocks) in ranked[:_LINES]
        ],
    }


def _line(place: Any) -> dict[str, str]:
    if place is None:
        return {"line": "elsewhere", "file": "", "source": ""}
    source = linecache.getline(place[0], place[1]).strip()
    return {"line": _where(place), "file": f"{place[0]}:{place[1]}", "source": source}


def _thinned(course: list[tuple[float, int]]) -> list[list[float]]:
    """At most some points: of each stretch the greatest, so that no peak is lost."""
    size = -(-len(course) // _POINTS)
    if size <= 1:
        return [[round(t, 1), b] for t, b in course]
    found = []
    for i in range(0, len(course), size):
        t, b = max(course[i : i + size], key=lambda point: point[1])
        found.append([round(t, 1), b])
    return found


def _phases(rows: list[Row], start: int) -> list[list[float]]:
    """When backward passes ran: nodes that follow each other closely are one stretch."""
    found: list[list[float]] = []
    end = max((row[3] for row in rows), default=start)
    near = (end - start) * 0.004
    for row in rows:
        if row[0] != "backward" or (row[4] >= 0 and rows[row[4]][0] == "backward"):
            continue
        if found and row[2] - found[-1][1] <= near:
            found[-1][1] = max(found[-1][1], row[3])
        else:
            found.append([row[2], row[3]])
    return [[round((a - start) / 1e3, 1), round((b - start) / 1e3, 1)] for a, b in found]


def _operations(rows: list[Row]) -> list[dict[str, Any]]:
    sums: dict[tuple[str, str], list[float]] = {}
    for row, own in zip(rows, self_times(rows), strict=True):
        entry = sums.setdefault((row[0], row[1]), [0.0, 0.0, 0])
        entry[0] += own / 1e9
        entry[1] += (row[3] - row[2]) / 1e9
        entry[2] += 1
    ranked = sorted(sums.items(), key=lambda item: -item[1][0])
    return [
        {"kind": kind, "name": name, "self": own, "total": total, "calls": calls}
        for (kind, name), (own, total, calls) in ranked[:_LINES]
    ]


def data_of(rows: list[Row], memory: list[Row]) -> dict[str, Any]:
    """What the page's script draws."""
    lines = sorted(time_by_line(rows).items(), key=lambda item: -(item[1][0] + item[1][1]))
    top = [row for row in rows if row[4] < 0]
    return {
        "flame": _flame_data(rows),
        "events": len(rows),
        "wall": (max((r[3] for r in top), default=0) - min((r[2] for r in top), default=0)) / 1e9,
        "lines": [
            {**_line((*place, "")), "forward": times[0], "backward": times[1], "calls": times[2]}
            for place, times in lines[:_LINES]
        ],
        "operations": _operations(rows),
        "memory": memory_course(rows, memory),
    }


def page_of(single: Any, title: str) -> str:
    """The page of a finished ``autograd.profiler.profile``."""
    rows, memory = all_rows(single)
    data = data_of(rows, memory)
    count = data["events"]
    return _pages.page(
        title,
        body=_pages.read("profile.html"),
        facts=f"{count:,} events" + ("" if single.with_stack else " · lines without their callers"),
        data=data,
        styles=["report.css", "profile.css"],
        scripts=["profile.js"],
    )
