"""Methods of Tensor about where its memory lies."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def cpu(self: Tensor, *, memory_format: Any = None) -> Tensor:
    """The tensor in main memory: itself where it is there and the memory format allows it.

    >>> x = torch.ones(2)
    >>> x.cpu() is x
    True
    """
    if memory_format is None:
        return self if self.is_cpu else self.to("cpu")
    return self.to("cpu", memory_format=memory_format)


def cuda(
    self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Tensor:
    """Raises: there is no CUDA device.

    >>> torch.ones(2).cuda()
    Traceback (most recent call last):
    AssertionError: Tensor.cuda(): Torch not compiled with CUDA enabled...
    """
    _C._check_device("Tensor.cuda", "cuda")
    return self


def xpu(
    self: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None
) -> Tensor:
    """Raises: there is no XPU device.

    >>> torch.ones(2).xpu()
    Traceback (most recent call last):
    AssertionError: Tensor.xpu(): Torch not compiled with XPU enabled...
    """
    _C._check_device("Tensor.xpu", "xpu")
    return self


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Raises: pinned memory serves an accelerator, and there is none.

    >>> torch.ones(2).pin_memory()
    Traceback (most recent call last):
    RuntimeError: Tensor.pin_memory(): Cannot access accelerator device when none is available...
    """
    raise RuntimeError(
        "Tensor.pin_memory(): Cannot access accelerator device when none is available: leave "
        "pinning out on a machine without one"
    )


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """False: memory is pinned for accelerators.

    >>> torch.ones(2).is_pinned()
    False
    """
    return False


def record_stream(self: Tensor, s: Any) -> None:
    """Raises: streams belong to accelerators.

    >>> torch.ones(2).record_stream(None)
    Traceback (most recent call last):
    NotImplementedError: Tensor.record_stream(): the CPU has no streams
    """
    raise NotImplementedError("Tensor.record_stream(): the CPU has no streams")


_methods: dict[str, Any] = {
    f.__name__: f for f in (cpu, cuda, xpu, pin_memory, is_pinned, record_stream)
}
for _kind in ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu", "mkldnn", "sparse_csr"):
    _methods[f"is_{_kind}"] = property(
        lambda self: False,
        doc=f"False: tensors are dense, on the CPU.\n\n>>> torch.ones(2).is_{_kind}\nFalse",
    )
_C._add_tensor_methods(_methods)
