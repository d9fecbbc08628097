"""Whatever device beside the CPU there is: CUDA's, or none.

>>> import rushlight as torch
>>> device = torch.accelerator.current_accelerator() or torch.device("cpu")
>>> torch.accelerator.is_available() == (device.type == "cuda")
True
"""

from __future__ import annotations

from rushlight._absent import described

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight._C import device as Device

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream",
    "device_count", "device_index", "empty_cache", "get_device_capability", "get_memory_info",
    "is_available", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
    "set_device_idx", "set_device_index", "set_stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether there is such a device.

    >>> import rushlight as torch
    >>> torch.accelerator.is_available() == torch.cuda.is_available()
    True
    """
    from rushlight import cuda

    return cuda.is_available()


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of device that there is, or None.

    >>> import rushlight as torch
    >>> device = torch.accelerator.current_accelerator() or torch.device("cpu")
    >>> torch.ones(2, device=device).sum().item()
    2.0
    """
    from rushlight import device

    return device("cuda") if is_available() else None


def device_count() -> int:
    """How many such devices there are.

    >>> import rushlight as torch
    >>> torch.accelerator.device_count() == torch.cuda.device_count()
    True
    """
    from rushlight import cuda

    return cuda.device_count()


def _of_cuda(name: str, doc: str, there: Any, otherwise: Any = RuntimeError) -> Callable[..., Any]:
    """A function, named as in ``cuda``; without a device, what it gives then, or an error."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if is_available():
            from rushlight import cuda

            function = getattr(cuda, there) if isinstance(there, str) else there
            return function(*args, **kwargs)
        if otherwise is RuntimeError:
            raise RuntimeError(
                f"torch.accelerator.{name}(): Cannot access accelerator device when none is "
                "available: ask torch.accelerator.is_available() first"
            )
        return dict(otherwise) if isinstance(otherwise, dict) else otherwise

    if otherwise is RuntimeError:
        return described(call, "accelerator", name, f"{doc} Raises where there is no device.")
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""{doc}

    >>> import rushlight as torch
    >>> found = torch.accelerator.{name}()
    """
    return call


empty_cache = _of_cuda("empty_cache", "Gives unused memory back.", "empty_cache", None)
memory_allocated = _of_cuda("memory_allocated", "Bytes in use.", "memory_allocated", 0)
max_memory_allocated = _of_cuda(
    "max_memory_allocated", "The most bytes that were in use.", "max_memory_allocated", 0
)
memory_reserved = _of_cuda("memory_reserved", "Bytes that are held.", "memory_reserved", 0)
max_memory_reserved = _of_cuda(
    "max_memory_reserved", "The most bytes that were held.", "max_memory_reserved", 0
)
memory_stats = _of_cuda("memory_stats", "Figures of the allocator.", "memory_stats", {})
reset_peak_memory_stats = _of_cuda(
    "reset_peak_memory_stats", "The most bytes are counted anew.", "reset_peak_memory_stats", None
)
reset_accumulated_memory_stats = _of_cuda(
    "reset_accumulated_memory_stats",
    "Sums of the allocator begin anew.",
    "reset_accumulated_memory_stats",
    None,
)
synchronize = _of_cuda("synchronize", "Waits for a device.", "synchronize")
current_device_index = _of_cuda(
    "current_device_index", "The number of the device in use.", "current_device"
)
current_device_idx = current_device_index
set_device_index = _of_cuda("set_device_index", "Chooses the device.", "set_device")
set_device_idx = set_device_index
current_stream = _of_cuda("current_stream", "The queue in use.", "current_stream")
set_stream = _of_cuda("set_stream", "Chooses the queue.", "set_stream")
get_memory_info = _of_cuda("get_memory_info", "Free and total bytes of a device.", "mem_get_info")


def _capability(device: Any = None) -> dict[str, Any]:
    import rushlight

    names = (
        "float16", "float32", "float64", "bfloat16", "complex32", "complex64", "complex128",
        "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu",
        "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
    )  # fmt: skip
    return {"supported_dtypes": {getattr(rushlight, name) for name in names}}


get_device_capability = _of_cuda(
    "get_device_capability", "The dtypes of tensors on a device, as a dict.", _capability
)


class device_index:
    """``with device_index(i):`` another device is in use; None changes nothing.

    >>> import rushlight as torch
    >>> with torch.accelerator.device_index(None):
    ...     torch.ones(1).device
    device(type='cpu')
    """

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self._before: int | None = None

    def __enter__(self) -> None:
        if self.idx is not None:
            self._before = current_device_index()
            set_device_index(self.idx)

    def __exit__(self, *error: Any) -> None:
        if self._before is not None:
            set_device_index(self._before)
