"""What a profiler has seen: events, their averages, lists of them."""

from __future__ import annotations

from enum import IntEnum
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "DeviceType", "EventList", "EventMetadata", "FormattedTimesMixin", "FunctionEvent",
    "FunctionEventAvg", "Interval", "Kernel", "MemRecordsAcc", "StringTable",
]  # fmt: skip


class DeviceType(IntEnum):
    """Where an event ran.

    >>> from rushlight.profiler import DeviceType
    >>> DeviceType.CPU.name
    'CPU'
    """

    CPU = 0
    CUDA = 1


class Interval:
    """A stretch of time, in microseconds.

    >>> from rushlight.autograd.profiler_util import Interval
    >>> Interval(2.0, 5.0).elapsed_us()
    3.0
    """

    def __init__(self, start: float, end: float) -> None:
        self.start = start
        self.end = end

    def elapsed_us(self) -> float:
        """Its length."""
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval({self.start}, {self.end})"


class Kernel(NamedTuple):
    """Work on another device that an op has started."""

    name: str
    device: int
    duration: float


class EventMetadata(NamedTuple):
    """What an event carries beside its times."""

    place: tuple[str, int, str] | None = None  # file, line and function
    sequence_nr: int = -1


def format_time(time_us: float, unit: str | None = None) -> str:
    """A time with its unit, the largest that leaves a digit before the point."""
    if unit == "s" or (unit is None and time_us >= 1e6):
        return f"{time_us / 1e6:.3f}s"
    if unit == "ms" or (unit is None and time_us >= 1e3):
        return f"{time_us / 1e3:.3f}ms"
    return f"{time_us:.3f}us"


def format_memory(nbytes: float) -> str:
    """A number of bytes with its unit."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**power:
            return f"{nbytes / 1024**power:.2f} {unit}"
    return f"{nbytes} B"


class _FormattedTime:
    """``event.cpu_time_str``: the time ``event.cpu_time`` with its unit."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name.removesuffix("_str")

    def __get__(self, event: Any, owner: type | None = None) -> str:
        return format_time(getattr(event, self.name))


class FormattedTimesMixin:
    """The times of events and of averages as text; means over calls.

    >>> import rushlight as torch
    >>> with torch.profiler.profile() as prof:
    ...     y = torch.ones(3) * 2
    >>> prof.events()[0].cpu_time_str.endswith("s")
    True
    """

    cpu_time_total: Any
    device_time_total: Any
    count: int

    cpu_time_str = _FormattedTime()
    device_time_str = _FormattedTime()
    cpu_time_total_str = _FormattedTime()
    device_time_total_str = _FormattedTime()
    self_cpu_time_total_str = _FormattedTime()
    self_device_time_total_str = _FormattedTime()

    @property
    def cpu_time(self) -> float:
        """Microseconds of a call, on average."""
        return 0.0 if self.count == 0 else self.cpu_time_total / self.count

    @property
    def device_time(self) -> float:
        """Microseconds of a call on another device, on average."""
        return 0.0 if self.count == 0 else self.device_time_total / self.count


