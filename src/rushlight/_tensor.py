"""Methods of Tensor that are written in Python."""

from __future__ import annotations

import sys

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import preserve_format, strided
from rushlight.storage import UntypedStorage as UntypedStorage
from rushlight.utils.hooks import RemovableHandle, add_hook

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


_ops = _C._namespaces[""]
_to_copy = _ops["_to_copy"]


def _repr(self: Tensor) -> str:
    from rushlight._tensor_str import tensor_repr

    name = type(self).__name__
    return tensor_repr(self) if name in ("Tensor", "Parameter") else tensor_repr(self, name=name)


def _convert(
    self: Tensor,
    dtype: Any,
    copy: bool = False,
    memory_format: Any = None,
    device: Any = None,
) -> Tensor:
    if device is None:
        device = self.device
    elif device.type == "cuda":
        device = _C._check_device("to", device)  # with its number
    same = self.dtype is dtype and self.device == device and not copy
    if memory_format is None:
        return self if same else _to_copy(self, dtype, device)
    if same and memory_format in (preserve_format, self._format_of_strides()):
        return self
    return _to_copy(self, dtype, device, memory_format=memory_format)


def to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``to(dtype)``, ``to(device)`` or ``to(other)``: the tensor converted, or itself.

    >>> x = torch.tensor([1.7, -0.2])
    >>> x.to(torch.int64)
    tensor([1, 0])
    >>> x.to(torch.tensor([1.0], dtype=torch.float64)).dtype
    torch.float64
    >>> x.to("cpu") is x, x.to(x.dtype, copy=True) is x
    (True, False)
    >>> torch.ones(2, 3, 4, 5).to(memory_format=torch.channels_last).stride()
    (60, 1, 15, 3)
    """
    dtype = kwargs.pop("dtype", None)
    device = kwargs.pop("device", None)
    other = kwargs.pop("other", None)
    copy = kwargs.pop("copy", False)
    non_blocking = kwargs.pop("non_blocking", False)
    memory_format = kwargs.pop("memory_format", None)
    if kwargs:
        raise TypeError(f"to() got an unexpected keyword argument '{next(iter(kwargs))}'")
    flags = []
    for a in args:
        if isinstance(a, _C.dtype) or a in (float, int, bool):
            dtype = a
        elif isinstance(a, Tensor):
            other = a
        elif isinstance(a, bool):
            flags.append(a)
        elif isinstance(a, (str, _C.device, int)):
            device = a
        elif a is not None:
            raise TypeError(
                f"to() received an invalid argument of type {type(a).__name__}; "
                "expected a dtype, a device or a Tensor"
            )
    if flags:
        non_blocking = flags[0]
    if len(flags) > 1:
        copy = flags[1]
    if other is not None:
        dtype, device = other.dtype, other.device
    if device is not None:
        device = _C.device(device)
    if dtype is None:
        dtype = self.dtype
    elif not isinstance(dtype, _C.dtype):
        dtype = {float: _C.float64, int: _C.int64, bool: _C.bool}[dtype]
    if not non_blocking:
        return _convert(self, dtype, copy, memory_format, device)
    before = _C._cuda_copies_go_on(True)
    try:
        return _convert(self, dtype, copy, memory_format, device)
    finally:
        _C._cuda_copies_go_on(before)


def _caster(dtype: Any, name: str, data: str, result: str) -> Callable[..., Tensor]:
    def cast(self: Tensor, *, memory_format: Any = None) -> Tensor:
        return _convert(self, dtype, memory_format=memory_format)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"The tensor as {dtype}.\n\n>>> torch.tensor({data}).{name}()\n{result}"
    return cast


_LEGACY = {
    "Float": _C.float32, "Double": _C.float64, "Half": _C.float16, "BFloat16": _C.bfloat16,
    "Byte": _C.uint8, "Char": _C.int8, "Short": _C.int16, "Int": _C.int32, "Long": _C.int64,
    "Bool": _C.bool, "ComplexFloat": _C.complex64, "ComplexDouble": _C.complex128,
}  # fmt: skip
_STORED = {  # without a class of tensors or storages
    "UInt16": _C.uint16, "UInt32": _C.uint32, "UInt64": _C.uint64, "ComplexHalf": _C.complex32,
    "Float8_e4m3fn": _C.float8_e4m3fn, "Float8_e5m2": _C.float8_e5m2,
    "Float8_e4m3fnuz": _C.float8_e4m3fnuz, "Float8_e5m2fnuz": _C.float8_e5m2fnuz,
    "Float8_e8m0fnu": _C.float8_e8m0fnu,
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in {**_LEGACY, **_STORED}.items()}


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """``type()``: the legacy class name. ``type(dtype)``: the tensor converted.

    >>> x = torch.tensor([1, 2])
    >>> x.type()
    'torch.LongTensor'
    >>> x.type(torch.float32)
    tensor([1., 2.])
    """
    if dtype is None:
        return f"torch.{_NAMES[self.dtype]}Tensor"
    if not isinstance(dtype, _C.dtype):
        from rushlight._legacy import dtype_of

        dtype = dtype_of(dtype)
    return to(self, dtype)


def register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> RemovableHandle:
    """Calls ``hook(grad)`` when the gradient of this tensor is ready; it may return another.

    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> handle = x.register_hook(lambda grad: grad * 10)
    >>> x.sum().backward()
    >>> x.grad
    tensor([10., 10.])
    >>> handle.remove()
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return add_hook(self._hooks_dict, hook)


