"""The memory of CUDA devices: none is in use."""

from __future__ import annotations

from rushlight._absent import failing

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "empty_cache", "get_per_process_memory_fraction", "list_gpu_processes", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "memory_usage",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors take on a device: 0.

    >>> import rushlight as torch
    >>> torch.cuda.memory_allocated()
    0
    """
    return 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that the allocator holds on a device: 0.

    >>> import rushlight as torch
    >>> torch.cuda.memory_reserved()
    0
    """
    return 0


memory_cached = memory_reserved
max_memory_allocated = memory_allocated
max_memory_reserved = max_memory_cached = memory_reserved


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Figures of the allocator: none. ``rushlight.memory_stats()`` has those of the CPU.

    >>> import rushlight as torch
    >>> torch.cuda.memory_stats()
    OrderedDict()
    """
    from collections import OrderedDict

    return OrderedDict()


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """Figures of the allocator: none.

    >>> import rushlight as torch
    >>> torch.cuda.memory_stats_as_nested_dict()
    {}
    """
    return {}


def memory_snapshot(*args: Any, **kwargs: Any) -> list[Any]:
    """The allocator's blocks: none.

    >>> import rushlight as torch
    >>> torch.cuda.memory_snapshot()
    []
    """
    return []


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The allocator's figures as text: that there is no device.

    >>> import rushlight as torch
    >>> torch.cuda.memory_summary()
    'no CUDA device: 0 bytes allocated'
    """
    return "no CUDA device: 0 bytes allocated"


def list_gpu_processes(device: Any = None) -> str:
    """The processes on a device as text: that there is no device.

    >>> import rushlight as torch
    >>> torch.cuda.list_gpu_processes()
    'no CUDA device: no processes'
    """
    return "no CUDA device: no processes"


def empty_cache() -> None:
    """Nothing to give back. ``rushlight.empty_cache()`` does it for the CPU.

    >>> import rushlight as torch
    >>> torch.cuda.empty_cache()
    """


def reset_peak_memory_stats(device: Any = None) -> None:
    """Nothing to start anew.

    >>> import rushlight as torch
    >>> torch.cuda.reset_peak_memory_stats()
    """


reset_accumulated_memory_stats = reset_peak_memory_stats
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats
mem_get_info = failing("cuda", "mem_get_info", "Free and total bytes of a device.")
memory_usage = failing("cuda", "memory_usage", "How busy a device's memory is.")
set_per_process_memory_fraction = failing(
    "cuda", "set_per_process_memory_fraction", "Limits what this process may take."
)
get_per_process_memory_fraction = failing(
    "cuda", "get_per_process_memory_fraction", "What this process may take."
)
