"""The memory of CUDA devices: what tensors hold and what is kept for reuse."""

from __future__ import annotations

from rushlight import _C
from rushlight._absent import failing
from rushlight.cuda._start import found, number_of

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "empty_cache", "get_per_process_memory_fraction", "host_memory_stats",
    "host_memory_stats_as_nested_dict", "list_gpu_processes", "max_memory_allocated",
    "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated",
    "memory_cached", "memory_reserved", "memory_snapshot", "memory_stats",
    "memory_stats_as_nested_dict", "memory_summary", "memory_usage",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_host_memory_stats", "reset_peak_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip

_fractions: dict[int, float] = {}


def _figures(device: Any) -> dict[str, int]:
    """The allocator's figures; zeros where no device was used yet."""
    number = number_of(device, "memory_stats") if _C._cuda_started() else 0
    return _C._cuda_memory_stats(number)


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors take on the device.

    >>> import rushlight as torch
    >>> torch.cuda.memory_allocated()
    0
    """
    return _figures(device)["allocated"]


def memory_reserved(device: Any = None) -> int:
    """Bytes that were taken from the device, those kept for reuse included.

    >>> import rushlight as torch
    >>> torch.cuda.memory_reserved()
    0
    """
    return _figures(device)["reserved"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors took since the start or the last reset.

    >>> import rushlight as torch
    >>> torch.cuda.max_memory_allocated()
    0
    """
    return _figures(device)["peak_allocated"]


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that were taken from the device since the start or the last reset.

    >>> import rushlight as torch
    >>> torch.cuda.max_memory_reserved()
    0
    """
    return _figures(device)["peak_reserved"]


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def memory_stats(device: Any = None) -> dict[str, Any]:
    """Figures of the allocator; none without a device. ``rushlight.memory_stats()`` has the CPU's.

    >>> import rushlight as torch
    >>> torch.cuda.memory_stats()
    OrderedDict()
    """
    from collections import OrderedDict

    if not _C._cuda_started():
        return OrderedDict()
    s = _figures(device)
    blocks = {"current": s["blocks"], "allocated": s["allocations"], "freed": s["frees"]}
    held = {"current": s["allocated"], "peak": s["peak_allocated"]}
    groups = {
        "active.all": blocks,
        "active_bytes.all": held,
        "allocated_bytes.all": held,
        "allocation.all": blocks,
        "reserved_bytes.all": {"current": s["reserved"], "peak": s["peak_reserved"]},
        "segment.all": {
            "current": s["segments"], "allocated": s["segment_allocations"],
            "freed": s["segment_frees"],
        },
    }  # fmt: skip
    figures = {f"{group}.{name}": n for group, of in groups.items() for name, n in of.items()}
    figures |= {
        "num_alloc_retries": s["retries"],
        "num_device_alloc": s["segment_allocations"],
        "num_device_free": s["segment_frees"],
        "num_ooms": s["failures"],
    }
    return OrderedDict(sorted(figures.items()))


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The same figures as dicts in dicts, by the parts of their names.

    >>> import rushlight as torch
    >>> torch.cuda.memory_stats_as_nested_dict()
    {}
    """
    return _nested(memory_stats(device))


