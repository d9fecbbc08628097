"""Memory of the CUDA device that other libraries see, and theirs: DLPack, array interface."""

from __future__ import annotations

from rushlight import _C
from rushlight.cuda._start import require
from rushlight.cuda.streams import Event, ExternalStream, current_stream

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_LEGACY = 1  # how these protocols call the device's first stream
_CODES = {
    _C.bool: "|b1", _C.uint8: "|u1", _C.int8: "|i1", _C.int16: "<i2", _C.int32: "<i4",
    _C.int64: "<i8", _C.float16: "<f2", _C.float32: "<f4", _C.float64: "<f8",
    _C.complex64: "<c8", _C.complex128: "<c16",
}  # fmt: skip


def let_follow(stream: int | None, device: int) -> None:
    """What the consumer's stream of a device gets next comes after what this thread's has now."""
    if stream == -1:
        return
    other = 0 if stream in (None, _LEGACY) else stream
    mine = current_stream(device)
    if other != mine.cuda_stream:
        event = Event()
        event.record(mine)
        event.wait(ExternalStream(other, device))


def capsule_of(other: Any) -> Any:
    """The DLPack capsule of another library's array, which this thread's stream may use."""
    require("from_dlpack", RuntimeError)
    number = other.__dlpack_device__()[1]
    return other.__dlpack__(stream=current_stream(number).cuda_stream or _LEGACY)


def interface_of(tensor: Any) -> dict[str, Any]:
    """``__cuda_array_interface__`` of a tensor."""
    if not tensor.is_cuda:
        raise AttributeError(
            "Can't get __cuda_array_interface__ on non-CUDA tensor type: the tensor lies on "
            f"{tensor.device}; move it with .cuda()"
        )
    if tensor.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients "
            "aren't required, use var.detach() to get Variable that doesn't require grad."
        )
    if tensor.dtype not in _CODES:
        raise TypeError(f"__cuda_array_interface__: NumPy has no dtype like {tensor.dtype}")
    size = tensor.element_size()
    return {
        "typestr": _CODES[tensor.dtype],
        "shape": tuple(tensor.shape),
        "strides": None if tensor.is_contiguous() else tuple(n * size for n in tensor.stride()),
        "data": (tensor.data_ptr() if tensor.numel() else 0, False),
        "version": 2,
    }


def tensor_of(other: Any) -> Any:
    """A tensor on the memory of an object with ``__cuda_array_interface__``."""
    require("as_tensor", RuntimeError)
    facts = other.__cuda_array_interface__
    dtypes = {code[1:]: dtype for dtype, code in _CODES.items()}
    code, shape = facts["typestr"], tuple(facts["shape"])
    if code[1:] not in dtypes or code[0] == ">":
        raise TypeError(f"as_tensor: there is no dtype like {code!r} of __cuda_array_interface__")
    dtype, strides = dtypes[code[1:]], facts.get("strides")
    if strides is None:
        steps, step = [], 1
        for n in reversed(shape):
            steps.append(step)
            step *= n
        strides = tuple(reversed(steps))
    else:
        if any(n % dtype.itemsize for n in strides):
            raise ValueError("as_tensor: strides must be multiples of the size of an element")
        strides = tuple(n // dtype.itemsize for n in strides)
    if any(n < 0 for n in strides):
        raise ValueError("as_tensor: negative strides are not supported")
    shared = _C._cuda_share(facts["data"][0], shape, strides, dtype, other)
    if (stream := facts.get("stream")) is not None:
        theirs = ExternalStream(0 if stream == _LEGACY else stream, shared.device)
        if theirs != current_stream(shared.device):
            theirs.synchronize()
    return shared
