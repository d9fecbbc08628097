"""Switches of CUDA; they can be set without a device."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight._settings import get_float32_matmul_precision, set_float32_matmul_precision

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class _Matmul:
    """Precisions of matrix products on CUDA devices."""

    def __init__(self) -> None:
        self._exact = "none"
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """Whether products of floats may round their factors to TF32."""
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        set_float32_matmul_precision("high" if allowed else "highest")

    @property
    def fp32_precision(self) -> str:
        """The same as a name: "tf32", or "ieee" or "none" for exact products."""
        return "tf32" if self.allow_tf32 else self._exact

    @fp32_precision.setter
    def fp32_precision(self, name: str) -> None:
        if name not in ("tf32", "ieee", "none"):
            raise RuntimeError(f"matmul.fp32_precision: expected tf32, ieee or none, got {name!r}")
        self._exact = "ieee" if name == "tf32" else name
        self.allow_tf32 = name == "tf32"


matmul = _Matmul()
_attention = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}
_library = {"linalg": "default", "blas": "default"}


def is_built() -> bool:
    """Whether CUDA can be used: a driver that sees a device was found.

    >>> import rushlight as torch
    >>> torch.backends.cuda.is_built() == torch.cuda.is_available()
    True
    """
    from rushlight.cuda._start import found

    return found()[0] > 0


def _switch(kind: str) -> tuple[Callable[[], bool], Callable[[bool], None]]:
    def enabled() -> bool:
        return _attention[kind]

    def enable(enabled: bool) -> None:
        _attention[kind] = bool(enabled)
        if kind == "cudnn":
            _C._cuda_set_cudnn("attention", _attention[kind])

    enabled.__name__, enable.__name__ = f"{kind}_sdp_enabled", f"enable_{kind}_sdp"
    enabled.__doc__ = f"""Whether {kind} attention may be chosen on a CUDA device.

    >>> import rushlight as torch
    >>> torch.backends.cuda.{kind}_sdp_enabled()
    True
    """
    enable.__doc__ = f"""Sets whether {kind} attention may be chosen on a CUDA device.

    >>> import rushlight as torch
    >>> torch.backends.cuda.enable_{kind}_sdp(False)
    >>> torch.backends.cuda.{kind}_sdp_enabled()
    False
    >>> torch.backends.cuda.enable_{kind}_sdp(True)
    """
    return enabled, enable


flash_sdp_enabled, enable_flash_sdp = _switch("flash")
mem_efficient_sdp_enabled, enable_mem_efficient_sdp = _switch("mem_efficient")
math_sdp_enabled, enable_math_sdp = _switch("math")
cudnn_sdp_enabled, enable_cudnn_sdp = _switch("cudnn")


@contextmanager
def sdp_kernel(
    enable_flash: bool = True,
    enable_math: bool = True,
    enable_mem_efficient: bool = True,
    enable_cudnn: bool = True,
) -> Iterator[dict[str, Any]]:
    """``with sdp_kernel(...):`` these kinds of attention, then the former ones.

    >>> import rushlight as torch
    >>> with torch.backends.cuda.sdp_kernel(enable_flash=False):
    ...     torch.backends.cuda.flash_sdp_enabled()
    False
    >>> torch.backends.cuda.flash_sdp_enabled()
    True
    """
    switches = (
        (flash_sdp_enabled, enable_flash_sdp, enable_flash),
        (math_sdp_enabled, enable_math_sdp, enable_math),
        (mem_efficient_sdp_enabled, enable_mem_efficient_sdp, enable_mem_efficient),
        (cudnn_sdp_enabled, enable_cudnn_sdp, enable_cudnn),
    )
    with _C._Scope(("states", switches)):
        yield {}


def is_flash_attention_available() -> bool:
    """False: there is no CUDA device.

    >>> import rushlight as torch
    >>> torch.backends.cuda.is_flash_attention_available()
    False
    """
    return False


def preferred_linalg_library(backend: str | None = None) -> str:
    """The library chosen for linear algebra on CUDA devices; sets it where one is given.

    >>> import rushlight as torch
    >>> torch.backends.cuda.preferred_linalg_library()
    'default'
    """
    if backend is not None:
        _library["linalg"] = backend
    return _library["linalg"]


def preferred_blas_library(backend: str | None = None) -> str:
    """The library chosen for matrix products on CUDA devices; sets it where one is given.

    >>> import rushlight as torch
    >>> torch.backends.cuda.preferred_blas_library()
    'default'
    """
    if backend is not None:
        _library["blas"] = backend
    return _library["blas"]
