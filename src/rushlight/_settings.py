"""Settings of the process that programs read and write: default device, precision, threads."""

from __future__ import annotations

from rushlight import _C
from rushlight._absent import OutOfMemoryError as OutOfMemoryError

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

__all__ = [
    "OutOfMemoryError", "compiled_with_cxx11_abi", "get_device_module",
    "get_float32_matmul_precision", "get_num_interop_threads", "has_cuda", "has_cudnn",
    "has_lapack", "has_mkl", "has_mkldnn", "has_mps", "has_openmp", "has_spectral",
    "is_vulkan_available", "is_warn_always_enabled", "set_default_device",
    "set_default_tensor_type", "set_float32_matmul_precision", "set_flush_denormal",
    "set_num_interop_threads", "set_warn_always",
]  # fmt: skip

has_lapack = has_openmp = True
has_cuda = has_cudnn = has_mkl = has_mkldnn = has_mps = has_spectral = False

_PRECISIONS = ("highest", "high", "medium")
_precision = "highest"
_interop_threads = 0
_warn_always = False


def set_default_device(device: Any) -> None:
    """Sets where this thread's new tensors lie: None means the CPU.

    >>> import rushlight as torch
    >>> torch.set_default_device("meta")
    >>> torch.ones(1).device
    device(type='meta')
    >>> torch.set_default_device(None)
    >>> torch.ones(1).device
    device(type='cpu')
    """
    _C._set_default_device("cpu" if device is None else device)


def _under_device(device: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with ``with device:`` around each call."""
    import functools

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with device:
            return function(*args, **kwargs)

    return call


def set_default_tensor_type(t: Any) -> None:
    """Sets the default dtype by a legacy class or its name.

    >>> import rushlight as torch
    >>> torch.set_default_tensor_type(torch.DoubleTensor)
    >>> torch.zeros(1).dtype
    torch.float64
    >>> torch.set_default_tensor_type("torch.FloatTensor")
    """
    from rushlight._legacy import dtype_of

    _C.set_default_dtype(dtype_of(t))


def get_float32_matmul_precision() -> str:
    """ "highest", "high" or "medium", as set.

    >>> import rushlight as torch
    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    return _precision


def set_float32_matmul_precision(precision: str) -> None:
    """ "highest": products of float32 are exact to float32. "high", "medium": CUDA may use TF32.

    >>> import rushlight as torch
    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    global _precision
    if precision in _PRECISIONS:
        _precision = precision
        _C._cuda_set_tf32(precision != "highest")
        return
    import warnings

    warnings.warn(
        f"set_float32_matmul_precision: expected one of {', '.join(_PRECISIONS)}, "
        f"got {precision!r}; the setting stays {_precision!r}",
        UserWarning,
        stacklevel=2,
    )


def get_num_interop_threads() -> int:
    """Threads for independent work: as set, or as many as the kernels have.

    >>> import rushlight as torch
    >>> torch.get_num_interop_threads() >= 1
    True
    """
    return _interop_threads or _C.get_num_threads()


def set_num_interop_threads(n: int) -> None:
    """Remembers the number of threads for independent work, of which there is none.

    >>> import rushlight as torch
    >>> before = torch.get_num_interop_threads()
    >>> torch.set_num_interop_threads(2)
    >>> torch.get_num_interop_threads()
    2
    >>> torch.set_num_interop_threads(before)
    """
    global _interop_threads
    if not isinstance(n, int) or n < 1:
        raise RuntimeError(f"set_num_interop_threads expects a positive integer, got {n!r}")
    _interop_threads = n


def set_flush_denormal(mode: bool) -> bool:
    """False: the CPU keeps computing with the smallest numbers exactly.

    >>> import rushlight as torch
    >>> torch.set_flush_denormal(True)
    False
    >>> torch.tensor(1e-40) > 0
    tensor(True)
    """
    return False


def set_warn_always(b: bool, /) -> None:
    """Remembers whether warnings that come once should come always.

    >>> import rushlight as torch
    >>> torch.set_warn_always(True)
    >>> torch.is_warn_always_enabled()
    True
    >>> torch.set_warn_always(False)
    """
    global _warn_always
    _warn_always = bool(b)


def is_warn_always_enabled() -> bool:
    """What ``set_warn_always`` set.

    >>> import rushlight as torch
    >>> torch.is_warn_always_enabled()
    False
    """
    return _warn_always


def is_vulkan_available() -> bool:
    """False: this build computes on the CPU only.

    >>> import rushlight as torch
    >>> torch.is_vulkan_available()
    False
    """
    return False


def compiled_with_cxx11_abi() -> bool:
    """True: the core is built with the C++11 ABI.

    >>> import rushlight as torch
    >>> torch.compiled_with_cxx11_abi()
    True
    """
    return True


def get_device_module(device: Any = None) -> ModuleType:
    """The module of a kind of device: ``torch.cpu``, ``torch.cuda`` …

    >>> import rushlight as torch
    >>> torch.get_device_module("cpu").device_count()
    1
    """
    from importlib import import_module

    kind = "cpu" if device is None else _C.device(device).type
    if kind not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError(f"get_device_module: Device '{kind}' does not have a module")
    return import_module(f"rushlight.{kind}")
