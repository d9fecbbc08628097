"""The class of tensors that hold other tensors.

Such a tensor has a shape, a dtype and a history like any other, but its own memory is a single
element that stands for nothing. What it holds are its *parts*: an ordinary tensor, ``_raw``, and
whatever says where the elements of that lie. Ops reach it by ``__torch_function__`` and find their
rule by name. Rules compute with ``content(x)``, an ordinary tensor with a history, and give the
result to ``wrap``: two linear maps that are each other's adjoints, so all rules are differentiable.
"""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight.autograd.function import Function

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

_ops = _C._namespaces[""]


def stand_in(
    cls: Any, size: Iterable[int], dtype: Any, requires_grad: bool = False, device: Any = None
) -> Any:
    """An object of the class of that shape, whose memory is one element: NaN where there is one."""
    value = float("nan") if dtype.is_floating_point or dtype.is_complex else 0
    size = tuple(size)
    one = _ops["full"]((1,), value, dtype=dtype, device=device)
    return Tensor._make_subclass(
        cls, _C._reinterpret(one, dtype, size, (0,) * len(size)), requires_grad
    )


_parameters: dict[type, type] = {}


class Structured(Tensor):
    """A tensor that holds others."""

    _raw: Tensor
    _rules: dict[str, Callable[..., Any]]
    _kind = "Structured"
    _words = "structured tensors"
    _plain = "to_dense"

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return answer(cls, func, args, kwargs or {})

    # What the classes say of themselves.

    def _recipe(self) -> Any:
        """How ``wrap`` makes another like this one out of its content."""
        raise NotImplementedError

    def _take(self, other: Any) -> None:
        """Becomes like `other`, without history."""
        raise NotImplementedError

    def _to_dense(self) -> Tensor:
        raise NotImplementedError

    # What is the same for all.

    def _as_parameter(self, requires_grad: bool) -> Any:
        """The same as a parameter of a module."""
        from rushlight.nn.parameter import Parameter

        kind: Any = _parameters.get(type(self)) or type("Parameter", (type(self), Parameter), {})
        _parameters[type(self)] = kind
        size = Tensor.shape.__get__(self)  # a nested one shows another
        made = stand_in(kind, size, self.dtype, requires_grad, self.device)
        made.__dict__.update(self.detach().__dict__)
        return made

    def detach(self) -> Any:
        return self._recipe().make(self._raw)

    def detach_(self) -> Any:
        self.requires_grad_(False) if self.is_leaf else _cut(self)
        return self

    def clone(self, *, memory_format: Any = None) -> Any:
        return wrap(content(self).clone(), self._recipe())

    def to(self, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("memory_format", None)
        given = content(self)
        copied = kwargs.pop("copy", False)
        moved = given.to(*args, **kwargs)
        if moved is given:
            return self.clone() if copied else self
        return wrap(moved, self._recipe())

    def _cast(self, dtype: Any) -> Any:
        return self.to(dtype)

    def cpu(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def type_as(self, other: Any) -> Any:
        return self.to(other.dtype)

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        return False

    def is_shared(self) -> bool:
        return self._raw.is_shared()

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def _is_view(self) -> bool:
        return False

    @property
    def _version(self) -> int:  # type: ignore[override]
        return self._raw._version

    @property
    def data(self) -> Any:
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        self._take(value)

    def data_ptr(self) -> int:
        raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")

    def __dlpack__(self, **options: Any) -> Any:
        raise BufferError(
            f"Can't export tensors with layout other than torch.strided: {self._plain}() gives an "
            "ordinary tensor"
        )

    __dlpack_device__ = __dlpack__

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.numpy()

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(
            f".numpy() is not supported for {self._words}: {self._plain}() gives an ordinary tensor"
        )

    def as_subclass(self, cls: Any) -> Any:
        if isinstance(self, cls):
            return self
        raise NotImplementedError(f"Cannot access storage of {self._kind}TensorImpl")

    def untyped_storage(self) -> Any:
        raise NotImplementedError(f"Cannot access storage of {self._kind}TensorImpl")

    storage = untyped_storage

    def tolist(self) -> Any:
        return self._to_dense().tolist()

    def item(self) -> Any:
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        return self._to_dense().item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def __copy__(self) -> Any:
        made = self.detach()
        return made.requires_grad_() if self.requires_grad else made

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        from copy import deepcopy

        if id(self) in memo:
            return memo[id(self)]
        if self.grad_fn is not None:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy "
                "protocol at the moment. Say detach() before copying to copy the values alone, or "
                "clone() to stay in the graph."
            )
        made = self._recipe().copied().make(self._raw.clone())
        made.requires_grad_(self.requires_grad)
        memo[id(self)] = made
        if self.grad is not None:
            made.grad = deepcopy(self.grad, memo)
        return made

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return rebuild, (self._recipe(), self._raw.detach(), self.requires_grad)


for _name, _dtype in {
    "float": _C.float32, "double": _C.float64, "half": _C.float16, "bfloat16": _C.bfloat16,
    "int": _C.int32, "long": _C.int64, "short": _C.int16, "char": _C.int8, "byte": _C.uint8,
    "bool": _C.bool, "cfloat": _C.complex64, "cdouble": _C.complex128,
}.items():  # fmt: skip
    setattr(Structured, _name, lambda self, memory_format=None, dtype=_dtype: self._cast(dtype))


def _refusing(name: str) -> Any:
    """A method of tensors that would change the element that stands for the parts."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise refusal(type(self), name)

    method.__name__ = name
    return method


for _name in (
    "as_strided_", "resize_", "resize_as_", "set_", "squeeze_", "swapaxes_", "swapdims_", "t_",
    "transpose_", "unsqueeze_",
):  # fmt: skip
    setattr(Structured, _name, _refusing(_name))


def rebuild(recipe: Any, raw: Tensor, requires_grad: bool) -> Any:
    """One that was pickled."""
    return recipe.make(raw).requires_grad_(requires_grad)


def is_structured(x: object) -> bool:
    return isinstance(x, Structured)


# -- content and history --------------------------------------------------------------------------


class Wrap(Function):
    """The content as a structured tensor; its gradient is read where the elements lie."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, recipe: Any) -> Any:
        ctx.recipe = recipe
        return recipe.make(values)

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return ctx.recipe.read(grad), None

    @staticmethod
    def jvp(ctx: Any, values: Any, recipe: Any) -> Any:
        return ctx.recipe.make(values)


class Content(Function):
    """The content of a structured tensor; its gradient is a structured tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.recipe = x._recipe()
        return x._raw.view_as(x._raw)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return ctx.recipe.gradient(grad)

    @staticmethod
    def jvp(ctx: Any, x: Any) -> Any:
        return x._raw


class Overwrite(Function):
    """What a structured tensor becomes by an op in place."""

    @staticmethod
    def forward(ctx: Any, x: Any, result: Any) -> Any:
        ctx.mark_dirty(x)
        x._take(result)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return None, grad


def _cut(x: Any) -> None:
    raise RuntimeError("detach_(): cannot cut the history of a structured tensor; use detach()")


def wrap(values: Tensor, recipe: Any) -> Any:
    """A structured tensor of that content."""
    if values.requires_grad and _C.is_grad_enabled():
        return Wrap.apply(values, recipe)
    return recipe.make(values.detach() if values.requires_grad else values)


def content(x: Any) -> Tensor:
    """The ordinary tensor that holds the elements, in the history of `x`."""
    if x.requires_grad and _C.is_grad_enabled():
        return Content.apply(x)
    return x._raw


def overwrite(x: Any, result: Any) -> Any:
    """The op in place whose result that is."""
    if tuple(x.shape) != tuple(result.shape):
        raise RuntimeError(
            f"output with shape {list(x.shape)} doesn't match the broadcast shape "
            f"{list(result.shape)}"
        )
    if result.dtype is not x.dtype:
        result = result.to(x.dtype)
    if _C.is_grad_enabled() and (x.requires_grad or result.requires_grad):
        if x.requires_grad and x.is_leaf:
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation."
            )
        return Overwrite.apply(x, result)
    x._take(result)
    return x


# -- rules ----------------------------------------------------------------------------------------

_pointwise: dict[str, int] = {}


def pointwise_inputs(name: str) -> int:
    """How many tensors a pointwise op takes; 0 for another op."""
    if not _pointwise:
        for entry in _C._registry():
            if entry["family"] == "pointwise":
                inside = entry["signature"].split("->")[0]
                _pointwise.setdefault(entry["name"], inside.count("Tensor"))
    return _pointwise.get(name, 0)


def name_of(func: Any) -> str:
    """The name under which a rule for the op is kept."""
    name = getattr(func, "__name__", "")
    if name == "__get__":
        return "." + getattr(func.__self__, "__name__", "")
    return str(name)


def answer(cls: Any, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an op gives that one of the class takes part in."""
    name = name_of(func)
    out = kwargs.get("out")
    if out is not None and not any(map(_holds_structured, (*args, *_others(kwargs)))):
        return into(out, func(*args, **{k: v for k, v in kwargs.items() if k != "out"}), name)
    rule = cls._rules.get(name) or own_method(cls, name)
    if rule is not None and name not in cls._rules and not is_structured(args[0] if args else None):
        raise refusal(cls, name)  # an ordinary tensor is to be written
    if rule is None and pointwise_inputs(name):
        rule = cls._rules.get("pointwise")
        if rule is not None:
            if kwargs.get("out") is not None:
                return into(kwargs.pop("out"), rule(func, *args, **kwargs), name)
            return rule(func, *args, **kwargs)
    if rule is None and name.endswith("_") and not name.endswith("__"):
        return in_place(cls, name, args, kwargs)
    if rule is None:
        raise refusal(cls, name)
    if kwargs.get("out") is not None:
        return into(kwargs.pop("out"), rule(*args, **kwargs), name)
    kwargs.pop("out", None)
    return rule(*args, **kwargs)


def _others(kwargs: dict[str, Any]) -> list[Any]:
    return [v for k, v in kwargs.items() if k != "out"]


def _holds_structured(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_holds_structured, value))
    return is_structured(value)


