"""CUDA devices: the one in use, streams, events, memory and random numbers.

Nothing of CUDA is needed until a program asks for it. Without a device queries say so and uses
raise.

>>> import rushlight as torch
>>> torch.device("cuda" if torch.cuda.is_available() else "cpu")
device(type='cpu')
"""

from __future__ import annotations

from rushlight import _C
from rushlight._absent import OutOfMemoryError as OutOfMemoryError
from rushlight._absent import failing, of_name, rest
from rushlight.cuda import memory as memory
from rushlight.cuda import random as random
from rushlight.cuda import streams as streams
from rushlight.cuda._start import found, number_of, require
from rushlight.cuda.memory import *
from rushlight.cuda.random import *
from rushlight.cuda.streams import *

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "AcceleratorError", "CUDAGraph", "CudaError", "DeferredCudaCallError", "OutOfMemoryError",
    "can_device_access_peer", "current_blas_handle", "current_device", "device",
    "device_count", "device_of", "get_arch_list", "get_device_capability", "get_device_name",
    "get_device_properties", "get_gencode_flags", "get_sync_debug_mode", "graph",
    "graph_pool_handle", "has_half", "init", "ipc_collect", "is_available", "is_bf16_supported",
    "is_current_stream_capturing", "is_initialized", "is_tf32_supported", "make_graphed_callables",
    "set_device", "set_sync_debug_mode", "synchronize", "utilization",
]  # fmt: skip
__all__ += memory.__all__
__all__ += random.__all__
__all__ += streams.__all__

# In a module of their own, which is loaded when one is asked for.
_OF_GRAPHS = (
    "CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing",
    "make_graphed_callables",
)  # fmt: skip
if TYPE_CHECKING:
    from rushlight.cuda.graphs import CUDAGraph as CUDAGraph
    from rushlight.cuda.graphs import graph as graph
    from rushlight.cuda.graphs import graph_pool_handle as graph_pool_handle
    from rushlight.cuda.graphs import is_current_stream_capturing as is_current_stream_capturing
    from rushlight.cuda.graphs import make_graphed_callables as make_graphed_callables

has_half = True
_initialized = False  # libraries read it


class AcceleratorError(RuntimeError):
    """An error that a device reported."""


class CudaError(RuntimeError):
    """An error that CUDA reported."""


class DeferredCudaCallError(Exception):
    """A call that waited for the device failed."""


def is_available() -> bool:
    """Whether there is an NVIDIA driver with a device.

    >>> import rushlight as torch
    >>> torch.cuda.is_available() == (torch.cuda.device_count() > 0)
    True
    """
    return found()[0] > 0


def is_initialized() -> bool:
    """Whether the device was used: it is made ready when a program first asks for it.

    >>> import rushlight as torch
    >>> torch.cuda.is_initialized()
    False
    """
    return _C._cuda_started()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that used CUDA, which then does not work in it."""
    return _C._cuda_forked()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 is a type of the device: on every device there is.

    >>> import rushlight as torch
    >>> torch.cuda.is_bf16_supported() == torch.cuda.is_available()
    True
    """
    return is_available()


def is_tf32_supported() -> bool:
    """Whether products of floats may use TF32: since compute capability 8.0.

    >>> import rushlight as torch
    >>> torch.cuda.is_tf32_supported() in (True, torch.cuda.is_available())
    True
    """
    return is_available() and get_device_capability()[0] >= 8


def device_count() -> int:
    """How many devices the driver has.

    >>> import rushlight as torch
    >>> torch.cuda.device_count() >= 0
    True
    """
    return found()[0]


def get_arch_list() -> list[str]:
    """The architectures that kernels are compiled for: the devices' own.

    >>> import rushlight as torch
    >>> bool(torch.cuda.get_arch_list()) == torch.cuda.is_available()
    True
    """
    found = {"sm_{}{}".format(*get_device_capability(i)) for i in range(device_count())}
    return sorted(found)


