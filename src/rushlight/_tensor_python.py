"""Tensors as other Python objects: arrays of NumPy, DLPack capsules, numbers, text."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def numpy(self: Tensor, *, force: bool = False) -> Any:
    """A NumPy array on the same memory.

    >>> x = torch.zeros(3)
    >>> x.numpy()[1] = 5.0
    >>> x
    tensor([0., 5., 0.])
    """
    import numpy

    if self.requires_grad:
        if not force and _C.is_grad_enabled():
            raise RuntimeError(
                "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() "
                "instead."
            )
        self = self.detach()
    if self.dtype in (_C.bfloat16, _C.complex32) or self.dtype.name.startswith("float8"):
        kind = self.type().removeprefix("torch.").removesuffix("Tensor")
        wide = "cfloat" if self.dtype.is_complex else "float"
        raise TypeError(
            f"Got unsupported ScalarType {kind}: NumPy has no {self.dtype.name}; "
            f"use .{wide}() first"
        )
    return numpy.asarray(memoryview(self))


def __array__(self: Tensor, dtype: Any = None, copy: Any = None) -> Any:
    array = numpy(self)
    if dtype is not None and array.dtype != dtype:
        return array.astype(dtype)
    return array.copy() if copy else array


def __array_wrap__(
    self: Tensor, array: Any, context: Any = None, return_scalar: bool = False
) -> Tensor:
    """What NumPy's functions return for tensors: ``numpy.sin(tensor)`` is a tensor."""
    return _C._tensor(array, None, None, False)