def own_method(cls: Any, name: str) -> Any:
    """A method that the class defines itself, for the function of that name."""
    for base in cls.__mro__:
        if base is Tensor:
            return None
        if name in vars(base) and not name.startswith("__"):
            return vars(base)[name]
    return None


def in_place(cls: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    plain = getattr(Tensor, name[:-1], None) or _ops.get(name[:-1])
    if plain is None or (name[:-1] not in cls._rules and not pointwise_inputs(name[:-1])):
        raise refusal(cls, name)
    x = args[0]
    result = plain(*args, **kwargs)
    if is_structured(x):
        return overwrite(x, result)
    if is_structured(result):
        result = result._to_dense()
    return x.copy_(result)


def into(out: Any, result: Any, name: str) -> Any:
    """The result, stored where ``out=`` says."""
    if is_structured(out) and is_structured(result):
        out._take(result)
        return out
    if is_structured(result):
        result = result._to_dense()
    if is_structured(out):
        return out.copy_(result)
    return _C._write_out(out, result, name)


def refusal(cls: Any, name: str) -> NotImplementedError:
    name = name.removeprefix(".")
    return NotImplementedError(
        f"Could not run 'aten::{name}' with arguments from the '{cls._kind}CPU' backend: {name} is "
        f"not defined for {cls._words}. Fix: x.{cls._plain}() gives an ordinary tensor."
    )


_C._set_structured_type(Structured)