class FunctionEvent(FormattedTimesMixin):
    """An op, a node of a backward pass or a range of the user's own, as it ran once.

    >>> import rushlight as torch
    >>> with torch.profiler.profile(record_shapes=True) as prof:
    ...     y = torch.sin(torch.ones(3))
    >>> event = prof.events()[-1]
    >>> event.name, event.input_shapes, event.cpu_time_total > 0
    ('aten::sin', [[3]], True)
    """

    # Of every event on this machine's CPU.
    count = 1
    node_id = -1
    overload_name = ""
    fwd_thread: int | None = None
    kernels: tuple[Kernel, ...] = ()
    concrete_inputs: tuple[Any, ...] = ()
    kwinputs: tuple[Any, ...] = ()
    use_device: str | None = None
    device_type = DeviceType.CPU
    device_index = 0
    device_time_total = 0.0
    self_device_time_total = 0.0
    device_memory_usage = 0
    self_device_memory_usage = 0
    is_async = False
    is_remote = False
    is_legacy = False

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        *,
        input_shapes: list[list[int]] | None = None,
        stack: list[str] | None = None,
        scope: int = 0,
        cpu_memory_usage: int = 0,
        sequence_nr: int = -1,
        flops: int = 0,
        is_user_annotation: bool = False,
        place: tuple[str, int, str] | None = None,
        trace_name: str | None = None,
    ) -> None:
        self.id = id
        self.name = name
        self.trace_name = trace_name or name
        self.thread = self.device_resource_id = thread
        self.time_range = Interval(start_us, end_us)
        self.input_shapes = input_shapes
        self.stack = stack
        self.scope = scope  # 0: forward, 1: backward, 7: a range
        self.cpu_memory_usage = cpu_memory_usage
        self.sequence_nr = sequence_nr
        self.flops = flops
        self.is_user_annotation = is_user_annotation
        self.place = place
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None

    @property
    def key(self) -> str:
        """What averages are taken over: the name."""
        return self.name

    @property
    def event_metadata(self) -> EventMetadata:
        """The user's line, and the number that joins an op and its backward node."""
        return EventMetadata(self.place, self.sequence_nr)

    @property
    def is_backward(self) -> bool:
        """Whether it belongs to a backward pass."""
        return self.scope == 1

    @property
    def cpu_time_total(self) -> float:
        """Microseconds, with those of the events inside it."""
        return self.time_range.end - self.time_range.start

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds, without those of the events inside it."""
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes allocated less bytes freed, without those of the events inside it."""
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Puts an event inside this one."""
        self.cpu_children.append(child)
        child.cpu_parent = self

    def __repr__(self) -> str:
        where = f" at {self.place[0]}:{self.place[1]}" if self.place else ""
        return (
            f"<FunctionEvent id={self.id} name={self.name} cpu_time={self.cpu_time_str} "
            f"self_cpu_time={self.self_cpu_time_total_str} thread={self.thread} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}{where}>"
        )


class FunctionEventAvg(FormattedTimesMixin):
    """Sums over events of one key.

    >>> import rushlight as torch
    >>> with torch.profiler.profile() as prof:
    ...     for _ in range(3):
    ...         y = torch.ones(3)
    >>> (row,) = prof.key_averages()
    >>> row.key, row.count
    ('aten::ones', 3)
    """

    node_id = -1
    overload_name = ""
    use_device: str | None = None
    device_type = DeviceType.CPU
    is_async = False
    is_remote = False
    is_legacy = False

    def __init__(self) -> None:
        self.key: str | None = None
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.flops = 0
        self.input_shapes: list[list[int]] | None = None
        self.stack: list[str] | None = None
        self.scope = 0
        self.is_user_annotation = False
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.line_times: dict[str, float] = {}  # of backward nodes, by their forward line

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Adds an event, or sums, of the same key."""
        if self.key is None:
            self.key = other.key
            self.input_shapes, self.stack = other.input_shapes, other.stack
            self.scope, self.is_user_annotation = other.scope, other.is_user_annotation
            self.cpu_parent, self.cpu_children = other.cpu_parent, other.cpu_children
        if other.key != self.key:
            raise AssertionError(f"sums of {self.key} do not take an event of {other.key}")
        self.count += other.count
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.flops += other.flops
        for line, time in lines_of(other).items():
            self.line_times[line] = self.line_times.get(line, 0.0) + time
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} "
            f"self_cpu_time={self.self_cpu_time_total_str} cpu_time={self.cpu_time_str} "
            f"input_shapes={self.input_shapes} cpu_memory_usage={self.cpu_memory_usage}>"
        )


def lines_of(event: FunctionEvent | FunctionEventAvg) -> dict[str, float]:
    """The forward lines of backward nodes, with their times."""
    if isinstance(event, FunctionEventAvg):
        return event.line_times
    if event.is_backward and event.place:
        return {f"{event.place[0]}:{event.place[1]}": event.cpu_time_total}
    return {}


class StringTable(dict[str, str]):
    """Names as they are shown: of a string that was not set, itself.

    >>> from rushlight.autograd.profiler_util import StringTable
    >>> names = StringTable({"mm": "product"})
    >>> names["mm"], names["sin"]
    ('product', 'sin')
    """

    def __missing__(self, key: str) -> str:
        self[key] = key
        return key


class MemRecordsAcc:
    """Records of memory, each with ``start_ns()``, found by time.

    >>> from types import SimpleNamespace
    >>> from rushlight.autograd.profiler_util import MemRecordsAcc
    >>> records = [(SimpleNamespace(start_ns=lambda at=at: at), f"at {at}") for at in (5, 20, 30)]
    >>> [text for _, text in MemRecordsAcc(records).in_interval(10, 30)]
    ['at 20', 'at 30']
    """

    def __init__(self, mem_records: Iterable[Any]) -> None:
        self._records = sorted(mem_records, key=lambda r: r[0].start_ns())
        self._starts = [r[0].start_ns() for r in self._records]

    def in_interval(self, start_ns: int, end_ns: int) -> Iterable[Any]:
        """Those that begin in an interval, its ends included."""
        from bisect import bisect_left, bisect_right

        first = bisect_left(self._starts, start_ns)
        return iter(self._records[first : bisect_right(self._starts, end_ns)])


