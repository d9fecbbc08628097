"""Whatever device beside the CPU there is: none.

>>> import rushlight as torch
>>> torch.accelerator.is_available(), torch.accelerator.current_accelerator()
(False, None)
"""

from __future__ import annotations

from rushlight._absent import described

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "get_device_capability", "get_memory_info",
    "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
    "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


def _failing(name: str, doc: str) -> Callable[..., Any]:
    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"torch.accelerator.{name}(): Cannot access accelerator device when none is "
            "available: ask torch.accelerator.is_available() first"
        )

    return described(absent, "accelerator", name, f"{doc} Raises: there is no such device.")


def is_available() -> bool:
    """False: this build computes on the CPU only.

    >>> import rushlight as torch
    >>> torch.accelerator.is_available()
    False
    """
    return False


def current_accelerator(check_available: bool = False) -> None:
    """None: there is no such device.

    >>> import rushlight as torch
    >>> device = torch.accelerator.current_accelerator() or torch.device("cpu")
    >>> device
    device(type='cpu')
    """
    return None


def device_count() -> int:
    """0: there is no such device.

    >>> import rushlight as torch
    >>> torch.accelerator.device_count()
    0
    """
    return 0


def empty_cache() -> None:
    """Nothing to give back.

    >>> import rushlight as torch
    >>> torch.accelerator.empty_cache()
    """


def memory_allocated(device_index: Any = None, /) -> int:
    """Bytes in use on a device: 0.

    >>> import rushlight as torch
    >>> torch.accelerator.memory_allocated()
    0
    """
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated


def memory_stats(device_index: Any = None, /) -> dict[str, Any]:
    """Figures of a device's allocator: none.

    >>> import rushlight as torch
    >>> torch.accelerator.memory_stats()
    {}
    """
    return {}


def reset_peak_memory_stats(device_index: Any = None, /) -> None:
    """Nothing to start anew.

    >>> import rushlight as torch
    >>> torch.accelerator.reset_peak_memory_stats()
    """


reset_accumulated_memory_stats = reset_peak_memory_stats
synchronize = _failing("synchronize", "Waits for a device.")
current_device_index = _failing("current_device_index", "The number of the device in use.")
current_device_idx = current_device_index
set_device_index = _failing("set_device_index", "Chooses the device.")
set_device_idx = set_device_index
current_stream = _failing("current_stream", "The queue in use.")
set_stream = _failing("set_stream", "Chooses the queue.")
get_memory_info = _failing("get_memory_info", "Free and total bytes of a device.")
get_device_capability = _failing("get_device_capability", "What a device can do.")


class device_index:
    """``with device_index(i):`` another device is in use; None changes nothing.

    >>> import rushlight as torch
    >>> with torch.accelerator.device_index(None):
    ...     torch.ones(1).device
    device(type='cpu')
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            set_device_index(self.idx)

    def __exit__(self, *error: Any) -> None:
        pass