def register_post_accumulate_grad_hook(
    self: Tensor, hook: Callable[[Tensor], None]
) -> RemovableHandle:
    """Calls ``hook(tensor)`` after ``.grad`` of this leaf was written.

    >>> w = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> def step(w):
    ...     with torch.no_grad():
    ...         w -= 0.5 * w.grad
    ...     w.grad = None
    >>> handle = w.register_post_accumulate_grad_hook(step)
    >>> (w * w).sum().backward()
    >>> w
    tensor([0., 0.], requires_grad=True)
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if self.grad_fn is not None:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    return add_hook(self._post_accumulate_dict, hook)


def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory behind the tensor; views of one tensor have equal storages.

    >>> x = torch.zeros(4)
    >>> x.untyped_storage().nbytes()
    16
    >>> x[2:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    True
    """
    return UntypedStorage(self)


def _copy_in_storage(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy of the whole storage, made once for all tensors that share it."""
    key = ("storage", self._storage_id())
    if key not in memo:
        memo[key] = _C._storage_tensor(self).clone()
    return _C._reinterpret(
        memo[key], self.dtype, tuple(self.shape), self.stride(), self.storage_offset()
    )


def _warn_of_lost_history(node: _C.Node, what: str) -> None:
    import copy
    import warnings

    level, frame = 3, sys._getframe(2)
    while frame.f_code.co_filename == copy.__file__ and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"{what} copies values, never history: the copy of the result of {_made(node)}, is a leaf "
        "that requires grad. Say detach() before copying if no gradient is wanted, or clone() to "
        "stay in the graph.",
        UserWarning,
        stacklevel=level,
    )


def _made(node: _C.Node) -> str:
    """A node and the line of its operation."""
    where = node._where
    return f"{node.name()}, made at {f'{where[0]}:{where[1]}' if where else 'an unknown line'}"


def _finish_copy(
    copy: Tensor, what: str, requires_grad: bool, had_history: bool, cls: type
) -> Tensor:
    """The class, the flag and the mark that a copy without history gets."""
    if cls is not Tensor:
        copy = Tensor._make_subclass(cls, copy, False)
    copy.requires_grad_(requires_grad)
    if had_history:
        _C._note_copied(copy, what)
    return copy


def _kept_grad(self: Tensor) -> Tensor | None:
    """What a copy takes as its gradient: that of a leaf, or the one that retain_grad() kept.

    A parameter's stays behind: a copied model starts to accumulate anew.
    """
    if not getattr(type(self), "_copies_take_grad", True):
        return None
    return self.grad if self.is_leaf or self.retains_grad else None


def __deepcopy__(self: Tensor, memo: dict[Any, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]
    if self.grad_fn is not None:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
            f"protocol at the moment: this is the result of {_made(self.grad_fn)}. Say detach() "
            "before copying to copy the values alone, or clone() to stay in the graph."
        )
    copy = _finish_copy(
        _copy_in_storage(self, memo), "deepcopy", self.requires_grad, False, type(self)
    )
    memo[id(self)] = copy
    grad = _kept_grad(self)
    if grad is not None or self.__dict__:
        from copy import deepcopy

        _restore(copy, deepcopy((grad, self.__dict__), memo))
    return copy


def __copy__(self: Tensor) -> Tensor:
    if self.grad_fn is not None:
        _warn_of_lost_history(self.grad_fn, "copy")
    had_history = self.grad_fn is not None
    copy = _finish_copy(self.detach(), "copy", self.requires_grad, had_history, type(self))
    _restore(copy, (_kept_grad(self), self.__dict__))
    return copy


def _restore(self: Tensor, state: tuple[Any, dict[str, Any]]) -> None:
    """Gives a copy the gradient and the attributes of the original."""
    grad, attributes = state
    if grad is not None:
        if grad.dtype is not self.dtype:
            self.grad_dtype = grad.dtype
        self.grad = grad
    for name, value in attributes.items():
        setattr(self, name, value)


def _rebuild(
    cls: type,
    data: bytes,
    dtype: str,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    had_history: bool,
    device: str = "cpu",
) -> Tensor:
    flat = _C._share_buffer(bytearray(data)) if data else _ops["empty"](0, dtype=_C.uint8)
    tensor = _C._reinterpret(flat.clone(), getattr(_C, dtype), size, stride)
    if device != "cpu":
        tensor = tensor.to(device)
    return _finish_copy(tensor, "pickle", requires_grad, had_history, cls)


def _rebuild_meta(
    cls: type,
    dtype: str,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    requires_grad: bool,
    had_history: bool,
) -> Tensor:
    tensor = _ops["empty_strided"](size, stride, dtype=getattr(_C, dtype), device="meta")
    return _finish_copy(tensor, "pickle", requires_grad, had_history, cls)


def __reduce_ex__(self: Tensor, protocol: Any) -> tuple[Any, ...]:
    if self.grad_fn is not None:
        _warn_of_lost_history(self.grad_fn, "pickle")
    if self.is_meta:
        facts = (self.requires_grad, self.grad_fn is not None)
        parts = (type(self), self.dtype.name, tuple(self.shape), self.stride(), *facts)
        return _rebuild_meta, parts, (_kept_grad(self), dict(self.__dict__)), None, None, _restore
    dense = self.detach().clone()  # without gaps, the strides kept where they can be
    args = (
        type(self),
        _C._bytes(dense),
        self.dtype.name,  # pickle would look through every module for the object
        tuple(self.shape),
        dense.stride(),
        self.requires_grad,
        self.grad_fn is not None,
        *(() if self.is_cpu else (str(self.device),)),
    )
    return _rebuild, args, (_kept_grad(self), dict(self.__dict__)), None, None, _restore


def __dir__(self: Tensor) -> list[str]:
    return sorted(set(dir(type(self))) | set(self.__dict__))


def is_shared(self: Tensor) -> bool:
    """Whether other processes can see the tensor's memory, after ``share_memory_``.

    >>> x = torch.ones(2)
    >>> x.is_shared(), x.share_memory_().is_shared()
    (False, True)
    """
    sharing = sys.modules.get("rushlight.multiprocessing._sharing")
    return sharing is not None and sharing.is_shared(self)


def share_memory_(self: Tensor) -> Tensor:
    """Moves the tensor, with all views of it, to memory that other processes see too.

    >>> x = torch.arange(3).share_memory_()
    >>> x, x.is_shared()
    (tensor([0, 1, 2]), True)
    """
    from rushlight.multiprocessing._sharing import share

    return share(self)


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """A new tensor of ``data`` with this tensor's dtype.

    >>> torch.ones(2, dtype=torch.float64).new_tensor([1, 2])
    tensor([1., 2.], dtype=torch.float64)
    """
    dtype = self.dtype if dtype is None else dtype
    device = self.device if device is None else device
    return _C._tensor(data, dtype, device, requires_grad)


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """The older form of ``new_empty`` and ``new_tensor``: sizes or data, with this dtype.

    >>> x = torch.ones(2, dtype=torch.int32)
    >>> x.new([3, 4])
    tensor([3, 4], dtype=torch.int32)
    >>> x.new(2, 5).shape
    torch.Size([2, 5])
    """
    from rushlight._legacy import build

    return build("new", self.dtype, args, self.device if device is None else device)


def is_same_size(self: Tensor, other: Tensor) -> bool:
    """Whether the shapes are equal.

    >>> torch.zeros(2, 3).is_same_size(torch.ones(2, 3))
    True
    """
    return self.shape == other.shape


def is_set_to(self: Tensor, tensor: object) -> bool:
    """Whether both see the same memory with the same shape and strides.

    >>> x = torch.zeros(4)
    >>> x.is_set_to(x.view(4)), x.is_set_to(x[1:]), x.is_set_to(x.clone())
    (True, False, False)
    """
    if not isinstance(tensor, Tensor):
        kind = type(tensor).__name__
        raise TypeError(f"is_set_to(): argument 'tensor' must be Tensor, not {kind}")
    return (
        self._is_same_storage(tensor)
        and self.storage_offset() == tensor.storage_offset()
        and self.shape == tensor.shape
        and self.stride() == tensor.stride()
    )


def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Replaces each element by ``callable(element)``; slow, and outside any graph.

    >>> torch.tensor([1.0, 4.0, 9.0]).apply_(math.sqrt)
    tensor([1., 2., 3.])
    """
    if self.requires_grad:
        raise RuntimeError(
            "Can't call apply_() on a tensor that requires grad. Use x.detach().apply_() instead."
        )
    values = [callable(x) for x in self.flatten().tolist()]
    return self.copy_(_C._tensor(values, self.dtype, None, False).reshape(self.shape))


def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Replaces each element by ``callable(element, other)``; slow, and outside any graph.

    >>> torch.tensor([12, 18]).map_(torch.tensor([8, 27]), math.gcd)
    tensor([4, 9])
    """
    if self.requires_grad or tensor.requires_grad:
        raise RuntimeError(
            "Can't call map_() on tensors that require grad. Use x.detach().map_() instead."
        )
    other = tensor.expand(self.shape).flatten().tolist()
    pairs = zip(self.flatten().tolist(), other, strict=True)
    values = [callable(x, y) for x, y in pairs]
    return self.copy_(_C._tensor(values, self.dtype, None, False).reshape(self.shape))


def resize_as_(self: Tensor, tensor: Tensor, *, memory_format: Any = None) -> Tensor:
    """Gives this tensor the shape of another; new elements are uninitialised.

    >>> torch.arange(6).resize_as_(torch.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    if memory_format is preserve_format:
        memory_format = tensor._format_of_strides()
    return self.resize_(tensor.shape, memory_format=memory_format)


def set_(
    self: Tensor,
    source: Any = None,
    storage_offset: int = 0,
    size: Any = None,
    stride: Any = None,
) -> Tensor:
    """Points this tensor at the memory of ``source``, a tensor or storage; without one, at none.

    >>> x, y = torch.tensor([1.0, 2.0, 3.0]), torch.zeros(1)
    >>> y.set_(x)
    tensor([1., 2., 3.])
    >>> y[0] = 7.0
    >>> x
    tensor([7., 2., 3.])
    """
    if source is None:
        source = self.new_empty(0)
    elif not isinstance(source, Tensor):
        if getattr(source, "dtype", self.dtype) is not self.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {self.dtype} or an UntypedStorage, but got type "
                f"{source.dtype} for argument 1 'storage'"
            )
        source = source.untyped()._as_elements(self.dtype)
        if size is not None and stride is None:
            stride = _ops["empty"](tuple(size), device="meta").stride()
    size = source.shape if size is None else size
    stride = source.stride() if stride is None else stride
    return self._set_storage(
        source, tuple(size), tuple(stride), storage_offset or source.storage_offset()
    )


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor with the dtype of ``other``.

    >>> torch.tensor([1, 2]).type_as(torch.zeros(1))
    tensor([1., 2.])
    """
    return _convert(self, other.dtype)


def _in_place_view(name: str, sizes: str, args: str, result: str) -> Callable[..., Tensor]:
    def change(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._become(getattr(self, name)(*args, **kwargs))

    change.__name__ = change.__qualname__ = name + "_"
    change.__doc__ = (
        f"``{name}`` in place: changes the shape of this very tensor.\n\n"
        f">>> x = torch.zeros({sizes})\n"
        f">>> x.{name}_({args}) is x, x.shape\n"
        f"(True, torch.Size([{result}]))"
    )
    return change


def _as_class(value: Any, cls: type[Tensor]) -> Any:
    if type(value) is Tensor:
        return value.as_subclass(cls)
    if isinstance(value, (list, tuple)):
        items = [_as_class(item, cls) for item in value]
        return type(value)(items)
    return value


class DisableTorchFunctionSubclass(_C._Scope):
    """A context in which no class's ``__torch_function__`` is asked.

    >>> class Loud(torch.Tensor):
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         with torch._C.DisableTorchFunctionSubclass():
    ...             return func(*args, **(kwargs or {})).as_subclass(cls)
    >>> torch.ones(2).as_subclass(Loud) + 1
    Loud([2., 2.])
    """

    @staticmethod
    def _parts_of() -> Any:
        return (("subclasses", False),)


def _torch_function(
    cls: type[Tensor], func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
) -> Any:
    """Runs ``func`` as for plain tensors; tensors among its results become objects of ``cls``."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    return result if cls is Tensor else _as_class(result, cls)


def _grad_status(self: Tensor) -> str:
    """Why ``.grad`` is what it is, in one sentence.

    >>> torch.ones(2).grad_status
    'it does not require grad: requires_grad_() makes it a leaf that takes gradients'
    """
    from rushlight.autograd._explain import grad_status

    return grad_status(self)


def __reversed__(self: Tensor) -> Tensor:
    return self if self.dim() == 0 else self.flip(0)


_methods: dict[str, Any] = {
    f.__name__: f
    for f in (
        to, register_hook, register_post_accumulate_grad_hook, __deepcopy__, __reduce_ex__, __dir__,
        is_shared, share_memory_, new_tensor, new, is_same_size, is_set_to, apply_, map_,
        resize_as_, set_, __reversed__, __copy__, untyped_storage, type_as,
    )
}  # fmt: skip
del __dir__  # dir() of this module would call it
for _name, *_example in (
    ("unsqueeze", "2, 3", "-1", "2, 3, 1"), ("squeeze", "1, 3, 1", "0", "3, 1"),
    ("t", "2, 3", "", "3, 2"), ("transpose", "2, 3, 5", "0, 2", "5, 3, 2"),
    ("swapdims", "2, 3, 5", "0, 1", "3, 2, 5"), ("swapaxes", "2, 3, 5", "1, -1", "2, 5, 3"),
    ("as_strided", "6", "(2, 2), (3, 1)", "2, 2"),
):  # fmt: skip
    _methods[_name + "_"] = _in_place_view(_name, *_example)
_methods["type"] = type_
_methods["__torch_function__"] = classmethod(_torch_function)
_methods["grad_status"] = property(_grad_status)
_methods["layout"] = property(
    lambda self: strided,
    doc="How elements lie in memory: strided.\n\n>>> torch.ones(2).layout\ntorch.strided",
)
for _name, _dtype, _data, _result in (
    ("float", _C.float32, "[1, 2]", "tensor([1., 2.])"),
    ("double", _C.float64, "[0.5]", "tensor([0.5000], dtype=torch.float64)"),
    ("half", _C.float16, "[0.25, 70000.0]", "tensor([0.2500,    inf], dtype=torch.float16)"),
    ("bfloat16", _C.bfloat16, "[1.0, 257.0]", "tensor([  1., 256.], dtype=torch.bfloat16)"),
    ("long", _C.int64, "[1.9, -1.9]", "tensor([ 1, -1])"),
    ("int", _C.int32, "[2.5, -7.0]", "tensor([ 2, -7], dtype=torch.int32)"),
    ("short", _C.int16, "[3, 40000]", "tensor([     3, -25536], dtype=torch.int16)"),
    ("char", _C.int8, "[100, 200]", "tensor([100, -56], dtype=torch.int8)"),
    ("byte", _C.uint8, "[1, 255, 256]", "tensor([  1, 255,   0], dtype=torch.uint8)"),
    ("bool", _C.bool, "[0.0, -0.5, 3.0]", "tensor([False,  True,  True])"),
    ("chalf", _C.complex32, "[1.0, -2.0]", "tensor([ 1.+0.j, -2.+0.j], dtype=torch.complex32)"),
    ("cfloat", _C.complex64, "[1.0, -2.0]", "tensor([ 1.+0.j, -2.+0.j])"),
    ("cdouble", _C.complex128, "[1.0]", "tensor([1.+0.j], dtype=torch.complex128)"),
):
    _methods[_name] = _caster(_dtype, _name, _data, _result)
_C._add_tensor_methods(_methods)
Tensor.__repr__ = _repr  # type: ignore[method-assign, assignment]
vars(_C)["DisableTorchFunctionSubclass"] = DisableTorchFunctionSubclass  # where PyTorch has it