def __array_ufunc__(self: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """NumPy's universal functions: ``numpy.add(array, tensor)`` is a tensor and has a gradient."""
    from rushlight._array_protocols import ufunc as answer

    return answer(ufunc, method, inputs, options)


def __array_function__(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's other functions: of tensors that require gradients they are tensors."""
    from rushlight._array_protocols import array_function

    return array_function(func, types, args, kwargs)


def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> Any:
    """The functions of the Python array API standard.

    >>> torch.ones(2).__array_namespace__().__array_api_version__
    '2024.12'
    """
    from rushlight import _array_api

    known = ("2021.12", "2022.12", "2023.12", "2024.12")
    if api_version is not None and api_version not in known:
        raise ValueError(f"the array API of {api_version!r} is not there: ask for one of {known}")
    return _array_api


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The tensor on a device: the array API's name of ``to``.

    >>> torch.ones(2).to_device("cpu").device
    device(type='cpu')
    """
    return self.to(device)


def __dlpack__(
    self: Tensor,
    *,
    stream: Any = None,
    max_version: Any = None,
    dl_device: Any = None,
    copy: Any = None,
) -> Any:
    shared, copied = self, bool(copy)
    if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
        if tuple(dl_device) != (1, 0) or copy is False:
            raise BufferError(
                f"__dlpack__: a tensor of {self.device} can not be shared with the device "
                f"{tuple(dl_device)}{' without a copy' if copy is False else ''}"
            )
        shared, copied = self.cpu(), True
    elif copied:
        shared = self.clone()
    if shared.is_cuda:
        from rushlight.cuda import _sharing

        _sharing.let_follow(stream, self.get_device())
    if max_version is not None and tuple(max_version) >= (1, 0):
        return _C._to_dlpack_versioned(shared, copied)
    return _C._to_dlpack(shared)


def __dlpack_device__(self: Tensor) -> tuple[int, int]:
    return (2, self.get_device()) if self.is_cuda else (1, 0)


def __cuda_array_interface__(self: Tensor) -> dict[str, Any]:
    from rushlight.cuda import _sharing

    return _sharing.interface_of(self)


def storage(self: Tensor) -> Any:
    """Deprecated: the memory behind the tensor with its dtype; see ``untyped_storage``.

    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.tensor([1, 2]).storage().tolist()
    [1, 2]
    """
    from rushlight._typed_storage import of_tensor

    return of_tensor(self)


def __format__(self: Tensor, spec: str) -> str:
    if self.dim() == 0 and (spec or type(self) is Tensor):
        try:
            return format(self.item(), spec)
        except RuntimeError:  # under vmap there is no number, but a text
            if spec:
                raise
    if spec:
        raise TypeError(f"unsupported format string passed to {type(self).__name__}.__format__")
    return str(self)


def __complex__(self: Tensor) -> complex:
    if self.numel() != 1:
        raise ValueError(
            "only one element tensors can be converted to Python scalars, got "
            f"{self.numel()} elements of shape {list(self.shape)}"
        )
    return complex(self.item())


def __init_subclass__(cls: type, **kwargs: Any) -> None:
    """A class that defines ``__torch_dispatch__`` answers by it for the ops of its objects."""
    super(Tensor, cls).__init_subclass__(**kwargs)  # type: ignore[misc]
    if "__torch_dispatch__" not in vars(cls):
        return
    own = vars(cls).get("__torch_function__")
    if own is None or own is _C._disabled_torch_function_impl:

        def bridge(cls: type, *call: Any) -> Any:
            from rushlight.utils._python_dispatch import of_class

            return of_class(cls, *call)

        cls.__torch_function__ = classmethod(bridge)  # type: ignore[attr-defined]
    if "device" not in vars(cls):
        cls.device = property(_wrapper_device)  # type: ignore[attr-defined]


def __torch_dispatch__(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Calls the op without asking classes of tensors: what ``super()`` says to a subclass."""
    return _C._disabled_torch_function_impl(func, types, tuple(args), kwargs or {})


def _make_wrapper_subclass(
    cls: Any,
    size: Any,
    strides: Any = None,
    storage_offset: int | None = None,
    memory_format: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    dispatch_sizes_strides_policy: Any = None,
    dispatch_device: bool = False,
    dispatch_layout: bool = False,
) -> Tensor:
    """A tensor of a class that holds others: of this shape, without memory, so that nothing reads
    it by mistake."""
    if "__torch_dispatch__" not in {name for base in cls.__mro__[:-2] for name in vars(base)}:
        raise RuntimeError(
            f"_make_wrapper_subclass requires a class with __torch_dispatch__: {cls.__name__} has "
            "none"
        )
    ops = _C._namespaces[""]
    options = {"dtype": dtype or _C.get_default_dtype(), "device": "meta"}
    if strides is None:
        base = ops["empty"](tuple(size), **options)
    else:
        base = ops["empty_strided"](tuple(size), tuple(strides), **options)
    made = Tensor._make_subclass(cls, base, requires_grad)
    made.__dict__["_wrapper_device"] = _C.device("cpu" if device is None else device)
    return made


def _wrapper_device(self: Any) -> Any:
    """Where a tensor that holds others says to lie."""
    return self.__dict__.get("_wrapper_device") or Tensor.device.__get__(self)


_methods: dict[str, Any] = {
    f.__name__: f
    for f in (
        numpy, storage, __array__, __array_wrap__, __array_ufunc__, __array_function__,
        __array_namespace__, to_device, __dlpack__, __dlpack_device__, __format__, __complex__,
    )
}  # fmt: skip
for _old, _today in {
    "__div__": "__truediv__", "__rdiv__": "__rtruediv__", "__idiv__": "__itruediv__",
    "__long__": "__int__", "__nonzero__": "__bool__",
}.items():  # fmt: skip
    _methods[_old] = getattr(Tensor, _today)  # Python 2's names, which older programs call
_methods["__cuda_array_interface__"] = property(__cuda_array_interface__)
_methods["__module__"] = property(lambda self: type(self).__module__)  # of objects
_methods["__init_subclass__"] = classmethod(__init_subclass__)
_methods["__torch_dispatch__"] = classmethod(__torch_dispatch__)
_methods["_make_wrapper_subclass"] = staticmethod(_make_wrapper_subclass)
_methods["__array_priority__"] = 1000  # NumPy's arrays leave operators to tensors
_C._add_tensor_methods(_methods)