class EventList(list[Any]):
    """Events or averages, as a table, a trace or sums.

    >>> import rushlight as torch
    >>> with torch.profiler.profile() as prof:
    ...     y = torch.sin(torch.ones(3))
    >>> [row.key for row in prof.events().key_averages()]
    ['aten::ones', 'aten::sin']
    """

    def __init__(
        self,
        events: Iterable[Any] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops

    def _like(self, events: Iterable[Any]) -> EventList:
        return EventList(
            events,
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all."""
        return sum(event.self_cpu_time_total for event in self)

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, at most ``row_limit`` of them (-1: all), in the order of ``sort_by``.

        ``sort_by`` names a number of an event: ``cpu_time``, ``cpu_time_total``,
        ``self_cpu_time_total``, ``cpu_memory_usage``, ``self_cpu_memory_usage``, ``count``...
        Backward rows show the line of the forward pass that they belong to.

        >>> import rushlight as torch
        >>> with torch.profiler.profile() as prof:
        ...     y = torch.ones(3) * 2
        >>> "aten::mul" in prof.key_averages().table(sort_by="count", row_limit=10)
        True
        """
        from rushlight.autograd._profiler_table import build_table

        events = self
        if sort_by is not None:
            number = sort_by.replace("cuda", "device").replace("xpu", "device")
            if self and not hasattr(self[0], number):
                raise AttributeError(
                    f"table: events have no {sort_by!r} to sort by; there are cpu_time, "
                    "cpu_time_total, self_cpu_time_total, cpu_memory_usage, "
                    "self_cpu_memory_usage, count, flops"
                )
            events = self._like(sorted(self, key=attrgetter(number), reverse=True))
        return build_table(
            events,
            row_limit=row_limit,
            widths=(max_name_column_width, max_shapes_column_width, max_src_column_width),
            header=header,
            top_level_events_only=top_level_events_only,
            time_unit=time_unit,
            memory=self._profile_memory,
            flops=self._with_flops,
        )

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums by name; with more arguments, by shapes or by the innermost lines as well."""
        sums: dict[tuple[Any, ...], FunctionEventAvg] = {}
        for event in self:
            key = [event.key, event.is_user_annotation]
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n > 0:
                key += (event.stack or _line(event.place))[:group_by_stack_n]
            found = sums.get(tuple(key))
            if found is None:
                found = sums[tuple(key)] = FunctionEventAvg()
            found.add(event)
            if _is_inside_its_like(event):  # whose time and memory count already
                found.cpu_time_total -= event.cpu_time_total
                found.cpu_memory_usage -= event.cpu_memory_usage
            if group_by_stack_n > 0:
                found.stack = (event.stack or _line(event.place))[:group_by_stack_n]
        if not group_by_input_shapes:
            for row in sums.values():
                row.input_shapes = None
        if group_by_stack_n <= 0:
            for row in sums.values():
                row.stack = None
        return self._like(sums.values())

    def total_average(self) -> FunctionEventAvg:
        """The sum of all."""
        total = FunctionEventAvg()
        for event in self:
            one = FunctionEventAvg()
            one.add(event)
            one.key = total.key = None
            total.add(one)
        total.key = "Total"
        return total

    def export_chrome_trace(self, path: str) -> None:
        """Writes a file for chrome://tracing and https://ui.perfetto.dev."""
        from rushlight.autograd._profiler_trace import write_trace

        write_trace(path, self)

    def supported_export_stacks_metrics(self) -> list[str]:
        """What ``export_stacks`` can weigh stacks by."""
        return ["self_cpu_time_total"]

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks and their times, for a flame graph: needs ``with_stack=True``."""
        if metric not in self.supported_export_stacks_metrics():
            known = self.supported_export_stacks_metrics()
            raise ValueError(f"metric should be one of: {known}, got {metric!r}")
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                weight = int(getattr(event, metric))
                if event.stack and weight > 0:
                    frames = [f.replace(" ", "_").replace(";", ",") for f in reversed(event.stack)]
                    file.write(f"{';'.join([*frames, event.name])} {weight}\n")


def _is_inside_its_like(event: Any) -> bool:
    outer = event.cpu_parent
    while outer is not None and outer.name != event.key:
        outer = outer.cpu_parent
    return outer is not None


def _line(place: tuple[str, int, str] | None) -> list[str]:
    return [] if place is None else [f"{place[0]}({place[1]}): {place[2]}"]