def get_gencode_flags() -> str:
    """An empty string: kernels are compiled when they are first used.

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
    """Nothing: synchronisation is not watched.

    >>> import rushlight as torch
    >>> torch.cuda.set_sync_debug_mode("warn")
    """


def init() -> None:
    """Makes devices usable, which the first use of one does too.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.init()
    """
    require("init")


def synchronize(device: Any = None) -> None:
    """Waits until all work of the device is done; raises what kernels found wrong.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.synchronize()
    """
    _C._cuda_synchronize(number_of(device, "synchronize"))


def current_device() -> int:
    """The number of the device that this thread uses: "cuda" without a number means it.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.current_device() == 0
    """
    require("current_device")
    return _C._cuda_chosen()


def set_device(device: Any) -> None:
    """Chooses the device that this thread uses; a negative number changes nothing.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_device(0)
    """
    if not isinstance(device, int) or device >= 0:
        _C._cuda_choose(number_of(device, "set_device"))


def get_device_name(device: Any = None) -> str:
    """The name of a device.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_device_name()
    """
    return _C._cuda_properties(number_of(device, "get_device_name"))["name"]


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a device: (9, 0) for Hopper.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     major, minor = torch.cuda.get_device_capability()
    """
    facts = _C._cuda_properties(number_of(device, "get_device_capability"))
    return facts["major"], facts["minor"]


class _Properties:
    """The facts about a device."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.__dict__.update(facts)
        self.gcnArchName = ""
        self.is_multi_gpu_board = False

    def __repr__(self) -> str:
        f = self.__dict__
        return (
            f"_CudaDeviceProperties(name='{f['name']}', major={f['major']}, minor={f['minor']}, "
            f"total_memory={f['total_memory'] >> 20}MB, "
            f"multi_processor_count={f['multi_processor_count']}, "
            f"L2_cache_size={f['L2_cache_size'] >> 20}MB)"
        )


def get_device_properties(device: Any = None) -> Any:
    """The facts about a device: name, total_memory, multi_processor_count, major, minor, ...

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_device_properties(0).total_memory > 0
    """
    return _Properties(_C._cuda_properties(number_of(device, "get_device_properties")))


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether one device reads the memory of another: copies then need no way through the host's.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     assert not torch.cuda.can_device_access_peer(0, 0)
    """
    first = number_of(device, "can_device_access_peer")
    return _C._cuda_peer_access(first, number_of(peer_device, "can_device_access_peer"))


current_blas_handle = failing("cuda", "current_blas_handle", "The handle of cuBLAS.")
utilization = failing("cuda", "utilization", "How busy a device is.")


def ipc_collect() -> None:
    """Nothing to free: memory is not shared between processes.

    >>> import rushlight as torch
    >>> if torch.cuda.is_available():
    ...     torch.cuda.ipc_collect()
    """
    require("ipc_collect")


class device:
    """``with device(index):`` that device is in use. A negative index or None changes nothing.

    >>> import rushlight as torch
    >>> with torch.cuda.device(None):
    ...     torch.ones(1).device
    device(type='cpu')
    """

    def __init__(self, device: Any) -> None:
        if isinstance(device, str):
            device = _C.device(device)
        idx = device if device is None or isinstance(device, int) else device.index
        self.idx = -1 if idx is None else idx
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx < 0:
            return
        require("device", RuntimeError)
        number = number_of(self.idx, "device")
        self.prev_idx = _C._cuda_chosen()
        _C._cuda_choose(number)

    def __exit__(self, *error: Any) -> None:
        if self.prev_idx >= 0:
            _C._cuda_choose(self.prev_idx)
            self.prev_idx = -1


class device_of(device):
    """``with device_of(tensor):`` the tensor's device; nothing for those in main memory.

    >>> import rushlight as torch
    >>> with torch.cuda.device_of(torch.ones(1)):
    ...     torch.ones(1).device
    device(type='cpu')
    """

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if getattr(obj, "is_cuda", False) else -1)


def __getattr__(name: str) -> Any:
    import importlib

    if name in ("amp", "graphs", "nvtx"):
        return importlib.import_module(f"rushlight.cuda.{name}")
    if name == "default_generators":  # needs the driver, which an import must not start
        return random.default_generators
    if name in _OF_GRAPHS:
        return getattr(importlib.import_module("rushlight.cuda.graphs"), name)
    if name.endswith("Tensor"):
        from rushlight._legacy import absent_type

        return absent_type(name)
    if name in rest("cuda"):
        return of_name("cuda", name)
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.cuda", name)
