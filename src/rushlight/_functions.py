"""Functions of the ``rushlight`` namespace that are written in Python."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._redirect import foreign, redirect
from rushlight.storage import UntypedStorage

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


__all__ = [
    "allclose", "as_tensor", "asarray", "broadcast_shapes", "can_cast", "equal", "from_dlpack",
    "from_numpy", "frombuffer", "get_device", "is_complex", "is_floating_point", "is_inference",
    "is_nonzero", "is_same_size", "is_signed", "is_storage", "is_tensor", "isclose", "isin",
    "numel",
    "result_type", "scalar_tensor", "set_printoptions", "tensor", "to_dlpack", "typename",
]  # fmt: skip

_ops = _C._namespaces[""]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """How tensors are printed: digits, when to summarise, the line's width.

    >>> import rushlight as torch
    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1 / 3])
    tensor([0.33])
    >>> torch.set_printoptions(profile="default")
    """
    from rushlight import _tensor_str

    _tensor_str.set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode)


def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A new tensor with a copy of ``data``: numbers, nested sequences, arrays or buffers.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    if isinstance(data, Tensor):
        import warnings

        warnings.warn(
            "To copy construct from a tensor, it is recommended to use "
            "sourceTensor.detach().clone() or sourceTensor.detach().clone().requires_grad_(True), "
            "rather than "
            "torch.tensor(sourceTensor).",
            UserWarning,
            stacklevel=2,
        )
        if hasattr(data, "_recipe"):  # it holds other tensors: its own memory says nothing
            copied = data.detach().clone().to(dtype or data.dtype)
            return copied.requires_grad_(requires_grad)
    return _C._tensor(data, dtype, device, requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """``data`` as a tensor, sharing memory where possible.

    >>> import numpy, rushlight as torch
    >>> array = numpy.zeros(2)
    >>> torch.as_tensor(array)[0] = 5.0
    >>> array
    array([5., 0.])
    """
    if isinstance(data, UntypedStorage):
        data = data._bytes
    wanted = {k: v for k, v in (("dtype", dtype), ("device", device)) if v is not None}
    if isinstance(data, Tensor):
        return data.to(**wanted) if wanted else data
    if hasattr(data, "__cuda_array_interface__"):
        from rushlight.cuda import _sharing

        shared = _sharing.tensor_of(data)
        return shared.to(**wanted) if wanted else shared
    if type(data).__module__ == "numpy" and hasattr(data, "__array_interface__") and data.ndim > 0:
        shared = from_numpy(data)
        return shared.to(**wanted) if wanted else shared
    return _C._tensor(data, dtype, device, False)


def asarray(
    obj: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    copy: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Any array-like object as a tensor; ``copy=True`` forces new memory.

    >>> import rushlight as torch
    >>> torch.asarray([1, 2], dtype=torch.float32)
    tensor([1., 2.])
    """
    result = as_tensor(obj, dtype, device)
    if copy:
        result = result.detach().clone()
    return result.requires_grad_() if requires_grad else result


