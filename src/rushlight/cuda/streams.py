"""Queues of work on a CUDA device, and points in them."""

from __future__ import annotations

from rushlight import _C
from rushlight.cuda._start import number_of, require

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream",
    "set_stream", "stream",
]  # fmt: skip

_TIMING_OFF, _BLOCKING = 2, 1
_IN_POOL = 32


class Stream:
    """A queue of work on a device: work of one queue is done in order, queues run side by side.

    A stream whose object is gone stays with the device, which has a few and hands them out again.

    >>> import rushlight as torch
    >>> isinstance(None, torch.cuda.Stream)
    False
    """

    # Those of a device and a priority, handed out in turn; none is ever given back.
    _pools: dict[tuple[int, int], list[int]] = {}  # noqa: RUF012 -- one for all

    def __init__(
        self, device: Any = None, priority: int = 0, *, stream_ptr: int | None = None, **kwargs: Any
    ) -> None:
        require("Stream", RuntimeError)
        self.device_index = number_of(device, "Stream")
        if stream_ptr is None:
            pool = Stream._pools.setdefault((self.device_index, priority), [])
            if len(pool) < _IN_POOL:
                stream_ptr = _C._cuda_stream_new(self.device_index, priority)
            else:
                stream_ptr = pool.pop(0)
            pool.append(stream_ptr)
        self.cuda_stream: int = stream_ptr
        self.device_type = 1
        self.priority = priority

    @property
    def device(self) -> Any:
        """The device it belongs to."""
        return _C.device("cuda", self.device_index)

    @property
    def stream_id(self) -> int:
        """Its number: the driver's handle."""
        return self.cuda_stream

    def synchronize(self) -> None:
        """Waits until its work is done."""
        _C._cuda_stream_synchronize(self.device_index, self.cuda_stream)

    def query(self) -> bool:
        """Whether its work is done."""
        return _C._cuda_stream_query(self.device_index, self.cuda_stream)

    def wait_event(self, event: Event) -> None:
        """What follows on this stream comes after the event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """What follows on this stream comes after what is on the other one now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """An event at this point of the stream."""
        event = Event() if event is None else event
        event.record(self)
        return event

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        require("Stream.priority_range")
        return _C._cuda_stream_priorities()

    def __enter__(self) -> Stream:
        self._scope = StreamContext(self)
        self._scope.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._scope.__exit__(*error)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (other.cuda_stream, other.device_index) == (
            self.cuda_stream,
            self.device_index,
        )

    def __hash__(self) -> int:
        return hash((self.cuda_stream, self.device_index))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ExternalStream(Stream):
    """A queue that another library made, by its address.

    >>> import rushlight as torch
    >>> issubclass(torch.cuda.ExternalStream, torch.cuda.Stream)
    True
    """

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        super().__init__(device, stream_ptr=stream_ptr)


class Event:
    """A point in a queue of work: it can be waited for, and times between two can be measured.

    It belongs to the device of the stream that it is first put in; streams of any may wait for it.

    >>> import rushlight as torch
    >>> isinstance(None, torch.cuda.Event)
    False
    """

    cuda_event = 0

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
        external: bool = False,
    ) -> None:  # fmt: skip
        require("Event", RuntimeError)
        if interprocess:
            raise NotImplementedError("torch.cuda.Event(): events between processes are not there")
        self._flags = (0 if enable_timing else _TIMING_OFF) | (_BLOCKING if blocking else 0)
        self._device = -1

    def __del__(self) -> None:
        if self.cuda_event:
            _C._cuda_event_delete(self.cuda_event)

    @property
    def device(self) -> Any:
        """The device it belongs to; None before it is put in a stream."""
        return None if self._device < 0 else _C.device("cuda", self._device)

    def record(self, stream: Stream | None = None) -> None:
        """Puts it at the end of the stream's work: the current one's by default."""
        stream = current_stream() if stream is None else stream
        if self._device < 0:
            self.cuda_event = _C._cuda_event_new(stream.device_index, self._flags)
            self._device = stream.device_index
        if self._device != stream.device_index:
            raise RuntimeError(
                f"Event device {self._device} does not match recording stream's device "
                f"{stream.device_index}."
            )
        _C._cuda_event_record(self._device, self.cuda_event, stream.cuda_stream)

    def wait(self, stream: Stream | None = None) -> None:
        """What follows on the stream comes after this event."""
        if self._device >= 0:
            stream = current_stream() if stream is None else stream
            _C._cuda_stream_wait_event(stream.device_index, stream.cuda_stream, self.cuda_event)

    def query(self) -> bool:
        """Whether the work before it is done."""
        return self._device < 0 or _C._cuda_event_query(self._device, self.cuda_event)

    def synchronize(self) -> None:
        """Waits until the work before it is done."""
        if self._device >= 0:
            _C._cuda_event_synchronize(self._device, self.cuda_event)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another; both with ``enable_timing=True``."""
        if self._device < 0 or end_event._device < 0:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if self._device != end_event._device:
            raise RuntimeError(
                f"Event device {self._device} does not match other event's device "
                f"{end_event._device}."
            )
        return _C._cuda_event_elapsed(self._device, self.cuda_event, end_event.cuda_event)

    def __repr__(self) -> str:
        return f"<torch.cuda.Event {self.cuda_event:#x}>"


def current_stream(device: Any = None) -> Stream:
    """The stream that this thread's work on a device goes to, on that in use by default.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.current_stream() == torch.cuda.default_stream()
    """
    number = number_of(device, "current_stream")
    return Stream(number, stream_ptr=_C._cuda_stream_get(number))


def default_stream(device: Any = None) -> Stream:
    """A device's first stream.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.default_stream().synchronize()
    """
    return Stream(number_of(device, "default_stream"), stream_ptr=0)


def set_stream(stream: Stream) -> None:
    """Sends this thread's work to the stream, whose device is in use from then on.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_stream(torch.cuda.current_stream())
    """
    if stream is not None:
        _C._cuda_stream_set(stream.device_index, stream.cuda_stream)


class StreamContext:
    """``with stream(s):`` the work of the block goes to the stream, whose device is in use.

    None changes nothing.

    >>> import rushlight as torch
    >>> with torch.cuda.stream(None):
    ...     torch.ones(2)
    tensor([1., 1.])
    """

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self._outer = current_stream()
            self._there = current_stream(self.stream.device_index)
            set_stream(self.stream)

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            set_stream(self._there)
            set_stream(self._outer)


def stream(stream: Stream | None) -> StreamContext:
    """``with stream(s):`` the work of the block goes to the stream, whose device is in use.

    None changes nothing.

    >>> import rushlight as torch
    >>> with torch.cuda.stream(None):
    ...     torch.ones(2)
    tensor([1., 1.])
    """
    return StreamContext(stream)
