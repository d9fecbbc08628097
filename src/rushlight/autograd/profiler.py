"""A profiler for one stretch of a program: which ops and backward nodes ran, and how long."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rushlight import _C
from rushlight.autograd.profiler_util import (
    EventList,
    FormattedTimesMixin,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    Kernel,
    MemRecordsAcc,
    StringTable,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "EnforceUnique", "EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg",
    "Interval", "Kernel", "KinetoStepTracker", "MemRecordsAcc", "StringTable", "emit_itt",
    "emit_nvtx", "load_nvprof", "parse_nvprof_trace", "profile", "record_function",
]  # fmt: skip


class profile(_C._Scope):
    """Records the ops, backward nodes and ranges of this thread while the block runs.

    Each backward row carries the line of the forward pass that made it. Ops are timed on the CPU
    only; ``use_kineto`` and the options of other devices are accepted.

    >>> import rushlight as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> with torch.autograd.profiler.profile() as prof:
    ...     (x * 2).sum().backward()
    >>> [e.name for e in prof.function_events][:3]
    ['aten::mul', 'aten::sum', 'SumBackward0']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError(
                f"post_processing_timeout_s must be non-negative, got {post_processing_timeout_s}"
            )
        if use_cuda or use_device is not None:
            import warnings

            device = "cuda" if use_device is None else use_device
            warnings.warn(
                f"{device.upper()} is not available, disabling {device.upper()} profiling",
                stacklevel=2,
            )
        if not use_cpu:
            raise AssertionError("No activities specified for the profiler: use_cpu is False")
        self.enabled = enabled
        self.use_device: str | None = None
        self.record_shapes = record_shapes
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self._blocks: list[list[Any]] = []
        self._memory: list[list[Any]] = []  # blocks of memory taken and given back, of each
        self._events: tuple[int, EventList] | None = None  # and of how many blocks
        self._thread = threading.get_native_id()
        self._trace_id: tuple[int, str] | None = None  # and the number of blocks before it
        if enabled:
            blocks = self._memory if profile_memory else None
            self._set_parts(
                ("profile", (record_shapes or with_flops, with_stack, self._blocks, blocks))
            )

    @property
    def trace_id(self) -> str:
        """What ``custom_trace_id_callback`` gives for the block."""
        if self.custom_trace_id_callback is None:
            return ""
        number = len(self._blocks) + self.entered
        if self._trace_id is None or self._trace_id[0] != number:
            self._trace_id = number, self.custom_trace_id_callback()
        return self._trace_id[1]

    @property
    def _rows(self) -> list[Any] | None:
        """The events of all blocks so far, or of the last one."""
        blocks = self._blocks if self.acc_events else self._blocks[-1:]
        rows: list[Any] = []
        for block in blocks:
            shift = len(rows)
            rows += [(*r[:4], r[4] + shift if r[4] >= 0 else -1, *r[5:]) for r in block]
        return rows if blocks else None

    @property
    def function_events(self) -> EventList:
        """The events, in the order in which they began."""
        if self._events is None or self._events[0] != len(self._blocks):
            from rushlight.autograd._profiler_trace import events_of

            rows = self._rows
            if rows is None:
                raise RuntimeError("Profiler didn't finish running: leave its block first")
            events = events_of(
                rows,
                self._thread,
                stacks=self.with_stack,
                shapes=self.record_shapes,
                flops=self.with_flops,
            )
            events._profile_memory = self.profile_memory
            events._with_flops = self.with_flops
            self._events = len(self._blocks), events
        return self._events[1]

    def __repr__(self) -> str:
        return "<unfinished profiler>" if self._rows is None else repr(self.function_events)

    def __str__(self) -> str:
        return "<unfinished profiler>" if self._rows is None else str(self.function_events)

    def table(self, sort_by: str | None = None, **options: Any) -> str:
        """The events as text: see ``EventList.table``."""
        return self.function_events.table(sort_by=sort_by, **options)

    def export_chrome_trace(
        self, path: str, metadata: dict[str, Any] | None = None, use_python_export: bool = False
    ) -> None:
        """Writes a file for chrome://tracing and https://ui.perfetto.dev."""
        from rushlight.autograd._profiler_trace import write_trace

        write_trace(path, self.function_events, metadata)

    def to_html(self, path: str | os.PathLike[str] | None = None, title: str = "Profile") -> str:
        """A page to look at: returned, and written when a path is given. It needs no network.

        A flame graph by source line, in which a line's backward stands beside its forward; with
        ``with_stack=True`` lines stand under their callers. With ``profile_memory=True`` the
        memory's course and the lines that hold its peak.

        >>> import rushlight as torch
        >>> with torch.autograd.profiler.profile() as prof:
        ...     y = torch.ones(3) * 2
        >>> prof.to_html().startswith("<!doctype html>")
        True
        """
        from rushlight import _pages
        from rushlight.profiler._page import page_of

        if not self._blocks:
            raise RuntimeError("Profiler didn't finish running: leave its block first")
        text = page_of(self, title)
        if path is not None:
            _pages.save(path, text)
        return text

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks and their times, for a flame graph."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self.function_events.export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any] = ()) -> None:
        """Pauses the profiler that runs, or lets it go on."""
        _C._profile_collect(enabled)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums by name: see ``EventList.key_averages``."""
        return self.function_events.key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self.function_events.total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds in all."""
        return self.function_events.self_cpu_time_total