def _nested(figures: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in figures.items():
        *outer, last = name.split(".")
        into = nested
        for part in outer:
            into = into.setdefault(part, {})
        into[last] = value
    return nested


def host_memory_stats() -> dict[str, Any]:
    """Figures of pinned memory: what tensors hold of it, and what is kept for reuse.

    >>> import rushlight as torch
    >>> torch.cuda.host_memory_stats()
    OrderedDict()
    """
    from collections import OrderedDict

    if not _C._cuda_started():
        return OrderedDict()
    s = _C._cuda_host_stats()
    return OrderedDict(
        sorted(
            {
                "active_bytes.current": s["allocated"],
                "active_bytes.peak": s["peak_allocated"],
                "active_requests.allocated": s["allocations"],
                "active_requests.current": s["blocks"],
                "active_requests.freed": s["frees"],
                "allocated_bytes.current": s["reserved"],
                "allocated_bytes.peak": s["peak_reserved"],
                "allocations.allocated": s["segment_allocations"],
                "allocations.current": s["segments"],
                "allocations.freed": s["segment_frees"],
                "num_host_alloc": s["segment_allocations"],
                "num_host_free": s["segment_frees"],
            }.items()
        )
    )


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """The same figures as dicts in dicts, by the parts of their names.

    >>> import rushlight as torch
    >>> torch.cuda.host_memory_stats_as_nested_dict()
    {}
    """
    return _nested(host_memory_stats())


def reset_peak_host_memory_stats() -> None:
    """The peaks of pinned memory start anew from what is in use.

    >>> import rushlight as torch
    >>> torch.cuda.reset_peak_host_memory_stats()
    """
    _C._cuda_host_reset_peak()


def memory_snapshot(*args: Any, **kwargs: Any) -> list[Any]:
    """The allocator's blocks: not listed.

    >>> import rushlight as torch
    >>> torch.cuda.memory_snapshot()
    []
    """
    return []


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The allocator's figures as text.

    >>> import rushlight as torch
    >>> print(torch.cuda.memory_summary())
    allocated          0.0 MiB   peak          0.0 MiB
    reserved           0.0 MiB   peak          0.0 MiB
    blocks 0, allocations 0, segments 0, retries 0, out of memory 0
    """
    s = _figures(device)
    rows = [
        f"{name:<10}{s[name] / 2**20:>12.1f} MiB   peak{s['peak_' + name] / 2**20:>13.1f} MiB"
        for name in ("allocated", "reserved")
    ]
    rows.append(
        f"blocks {s['blocks']}, allocations {s['allocations']}, segments {s['segments']}, "
        f"retries {s['retries']}, out of memory {s['failures']}"
    )
    return "\n".join(rows)


def list_gpu_processes(device: Any = None) -> str:
    """The processes on a device as text: this one.

    >>> import rushlight as torch
    >>> torch.cuda.list_gpu_processes()
    'no CUDA device: no processes'
    """
    if not found()[0]:
        return "no CUDA device: no processes"
    import os

    number = number_of(device, "list_gpu_processes")
    used = memory_reserved(number) / 2**20
    return f"GPU:{number}\nprocess {os.getpid()} uses {used:.1f} MB GPU memory"


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the devices.

    ``rushlight.empty_cache()`` does it for the CPU.

    >>> import rushlight as torch
    >>> torch.cuda.empty_cache()
    """
    _C._cuda_memory_empty()


def reset_peak_memory_stats(device: Any = None) -> None:
    """The peaks start anew from what is in use.

    >>> import rushlight as torch
    >>> torch.cuda.reset_peak_memory_stats()
    """
    if _C._cuda_started():
        _C._cuda_memory_reset_peak(number_of(device, "reset_peak_memory_stats"))


reset_accumulated_memory_stats = reset_peak_memory_stats
reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the device.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     free, total = torch.cuda.mem_get_info()
    """
    return _C._cuda_memory_info(number_of(device, "mem_get_info"))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limits what this process takes to a part of the device's memory; more is out of memory.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_per_process_memory_fraction(1.0)
    """
    number = number_of(device, "set_per_process_memory_fraction")
    if not isinstance(fraction, (int, float)):
        raise TypeError(f"Invalid type for fraction argument, must be `float`: {fraction!r}")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _fractions[number] = float(fraction)
    total = _C._cuda_memory_info(number)[1]
    _C._cuda_memory_limit(number, int(fraction * total) if fraction < 1 else -1)


def get_per_process_memory_fraction(device: Any = None) -> float:
    """What part of the device's memory this process may take.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_per_process_memory_fraction() <= 1
    """
    return _fractions.get(number_of(device, "get_per_process_memory_fraction"), 1.0)


memory_usage = failing("cuda", "memory_usage", "How busy a device's memory is.")
