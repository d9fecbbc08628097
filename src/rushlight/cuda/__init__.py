"""CUDA as programs ask for it: there is no such device, queries say so, uses raise.

>>> import rushlight as torch
>>> torch.device("cuda" if torch.cuda.is_available() else "cpu")
device(type='cpu')
"""

from __future__ import annotations

from contextlib import nullcontext

from rushlight._absent import OutOfMemoryError as OutOfMemoryError
from rushlight._absent import absent_class, fail, failing, of_name, rest
from rushlight.cuda import memory as memory
from rushlight.cuda import random as random
from rushlight.cuda.memory import *
from rushlight.cuda.random import *

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

__all__ = [
    "AcceleratorError", "CUDAGraph", "CudaError", "DeferredCudaCallError", "Event",
    "ExternalStream", "OutOfMemoryError", "Stream", "StreamContext", "can_device_access_peer",
    "current_blas_handle", "current_device", "current_stream", "default_stream", "device",
    "device_count", "device_of", "get_arch_list", "get_device_capability", "get_device_name",
    "get_device_properties", "get_gencode_flags", "get_sync_debug_mode", "has_half", "init",
    "ipc_collect", "is_available", "is_bf16_supported", "is_current_stream_capturing",
    "is_initialized", "is_tf32_supported", "set_device", "set_stream", "set_sync_debug_mode",
    "stream", "synchronize", "utilization",
]  # fmt: skip
__all__ += memory.__all__
__all__ += random.__all__

has_half = True
_initialized = False  # libraries read it

Stream = absent_class("cuda", "Stream", "A queue of work on a CUDA device.")
ExternalStream = absent_class("cuda", "ExternalStream", "A queue that another library made.")
Event = absent_class("cuda", "Event", "A point in a queue of work.")
CUDAGraph = absent_class("cuda", "CUDAGraph", "Recorded work of a CUDA device.")


class AcceleratorError(RuntimeError):
    """An error that a device reported."""


class CudaError(RuntimeError):
    """An error that CUDA reported."""


class DeferredCudaCallError(Exception):
    """A call that waited for the device failed."""


def is_available() -> bool:
    """False: this build computes on the CPU only.

    >>> import rushlight as torch
    >>> torch.cuda.is_available()
    False
    """
    return False


def is_initialized() -> bool:
    """False: there is nothing to initialise.

    >>> import rushlight as torch
    >>> torch.cuda.is_initialized()
    False
    """
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False: there is no device.

    >>> import rushlight as torch
    >>> torch.cuda.is_bf16_supported()
    False
    """
    return False


def is_tf32_supported() -> bool:
    """False: there is no device.

    >>> import rushlight as torch
    >>> torch.cuda.is_tf32_supported()
    False
    """
    return False


def is_current_stream_capturing() -> bool:
    """False: there is no stream.

    >>> import rushlight as torch
    >>> torch.cuda.is_current_stream_capturing()
    False
    """
    return False


def device_count() -> int:
    """0.

    >>> import rushlight as torch
    >>> torch.cuda.device_count()
    0
    """
    return 0


def get_arch_list() -> list[str]:
    """An empty list: no kernels for CUDA devices.

    >>> import rushlight as torch
    >>> torch.cuda.get_arch_list()
    []
    """
    return []


def get_gencode_flags() -> str:
    """An empty string: no kernels for CUDA devices.

    >>> import rushlight as torch
    >>> torch.cuda.get_gencode_flags()
    ''
    """
    return ""


def get_sync_debug_mode() -> int:
    """0: synchronisation is not watched.

    >>> import rushlight as torch
    >>> torch.cuda.get_sync_debug_mode()
    0
    """
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Nothing: there is no device to synchronise with.

    >>> import rushlight as torch
    >>> torch.cuda.set_sync_debug_mode("warn")
    """


init = failing("cuda", "init", "Prepares the devices.")
synchronize = failing("cuda", "synchronize", "Waits for a device.")
current_device = failing("cuda", "current_device", "The number of the device in use.")
set_device = failing("cuda", "set_device", "Chooses the device.")
get_device_name = failing("cuda", "get_device_name", "The name of a device.")
get_device_capability = failing("cuda", "get_device_capability", "What a device can do.")
get_device_properties = failing("cuda", "get_device_properties", "The facts about a device.")
can_device_access_peer = failing("cuda", "can_device_access_peer", "Whether devices are linked.")
current_stream = failing("cuda", "current_stream", "The queue in use.")
default_stream = failing("cuda", "default_stream", "The first queue of a device.")
set_stream = failing("cuda", "set_stream", "Chooses the queue.")
current_blas_handle = failing("cuda", "current_blas_handle", "The handle of cuBLAS.")
ipc_collect = failing("cuda", "ipc_collect", "Frees memory that other processes have left.")
utilization = failing("cuda", "utilization", "How busy a device is.")


class device:
    """``with device(index):`` another device is in use; entering raises, for there is none.

    A negative index or None changes nothing, and so works.

    >>> import rushlight as torch
    >>> with torch.cuda.device(None):
    ...     torch.ones(1).device
    device(type='cpu')
    """

    def __init__(self, device: Any) -> None:
        self.idx = getattr(device, "index", device)

    def __enter__(self) -> None:
        if isinstance(self.idx, int) and self.idx < 0:
            return
        if self.idx is not None:
            fail("cuda", "device", RuntimeError)

    def __exit__(self, *error: Any) -> None:
        pass


class device_of(device):
    """``with device_of(tensor):`` the tensor's device; nothing for those in main memory.

    >>> import rushlight as torch
    >>> with torch.cuda.device_of(torch.ones(1)):
    ...     torch.ones(1).device
    device(type='cpu')
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if getattr(obj, "is_cuda", False) else -1)


def stream(stream: Any) -> AbstractContextManager[Any]:
    """``with stream(None):`` nothing changes; there are no streams.

    >>> import rushlight as torch
    >>> with torch.cuda.stream(None):
    ...     torch.ones(2)
    tensor([1., 1.])
    """
    if stream is not None:
        fail("cuda", "stream", RuntimeError)
    return nullcontext()


StreamContext = stream


def __getattr__(name: str) -> Any:
    if name in ("amp", "graphs", "nvtx", "streams"):
        import importlib

        return importlib.import_module(f"rushlight.cuda.{name}")
    if name.endswith("Tensor"):
        from rushlight._legacy import absent_type

        return absent_type(name)
    if name in rest("cuda"):
        return of_name("cuda", name)
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.cuda", name)