class record_function(_C._Scope):
    """Names a block, or a function's calls, in a profile. Without a profiler, nothing.

    >>> import rushlight as torch
    >>> with torch.profiler.profile() as prof:
    ...     with torch.profiler.record_function("twice"):
    ...         y = torch.ones(3) * 2
    >>> [(e.name, e.cpu_parent and e.cpu_parent.name) for e in prof.events()]
    [('twice', None), ('aten::ones', 'twice'), ('aten::mul', 'twice')]
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._set_parts(("profile_range", name))

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name, self.args):
                return function(*args, **kwargs)

        return recorded  # type: ignore[return-value]


class _Emit:
    """A context for a tool that is not there: it may be disabled, not entered."""

    what = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> Self | None:
        if self.enabled:
            raise RuntimeError(
                f"{type(self).__name__}: {self.what}. torch.profiler.profile records the same "
                "events and writes a trace by export_chrome_trace(path)."
            )
        return None

    def __exit__(self, *exception: object) -> None:
        pass


class emit_nvtx(_Emit):
    """Would mark ops for NVIDIA's tools: an error unless ``enabled=False``, without CUDA.

    >>> import rushlight as torch
    >>> with torch.autograd.profiler.emit_nvtx(enabled=False):
    ...     torch.ones(2) + 1
    tensor([2., 2.])
    """

    what = "NVTX ranges need a CUDA device"


class emit_itt(_Emit):
    """Would mark ops for Intel's VTune: an error unless ``enabled=False``.

    >>> import rushlight as torch
    >>> with torch.autograd.profiler.emit_itt(enabled=False):
    ...     torch.ones(2) + 1
    tensor([2., 2.])
    """

    what = "the ITT library is not part of rushlight"


def load_nvprof(path: str) -> EventList:
    """Would read a file of nvprof, which holds what ``emit_nvtx`` marked: always an error.

    >>> import rushlight as torch
    >>> torch.autograd.profiler.load_nvprof("run.nvprof")
    Traceback (most recent call last):
        ...
    RuntimeError: load_nvprof: run.nvprof: nvprof's files hold NVTX ranges, ...
    """
    raise RuntimeError(
        f"load_nvprof: {path}: nvprof's files hold NVTX ranges, which need a CUDA device; "
        "use torch.profiler.profile"
    )


parse_nvprof_trace = load_nvprof


class EnforceUnique:
    """Raises when a key is seen twice.

    >>> import rushlight as torch
    >>> keys = torch.autograd.profiler.EnforceUnique()
    >>> keys.see("a", 1)
    """

    def __init__(self) -> None:
        self.seen: set[Any] = set()

    def see(self, *key: Any) -> None:
        """Notes a key."""
        if key in self.seen:
            raise RuntimeError("duplicate key: " + str(key))
        self.seen.add(key)


class KinetoStepTracker:
    """Counts steps, of several who count the same ones: the highest count holds.

    >>> from rushlight.autograd.profiler import KinetoStepTracker
    >>> KinetoStepTracker.init_step_count("loop")
    >>> KinetoStepTracker.increment_step("loop")
    0
    """

    _current_step = 0
    _step_dict: dict[str, int] = {}  # noqa: RUF012

    @classmethod
    def init_step_count(cls, requester: str) -> None:
        """Someone begins to count."""
        cls._step_dict[requester] = cls._current_step - 1

    @classmethod
    def erase_step_count(cls, requester: str) -> bool:
        """Someone ends counting: whether they had begun."""
        return cls._step_dict.pop(requester, None) is not None

    @classmethod
    def increment_step(cls, requester: str) -> int:
        """Someone has made a step: the step that it is now."""
        if requester not in cls._step_dict:
            cls.init_step_count(requester)
        cls._step_dict[requester] += 1
        cls._current_step = max(cls._current_step, *cls._step_dict.values())
        return cls._current_step

    @classmethod
    def current_step(cls) -> int:
        """The step that it is."""
        return cls._current_step
