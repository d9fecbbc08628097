"""Methods of Tensor about where its memory lies: in main memory, always."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def cpu(self: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself: it lies in main memory."""
    return self


def cuda(
    self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Tensor:
    """Raises: there is no CUDA device."""
    _C._check_device("Tensor.cuda", "cuda")
    return self


def xpu(
    self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Tensor:
    """Raises: there is no XPU device."""
    _C._check_device("Tensor.xpu", "xpu")
    return self


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Raises: pinned memory serves an accelerator, and there is none."""
    raise RuntimeError(
        "Tensor.pin_memory(): Cannot access accelerator device when none is available: leave "
        "pinning out on a machine without one"
    )


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False: memory is pinned for accelerators."""
    return False


def record_stream(self: Tensor, s: Any) -> None:
    """Raises: streams belong to accelerators."""
    raise NotImplementedError("Tensor.record_stream(): the CPU has no streams")


_methods: dict[str, Any] = {
    f.__name__: f for f in (cpu, cuda, xpu, pin_memory, is_pinned, record_stream)
}
for _kind in ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu", "mkldnn", "sparse_csr"):
    _methods[f"is_{_kind}"] = property(
        lambda self: False, doc="False: tensors are dense, on the CPU."
    )
_C._add_tensor_methods(_methods)
