"""Tensors that a model learns, or keeps as state."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import strided

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "is_lazy"]


class _ParameterType(type(Tensor)):  # type: ignore[misc]
    def __instancecheck__(self, instance: object) -> bool:
        if super().__instancecheck__(instance):
            return True
        return self is Parameter and isinstance(instance, Tensor) and hasattr(instance, "_is_param")


class Parameter(Tensor, metaclass=_ParameterType):
    """A leaf tensor that requires grad; operations on it give plain tensors.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.zeros(2))
    >>> p.requires_grad, p.is_leaf
    (True, True)
    """

    _copies_take_grad = False
    __torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment]

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = _C._namespaces[""]["empty"](0)
        if data.layout is not strided:
            return data._as_parameter(requires_grad)
        kind = type(data)
        if getattr(kind, "_is_spread", False):  # a DTensor
            return data._as_parameter(requires_grad)
        if kind is Tensor or issubclass(kind, Parameter):
            return Tensor._make_subclass(cls, data.detach(), requires_grad)
        # A tensor of another class stays of that class, and is a parameter by its mark.
        made = data.detach().requires_grad_(requires_grad)
        if type(made) is not kind:
            raise RuntimeError(
                f"Parameter: Creating a Parameter from an instance of type {kind.__name__} "
                "requires that detach() returns an instance of the same type: got "
                f"{type(made).__name__}. "
                "Let __torch_function__ or __torch_dispatch__ return the class"
            )
        made._is_param = True
        return made

    def __repr__(self) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self)

    @property
    def qualified_name(self) -> str | None:
        """The name in the model that holds it, such as ``encoder.weight``; None outside of one.

        >>> import rushlight as torch
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 2))
        >>> model[0].weight.qualified_name
        '0.weight'
        """
        from rushlight.nn._names import qualified_name

        return qualified_name(self)


_C._set_parameter_type(Parameter)


class _BufferType(type(Tensor)):  # type: ignore[misc]
    def __instancecheck__(self, instance: object) -> bool:
        if self is Buffer:
            return isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)
        return super().__instancecheck__(instance)


class Buffer(Tensor, metaclass=_BufferType):
    """A tensor that becomes a buffer when it is set as an attribute of a module.

    >>> import rushlight as torch
    >>> module = torch.nn.Module()
    >>> module.steps = torch.nn.Buffer(torch.zeros(1))
    >>> list(module.state_dict())
    ['steps']
    """

    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        if data is None:
            data = _C._namespaces[""]["empty"](0)
        buffer = data.detach().requires_grad_(data.requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer waits for its shape.

    >>> import rushlight as torch
    >>> torch.nn.parameter.is_lazy(torch.nn.LazyLinear(2).weight)
    True
    """
    return isinstance(param, _Uninitialized)


class _Uninitialized:
    """A tensor whose shape is not known until the first call of its module."""

    cls_to_become: Any = None
    if TYPE_CHECKING:
        data: Any
        requires_grad: bool
        dtype: Any
        device: Any
        __class__: Any

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives the tensor its shape, with undefined content, and its final class."""
        empty = _C._namespaces[""]["empty"]
        self.data = empty(shape, device=device or self.device, dtype=dtype or self.dtype)
        self.__class__ = self.cls_to_become

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually "
            "happens in `load_state_dict` when trying to load an uninitialized parameter into an "
            "initialized one. Call `forward` to initialize the parameters before accessing their "
            "attributes."
        )

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to "
            "initialize the parameters before calling `module.share_memory()`."
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, None, self.dtype), self.__dict__ or None

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            kind: Any = type(self)
            memo[id(self)] = kind(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]

    _ALLOWED = (
        "__get__", "__set__", "half", "float", "double", "bfloat16", "to", "cpu", "cuda", "detach",
        "requires_grad_", "copy_", "type", "empty_like", "_make_subclass", "clone", "_to_copy",
    )  # fmt: skip

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in cls._ALLOWED:
            return super().__torch_function__(func, types, args, kwargs)  # type: ignore[misc]
        raise ValueError(
            f"Attempted to use an uninitialized parameter in {name}. This error happens when you "
            "are using a `LazyModule` or explicitly manipulating `torch.nn.parameter."
            f"{cls.__name__}` objects. When using LazyModules Call `forward` with a dummy batch to "
            "initialize the parameters before calling torch functions"
        )


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter whose shape comes with the first input, see the Lazy modules.

    >>> import rushlight as torch
    >>> p = torch.nn.UninitializedParameter()
    >>> p.materialize((2, 3))
    >>> type(p).__name__, p.shape
    ('Parameter', torch.Size([2, 3]))
    """

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        data = _C._namespaces[""]["empty"](0, device=device, dtype=dtype)
        return Tensor._make_subclass(cls, data, requires_grad)

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


class MaterializedBuffer(Tensor):
    """What an UninitializedBuffer becomes; operations on it give plain tensors."""

    __torch_function__ = _C._disabled_torch_function_impl  # type: ignore[assignment]


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer whose shape comes with the first input, see the Lazy modules.

    >>> import rushlight as torch
    >>> buffer = torch.nn.UninitializedBuffer()
    >>> buffer.materialize((2, 3))
    >>> buffer.shape
    torch.Size([2, 3])
    """

    cls_to_become = MaterializedBuffer

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        data = _C._namespaces[""]["empty"](0, device=device, dtype=dtype)
        buffer: Any = Tensor._make_subclass(cls, data, requires_grad)
        buffer.persistent = persistent
        buffer._is_buffer = True
        return buffer

    def __repr__(self) -> str:
        return "<UninitializedBuffer>"
