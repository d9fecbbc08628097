"""The CPU as a device: what scripts ask of any device, answered for this one."""

from __future__ import annotations

from contextlib import nullcontext

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

__all__ = [
    "Event", "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip


class Stream:
    """The order of the program itself: the CPU has no other.

    >>> import rushlight as torch
    >>> torch.cpu.Stream().wait_stream(torch.cpu.current_stream())
    """

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Stream) -> None:
        """Nothing to wait for."""

    def record_event(self) -> None:
        """Nothing to record."""

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""


class Event:
    """A point of the program that is always reached.

    >>> import rushlight as torch
    >>> event = torch.cpu.Event()
    >>> event.record()
    >>> event.query()
    True
    """

    def query(self) -> bool:
        """True: it is reached."""
        return True

    def record(self, stream: Stream | None = None) -> None:
        """Nothing to record."""

    def synchronize(self) -> None:
        """Nothing to wait for."""

    def wait(self, stream: Stream | None = None) -> None:
        """Nothing to wait for."""


_stream = Stream()


def is_available() -> bool:
    """True: there is a CPU.

    >>> import rushlight as torch
    >>> torch.cpu.is_available()
    True
    """
    return True


def is_initialized() -> bool:
    """True: it needs no preparation.

    >>> import rushlight as torch
    >>> torch.cpu.is_initialized()
    True
    """
    return True


def device_count() -> int:
    """1, whatever the number of cores.

    >>> import rushlight as torch
    >>> torch.cpu.device_count()
    1
    """
    return 1


def current_device() -> str:
    """The name of the only one, "cpu".

    >>> import rushlight as torch
    >>> torch.cpu.current_device()
    'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one device.

    >>> import rushlight as torch
    >>> torch.cpu.set_device("cpu")
    """


def synchronize(device: Any = None) -> None:
    """Nothing: ops are complete when they return.

    >>> import rushlight as torch
    >>> torch.cpu.synchronize()
    """


def current_stream(device: Any = None) -> Stream:
    """The only stream.

    >>> import rushlight as torch
    >>> torch.cpu.current_stream() is torch.cpu.current_stream()
    True
    """
    return _stream


def stream(stream: Stream | None) -> AbstractContextManager[Any]:
    """A context that changes nothing.

    >>> import rushlight as torch
    >>> with torch.cpu.stream(torch.cpu.current_stream()):
    ...     torch.ones(2)
    tensor([1., 1.])
    """
    return nullcontext(stream)


StreamContext = stream


def __getattr__(name: str) -> Any:
    if name == "amp":
        import importlib

        return importlib.import_module("rushlight.cpu.amp")
    raise AttributeError(f"module 'rushlight.cpu' has no attribute '{name}'")