def scalar_tensor(
    s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A 0-d tensor of the default dtype.

    >>> import rushlight as torch
    >>> torch.scalar_tensor(3)
    tensor(3.)
    """
    return _C._tensor(s, dtype or _C.get_default_dtype(), device, requires_grad)


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor on the memory of a NumPy array.

    >>> import numpy, rushlight as torch
    >>> array = numpy.arange(3)
    >>> torch.from_numpy(array).mul_(2)
    tensor([0, 2, 4])
    >>> array
    array([0, 2, 4])
    """
    if not hasattr(ndarray, "__array_interface__"):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if not ndarray.flags.writeable:
        import warnings

        warnings.warn(
            "The given NumPy array is not writable, and tensors are: writing to this tensor would "
            "change memory that is meant to stay. Copy the array first.",
            UserWarning,
            stacklevel=2,
        )
    try:
        return _C._share_buffer(ndarray)
    except ValueError as error:
        if "buffer" not in str(error):
            raise
        raise TypeError(f"can't convert np.ndarray of type {ndarray.dtype} to a tensor") from None


def frombuffer(
    buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False
) -> Tensor:
    """A 1-d tensor on the memory of a buffer.

    >>> import rushlight as torch
    >>> torch.frombuffer(bytearray([1, 0, 2, 0]), dtype=torch.int16)
    tensor([1, 2], dtype=torch.int16)
    """
    view = memoryview(buffer).cast("B")
    if offset < 0 or offset >= max(view.nbytes, 1):
        raise ValueError(
            f"offset must be non-negative and no greater than buffer length ({view.nbytes}), "
            f"but got {offset}"
        )
    view = view[offset:]
    if count < 0:
        if view.nbytes % dtype.itemsize:
            raise ValueError(
                f"buffer length ({view.nbytes} bytes) after offset ({offset} bytes) must be a "
                f"multiple of element size ({dtype.itemsize})"
            )
        count = view.nbytes // dtype.itemsize
    if count * dtype.itemsize > view.nbytes or count == 0:
        raise ValueError(
            f"requested buffer length ({count} * {dtype.itemsize} bytes) after offset "
            f"({offset} bytes) must not be greater than actual buffer length ({view.nbytes} bytes)"
        )
    result = _C._reinterpret(
        _C._share_buffer(view[: count * dtype.itemsize]), dtype, (count,), (1,)
    )
    return result.requires_grad_() if requires_grad else result


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: Any = None) -> Tensor:
    """A tensor on the memory of an object with ``__dlpack__``, or of a capsule.

    >>> import numpy, rushlight as torch
    >>> torch.from_dlpack(numpy.arange(3))
    tensor([0, 1, 2])
    """
    if hasattr(ext_tensor, "__dlpack__"):
        if ext_tensor.__dlpack_device__()[0] == 2:
            from rushlight.cuda import _sharing

            ext_tensor = _sharing.capsule_of(ext_tensor)
        else:
            ext_tensor = ext_tensor.__dlpack__()
    result = _C._from_dlpack(ext_tensor)
    return result.clone() if copy else result


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule on the memory of a tensor.

    >>> import rushlight as torch
    >>> capsule = torch.to_dlpack(torch.arange(3))
    >>> torch.from_dlpack(capsule)
    tensor([0, 1, 2])
    """
    return tensor.__dlpack__() if hasattr(tensor, "__dlpack__") else _C._to_dlpack(tensor)


def broadcast_shapes(*shapes: Any) -> _C.Size:
    """The shape that tensors of these shapes broadcast to.

    >>> import rushlight as torch
    >>> torch.broadcast_shapes((2, 1), (3,), 1)
    torch.Size([2, 3])
    """
    result: list[int] = []
    for shape in shapes:
        sizes = [shape] if isinstance(shape, int) else list(shape)
        if any(size < 0 for size in sizes):
            raise ValueError(
                "broadcast_shapes: Attempting to broadcast a dimension with negative length: "
                f"{shape}"
            )
        result = [1] * (len(sizes) - len(result)) + result
        for i, size in enumerate(reversed(sizes), 1):
            if size != 1 and result[-i] not in (1, size):
                raise RuntimeError(
                    "broadcast_shapes: Shape mismatch: objects cannot be broadcast to a single "
                    f"shape: {shapes}"
                )
            result[-i] = size if size != 1 else result[-i]
    return _C.Size(result)


def get_device(input: Tensor) -> int:
    """-1: the tensor lies in main memory.

    >>> import rushlight as torch
    >>> torch.get_device(torch.ones(1))
    -1
    """
    return input.get_device()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal.

    >>> import rushlight as torch
    >>> torch.is_same_size(torch.ones(2, 3), torch.zeros(2, 3))
    True
    """
    return input.shape == other.shape


def is_signed(input: Tensor) -> bool:
    """Whether the dtype holds negative numbers.

    >>> import rushlight as torch
    >>> torch.is_signed(torch.tensor([1])), torch.is_signed(torch.tensor([1], dtype=torch.uint8))
    (True, False)
    """
    return input.dtype.is_signed


def is_tensor(obj: Any) -> bool:
    """Whether ``obj`` is a tensor.

    >>> import rushlight as torch
    >>> torch.is_tensor(torch.ones(1)), torch.is_tensor([1.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any) -> bool:
    """Whether ``obj`` is a storage.

    >>> import rushlight as torch
    >>> x = torch.ones(2)
    >>> torch.is_storage(x.untyped_storage()), torch.is_storage(x)
    (True, False)
    """
    return isinstance(obj, UntypedStorage)


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a real floating type.

    >>> import rushlight as torch
    >>> torch.is_floating_point(torch.ones(1)), torch.is_floating_point(torch.tensor([1]))
    (True, False)
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(is_floating_point, locals(), filled=False)
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex.

    >>> import rushlight as torch
    >>> torch.is_complex(torch.tensor(1j)), torch.is_complex(torch.ones(1))
    (True, False)
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(is_complex, locals(), filled=False)
    return input.is_complex()


def is_inference(input: Tensor) -> bool:
    """Whether ``inference_mode`` made the tensor.

    >>> import rushlight as torch
    >>> with torch.inference_mode():
    ...     x = torch.ones(2)
    >>> torch.is_inference(x)
    True
    """
    return input.is_inference()


def is_nonzero(input: Tensor) -> bool:
    """Whether the one element is not zero.

    >>> import rushlight as torch
    >>> torch.is_nonzero(torch.tensor([0.5])), torch.is_nonzero(torch.tensor(False))
    (True, False)
    """
    return bool(input)


def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is among others; one of both may be a number.

    >>> import rushlight as torch
    >>> torch.isin(torch.tensor([[1, 2], [3, 4]]), torch.tensor([2, 3]))
    tensor([[False,  True],
            [ True, False]])
    """
    if not isinstance(elements, Tensor) and not isinstance(test_elements, Tensor):
        raise TypeError("isin(): one of elements and test_elements must be a Tensor")
    like: Any = elements if isinstance(elements, Tensor) else test_elements
    if like.is_complex():
        raise RuntimeError(f"Unsupported input type encountered for isin(): {like.dtype}")
    parts = [
        each if isinstance(each, Tensor) else _C._tensor(each, None, like.device, False)
        for each in (elements, test_elements)
    ]
    both = _C._result_type(parts[0], parts[1])
    given, wanted = (part.detach().to(both) for part in parts)
    wanted = wanted.flatten()
    if wanted.numel() == 0 or given.numel() == 0:
        found = _ops["zeros"](given.shape, dtype=_C.bool, device=given.device)
    elif wanted.numel() <= 16:
        found = (given.unsqueeze(-1) == wanted).any(-1)
    else:
        ordered = _ops["sort"](wanted)[0]
        places = _ops["searchsorted"](ordered, given.contiguous())
        found = ordered[places.clamp(max=ordered.numel() - 1)] == given
    return ~found if invert else found


