"""``torch.profiler``: the profiler with a schedule of steps, and what is done with each trace."""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

from rushlight import _C
from rushlight.autograd import profiler as single

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from rushlight.autograd.profiler_util import EventList

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(Enum):
    """What may be recorded; here, the CPU."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(Enum):
    """What a profiler does in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """What can be recorded on this machine.

    >>> import rushlight as torch
    >>> torch.profiler.ProfilerActivity.CPU in torch.profiler.supported_activities()
    True
    """
    return {ProfilerActivity.CPU}


def kineto_available() -> bool:
    """Whether ``torch.profiler.profile`` works: it does.

    >>> import rushlight as torch
    >>> torch.profiler.kineto_available()
    True
    """
    return True


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """What to do in each step: skip some, then cycles of waiting, warming up and recording.

    ``repeat=0`` means cycles without end; ``skip_first_wait`` leaves out the first wait.

    >>> import rushlight as torch
    >>> plan = torch.profiler.schedule(wait=1, warmup=1, active=2)
    >>> [plan(step).name for step in range(5)]
    ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments: got wait={wait}, warmup={warmup}, "
            f"active={active}, repeat={repeat}, skip_first={skip_first}; active must be positive, "
            "none of the others negative."
        )
    if warmup == 0:
        import warnings

        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        at = step - skip_first + (wait if skip_first_wait else 0)
        if step < skip_first or 0 < repeat * cycle <= at:
            return ProfilerAction.NONE
        at %= cycle
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD_AND_SAVE if at == cycle - 1 else ProfilerAction.RECORD

    return action


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable[[profile], None]:
    """An ``on_trace_ready`` that writes each trace to a folder, for TensorBoard.

    >>> import rushlight as torch
    >>> import os, tempfile
    >>> from rushlight.profiler import profile, tensorboard_trace_handler
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with profile(on_trace_ready=tensorboard_trace_handler(folder)):
    ...         _ = torch.ones(2) + 1
    ...     len(os.listdir(folder))
    1
    """

    def handler(prof: profile) -> None:
        import socket
        import time

        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"Can't create directory: {dir_name}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json" + (".gz" if use_gzip else "")
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


def _default_schedule_fn(step: int) -> ProfilerAction:
    return ProfilerAction.RECORD


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class profile:
    """Records what this thread runs, in the steps that a schedule chooses.

    ``step()`` marks the end of a step. ``on_trace_ready(prof)`` is called with every finished
    trace: at the end of a cycle of the schedule, and at the end of the block. Then
    ``key_averages()``, ``events()`` and the exports tell of that trace (``acc_events``: of all).

    >>> import rushlight as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> with torch.profiler.profile(record_shapes=True) as prof:
    ...     (x * 2).sum().backward()
    >>> [row.key for row in prof.key_averages() if row.count == 1][:2]
    ['aten::mul', 'aten::sum']
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = _checked(activities)
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.schedule = _default_schedule_fn if schedule is None else schedule
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.custom_trace_id_callback = custom_trace_id_callback
        self.step_num = 0
        self.current_action = self._planned()
        self.profiler: single.profile | None = None
        self._range: single.record_function | None = None
        self._running = False
        self._metadata: dict[str, Any] = {}

    def _planned(self) -> ProfilerAction:
        action = self.schedule(self.step_num)
        if not isinstance(action, ProfilerAction):
            raise TypeError(
                f"profile: schedule({self.step_num}) gave {action!r}, not a ProfilerAction"
            )
        return action

    def __enter__(self) -> Self:
        try:
            self.start()
            return self
        except BaseException:
            self._abandon()
            raise

    def __exit__(self, *exception: object) -> None:
        try:
            self.stop()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Stops whatever runs, after an interruption."""
        self._running = False
        if self.profiler is not None and self.profiler.entered:
            self.profiler.__exit__()

    def start(self) -> None:
        """Begins, as ``with`` does."""
        if self._running:
            raise RuntimeError("profile: it is running already")
        if _C._profile_running():
            raise RuntimeError(
                "Profiler is already enabled on this thread. Leave the block of the other "
                "profiler first: profilers do not nest."
            )
        self._running = True
        if self.current_action in _RECORDS:
            self._record()
        self._open_step()

    def stop(self) -> None:
        """Ends, as ``with`` does."""
        self._close_step()
        was, self._running = self.current_action, False
        if self._is_recording():
            self._save()
            if was in _RECORDS and self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def step(self) -> None:
        """Ends a step and begins the next."""
        if not self._running:
            raise RuntimeError("profile: step() needs a profiler that runs: use it in its block")
        self._close_step()
        previous = self.current_action
        self.step_num += 1
        self.current_action = self._planned()
        if previous is ProfilerAction.RECORD_AND_SAVE or (
            self._is_recording() and self.current_action not in _RECORDS
        ):
            self._save()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if self.current_action in _RECORDS and not self._is_recording():
            self._record()
        self._open_step()

    def _is_recording(self) -> bool:
        return self.profiler is not None and self.profiler.entered

    def _record(self) -> None:
        if self.profiler is None or not self.acc_events:
            self.profiler = single.profile(
                record_shapes=self.record_shapes,
                with_flops=self.with_flops,
                profile_memory=self.profile_memory,
                with_stack=self.with_stack,
                acc_events=self.acc_events,
                custom_trace_id_callback=self.custom_trace_id_callback,
            )
        self.profiler.__enter__()

    def _save(self) -> None:
        assert self.profiler is not None
        self.profiler.__exit__()

    def _open_step(self) -> None:
        if self.record_steps:
            self._range = single.record_function(f"ProfilerStep#{self.step_num}")
            self._range.__enter__()

    def _close_step(self) -> None:
        if self._range is not None:
            self._range.__exit__(None, None, None)
            self._range = None

    def _finished(self) -> single.profile:
        if self.profiler is None or self.profiler.entered:
            raise AssertionError(
                "the profiler has no finished trace: "
                + ("leave its block first" if self._running else "no step of it was recorded")
            )
        return self.profiler

    def events(self) -> EventList:
        """The events of the trace, in the order in which they began."""
        return self._finished().function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Sums by name; by shapes or by the innermost lines as well, when asked for."""
        return self._finished().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: str, use_python_export: bool = False) -> None:
        """Writes a file for chrome://tracing and https://ui.perfetto.dev; ``.gz`` compresses it."""
        self._finished().export_chrome_trace(path, self._metadata)

    def to_html(self, path: str | os.PathLike[str] | None = None, title: str = "Profile") -> str:
        """A page to look at: returned, and written when a path is given. It needs no network.

        A flame graph by source line, in which a line's backward stands beside its forward; with
        ``with_stack=True`` lines stand under their callers. With ``profile_memory=True`` the
        memory's course and the lines that hold its peak.

        >>> import rushlight as torch
        >>> with torch.profiler.profile(profile_memory=True) as prof:
        ...     y = torch.ones(3) * 2
        >>> prof.to_html().startswith("<!doctype html>")
        True
        """
        from rushlight import _pages
        from rushlight.profiler._page import page_of

        text = page_of(self._finished(), title)
        if path is not None:
            _pages.save(path, text)
        return text

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks and their times, for a flame graph: needs ``with_stack=True``."""
        self._finished().export_stacks(path, metric)

    def toggle_collection_dynamic(
        self, enable: bool, activities: Iterable[ProfilerActivity] = ()
    ) -> None:
        """Pauses a profiler that runs, or lets it go on."""
        _C._profile_collect(enable)

    def add_metadata(self, key: str, value: str) -> None:
        """Adds a text to the traces."""
        self._metadata[key] = str(value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Adds a value to the traces, given as JSON."""
        import json

        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def get_trace_id(self) -> str | None:
        """What ``custom_trace_id_callback`` gave for the trace."""
        return None if self.profiler is None else self.profiler.trace_id

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Sets what names traces."""
        self.custom_trace_id_callback = callback


def _checked(activities: Iterable[ProfilerActivity] | None) -> set[ProfilerActivity]:
    """Those that can be recorded here, with a warning for the others."""
    wanted = supported_activities() if activities is None else set(activities)
    for activity in wanted:
        if not isinstance(activity, ProfilerActivity):
            raise TypeError(f"profile: activities are ProfilerActivity members, got {activity!r}")
    for missing in sorted(wanted - supported_activities(), key=lambda a: a.value):
        import warnings

        warnings.warn(
            f"{missing.name} is not available, disabling {missing.name} profiling", stacklevel=3
        )
    found = wanted & supported_activities()
    if not found:
        raise AssertionError(
            "No valid profiler activities found: CPU is what can be recorded on this machine"
        )
    return found
