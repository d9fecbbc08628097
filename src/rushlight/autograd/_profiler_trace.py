"""From the core's rows to events, and from events to a file that trace viewers read."""

from __future__ import annotations

import os
from math import prod
from typing import TYPE_CHECKING, Any

from rushlight.autograd.profiler_util import EventList, FunctionEvent

if TYPE_CHECKING:
    from collections.abc import Callable

_SCOPES = {"op": 0, "backward": 1, "range": 7}
_NO_NODE = 1 << 62  # leaves have no number


def _shown_name(kind: str, name: str) -> str:
    if kind == "op":
        return f"aten::{name}"
    if kind == "range":
        return "ProfilerStep*" if name.startswith("ProfilerStep#") else name
    return "torch::autograd::AccumulateGrad" if name == "AccumulateGrad" else name


def _product_flops(shapes: list[list[int]]) -> int:
    """Of a matrix product, whose factors are the last two arguments that are matrices."""
    factors = [s for s in shapes if len(s) >= 2][-2:]
    return 2 * prod(factors[0]) * factors[1][-1] if len(factors) == 2 else 0


def _linear_flops(shapes: list[list[int]]) -> int:
    return 2 * prod(shapes[0]) * shapes[1][0] if len(shapes) >= 2 and len(shapes[1]) == 2 else 0


def _pointwise_flops(shapes: list[list[int]]) -> int:
    return max(map(prod, shapes), default=0)


_FLOPS: dict[str, Callable[[list[list[int]]], int]] = {
    **dict.fromkeys(("mm", "bmm", "_broadcast_bmm", "addmm", "baddbmm"), _product_flops),
    **dict.fromkeys(("add", "mul", "sub", "div"), _pointwise_flops),
    "linear": _linear_flops,
}


def _forward_ops(rows: list[tuple[Any, ...]]) -> dict[int, int]:
    """By number of a node, the op that made it: the last to begin before the next was numbered."""
    return {row[5]: i for i, row in enumerate(rows) if row[0] == "op"}


def events_of(
    rows: list[tuple[Any, ...]], thread: int, *, stacks: bool, shapes: bool, flops: bool
) -> EventList:
    """The events of ``_C._profile_stop()``, nested. An op that calls its namesake is one event."""
    makers, nodes = _forward_ops(rows), {row[5] for row in rows if row[0] == "backward"}
    events: list[FunctionEvent] = []
    by_row: list[FunctionEvent] = []
    for i, row in enumerate(rows):
        kind, name, start, end, parent, sequence, memory, place, sizes, frames = row
        number = sequence if sequence < _NO_NODE else -1
        if kind != "backward" and (sequence not in nodes or makers.get(sequence) != i):
            number = -1
        outer = by_row[parent] if parent >= 0 else None
        if kind == "op" and outer is not None and rows[parent][:2] == row[:2]:
            outer.sequence_nr = max(outer.sequence_nr, number)
            by_row.append(outer)
            continue
        seen = [list(s) for s in sizes]
        event = FunctionEvent(
            len(events),
            _shown_name(kind, name),
            thread,
            start / 1000,
            end / 1000,
            input_shapes=seen if shapes else None,
            scope=_SCOPES[kind],
            cpu_memory_usage=memory,
            sequence_nr=number,
            flops=_FLOPS[name](seen) if flops and kind == "op" and name in _FLOPS else 0,
            is_user_annotation=kind == "range",
            place=place,
            trace_name=name if kind == "range" else None,
        )
        if stacks:
            event.stack = [_frame_text(f) for f in frames or ([place] if place else ())]
        if outer is not None:
            outer.append_cpu_child(event)
        events.append(event)
        by_row.append(event)
    return EventList(events)


def _frame_text(place: tuple[str, int, str]) -> str:
    return f"{place[0]}({place[1]}): {place[2]}"


def _arguments(event: FunctionEvent) -> dict[str, Any]:
    arguments: dict[str, Any] = {"External id": event.id}
    if event.place:
        title = "Forward line" if event.is_backward else "Line"
        arguments[title] = f"{event.place[0]}:{event.place[1]}"
    if event.sequence_nr >= 0:
        arguments["Sequence number"] = event.sequence_nr
    if event.input_shapes:
        arguments["Input Dims"] = event.input_shapes
    if event.cpu_memory_usage:
        arguments["Bytes"] = event.cpu_memory_usage
    if event.stack:
        arguments["Call stack"] = "; ".join(event.stack)
    return arguments


def _flow(event: FunctionEvent, pid: int, phase: str) -> dict[str, Any]:
    arrow = {
        "ph": phase, "id": event.sequence_nr, "pid": pid, "tid": event.thread,
        "ts": event.time_range.start, "cat": "fwdbwd", "name": "fwdbwd",
    }  # fmt: skip
    return arrow | {"bp": "e"} if phase == "f" else arrow


def trace_of(events: list[Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """The trace as the viewers' JSON has it, with arrows from ops to their backward nodes."""
    pid = os.getpid()
    entries: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "rushlight"}}
    ]
    forward = {e.sequence_nr: e for e in events if e.sequence_nr >= 0 and not e.is_backward}
    categories = {0: "cpu_op", 1: "cpu_op", 7: "user_annotation"}
    for event in events:
        entry = {
            "ph": "X", "cat": categories[event.scope], "name": event.trace_name, "pid": pid,
            "tid": event.thread, "ts": event.time_range.start,
            "dur": event.time_range.elapsed_us(), "args": _arguments(event),
        }  # fmt: skip
        entries.append(entry)
        if event.is_backward and event.sequence_nr in forward:
            entries.append(_flow(forward[event.sequence_nr], pid, "s"))
            entries.append(_flow(event, pid, "f"))
    return {"schemaVersion": 1, "displayTimeUnit": "ms", **(metadata or {}), "traceEvents": entries}


def write_trace(path: str, events: list[Any], metadata: dict[str, Any] | None = None) -> None:
    """Writes the trace; compressed when the path ends in ``.gz``."""
    import json

    text = json.dumps(trace_of(events, metadata))
    if str(path).endswith(".gz"):
        import gzip

        with gzip.open(path, "wt", encoding="utf-8") as compressed:
            compressed.write(text)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
