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
    """The tensor on a CUDA device: the one in use, or a given one. Raises where there is none.

    >>> try:
    ...     place = torch.ones(2).cuda().device.type
    ... except AssertionError:
    ...     place = "cuda"
    >>> place
    'cuda'
    """
    place = _C._check_device("Tensor.cuda", "cuda" if device is None else device)
    if memory_format is None:
        return self.to(place, non_blocking=non_blocking)
    return self.to(place, non_blocking=non_blocking, memory_format=memory_format)


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
    """A copy in memory that the CUDA device reads directly; itself where it lies there.

    Raises without a device: pinned memory serves an accelerator.

    >>> if torch.cuda.is_available():
    ...     assert torch.ones(2).pin_memory().is_pinned()
    """
    from rushlight.cuda._start import start

    if not _C._cuda_started() and start() is not None:
        raise RuntimeError(
            "Tensor.pin_memory(): Cannot access accelerator device when none is available: leave "
            "pinning out on a machine without one"
        )
    if not self.is_cpu:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    if _C._cuda_is_pinned(self):
        return self
    return _C._cuda_pinned(self).copy_(self.detach())


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether it lies in memory that the CUDA device reads directly.

    >>> torch.ones(2).is_pinned()
    False
    """
    return _C._cuda_is_pinned(self)


def record_stream(self: Tensor, s: Any) -> None:
    """Its memory is not reused before the work that is on the stream now is done.

    >>> torch.ones(2).record_stream(None)
    Traceback (most recent call last):
    NotImplementedError: Tensor.record_stream(): the CPU has no streams
    """
    if not self.is_cuda:
        raise NotImplementedError("Tensor.record_stream(): the CPU has no streams")
    _C._cuda_record_stream(self, s.device_index, s.cuda_stream)


_methods: dict[str, Any] = {
    f.__name__: f for f in (cpu, cuda, xpu, pin_memory, is_pinned, record_stream)
}
for _kind in ("ipu", "maia", "mps", "mtia", "vulkan", "xla", "xpu", "mkldnn", "sparse_csr"):
    _methods[f"is_{_kind}"] = property(
        lambda self: False,
        doc=f"False: tensors are dense, on the CPU.\n\n>>> torch.ones(2).is_{_kind}\nFalse",
    )
_C._add_tensor_methods(_methods)