def numel(input: Tensor) -> int:
    """The number of elements.

    >>> import rushlight as torch
    >>> torch.numel(torch.ones(2, 3))
    6
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(numel, locals(), filled=False)
    return input.numel()


def typename(obj: Any) -> str:
    """The qualified name of an object's type; the legacy class name for tensors.

    >>> import rushlight as torch
    >>> torch.typename(torch.ones(1)), torch.typename(1.5)
    ('torch.FloatTensor', 'float')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    module = getattr(kind, "__module__", "")
    return kind.__qualname__ if module in ("", "builtins") else f"{module}.{kind.__qualname__}"


def result_type(tensor1: Any, tensor2: Any) -> Any:
    """The dtype that arithmetic on the two would have.

    >>> import rushlight as torch
    >>> torch.result_type(torch.tensor([1, 2]), 0.5)
    torch.float32
    """
    if not isinstance(tensor1, Tensor) and not isinstance(tensor2, Tensor):
        tensor1 = _C._tensor(tensor1, None, None, False)
    return _C._result_type(tensor1, tensor2)


_CATEGORY = {"bool": 0}


def _category(dtype: Any) -> int:
    if dtype is _C.bool:
        return 0
    return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 1


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a conversion keeps the kind of number.

    >>> import rushlight as torch
    >>> torch.can_cast(torch.int64, torch.float16), torch.can_cast(torch.float32, torch.int64)
    (True, False)
    """
    return _category(from_) <= _category(to)


def _require_tensors(name: str, input: object, other: object) -> None:
    for position, (role, value) in enumerate((("input", input), ("other", other)), 1):
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{name}(): argument '{role}' (position {position}) must be Tensor, not "
                f"{type(value).__name__}"
            )


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are equal.

    >>> import rushlight as torch
    >>> torch.equal(torch.tensor([1, 2]), torch.tensor([1, 2]))
    True
    """
    if foreign(input) or foreign(other):
        return redirect(equal, locals(), filled=False)
    _require_tensors("equal", input, other)
    if input.shape != other.shape:
        return False
    return bool((input.detach() == other.detach()).all())


def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Elementwise ``|input - other| <= atol + rtol * |other|``.

    >>> import rushlight as torch
    >>> torch.isclose(torch.tensor([1.0, 2.0]), torch.tensor([1.0000001, 2.1]))
    tensor([ True, False])
    """
    if foreign(input) or foreign(other):
        return redirect(isclose, locals(), filled=False)
    _require_tensors("isclose", input, other)
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"rtol and atol must be at least zero, but got {rtol} and {atol}")
    a, b = input.detach(), other.detach()
    close = a == b
    if equal_nan:
        close = close | (a.isnan() & b.isnan())
    if not (a.is_floating_point() or a.is_complex()):
        a, b = a.double(), b.double()
    difference = (a - b).abs()
    return close | (difference.isfinite() & (difference <= atol + rtol * b.abs()))


def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether ``isclose`` holds everywhere.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0])
    >>> torch.allclose(x, x + 0.1), torch.allclose(x, x + 0.1, atol=0.2)
    (False, True)
    """
    if foreign(input) or foreign(other):
        return redirect(allclose, locals(), filled=False)
    _require_tensors("allclose", input, other)
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def _assert(condition: Any, message: Any) -> Any:
    """``assert`` as a call, which tracing can write down.

    >>> import rushlight as torch
    >>> torch._assert(1 > 2, "never")
    Traceback (most recent call last):
        ...
    AssertionError: never
    """
    if type(condition) is not Tensor and foreign(condition):
        return redirect(_assert, locals())
    if not condition:
        raise AssertionError(message)
    return None


_C._add_tensor_methods({
    "equal": equal,
    "isclose": isclose,
    "allclose": allclose,
    "is_nonzero": is_nonzero,
})  # fmt: skip
