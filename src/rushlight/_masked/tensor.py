"""Tensors that carry their mask."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._layout import strided
from rushlight._masked import functions
from rushlight._structured.base import Structured, content, is_structured, stand_in, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ops = _C._namespaces[""]
RULES: dict[str, Callable[..., Any]] = {}


class Mask:
    """The recipe of a masked tensor: its mask."""

    __slots__ = ("mask",)

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def __reduce__(self) -> tuple[Any, ...]:
        return Mask, (self.mask,)

    def copied(self) -> Mask:
        return Mask(self.mask.clone())

    def make(self, data: Tensor) -> Any:
        made = stand_in(MaskedTensor, data.shape, data.dtype)
        made._held, made._raw = self, data
        return made

    def read(self, grad: Any) -> Tensor:
        """What is masked out takes no gradient, whatever was computed there."""
        given = content(grad) if is_structured(grad) else grad
        mask = self.mask & grad._held.mask if isinstance(grad, MaskedTensor) else self.mask
        return _ops["where"](mask, given, _ops["zeros"]((), dtype=given.dtype))

    def gradient(self, grad: Tensor) -> Any:
        return wrap(grad, self)


class MaskedTensor(Structured):
    """A tensor some of whose elements are unspecified: where its mask is False.

    Ops compute with the rest alone: what is masked out enters no sum and no gradient.

    >>> import rushlight as torch
    >>> data, mask = torch.tensor([1.0, 2.0, 6.0]), torch.tensor([True, False, True])
    >>> x = torch.masked.masked_tensor(data, mask)
    >>> x
    MaskedTensor(
      [  1.0000,       --,   6.0000]
    )
    >>> x.mean()
    MaskedTensor(  3.5000, True)
    """

    _held: Mask
    _kind = "MaskedTensor"
    _words = "masked tensors"
    _plain = "get_data"
    _rules = RULES

    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> Any:
        _check(data, mask)
        data, mask = _plainly(data), _plainly(mask)
        if data.requires_grad:
            import warnings

            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        return Mask(mask.detach()).make(data.detach()).requires_grad_(requires_grad)

    def __init__(self, data: Any, mask: Any, requires_grad: bool = False) -> None:
        pass

    def _recipe(self) -> Mask:
        return self._held

    def _take(self, other: Any) -> None:
        if not isinstance(other, MaskedTensor):
            raise TypeError("a masked tensor takes the elements of another alone")
        self._held, self._raw = other._held, other._raw

    def _to_dense(self) -> Tensor:
        return self.to_tensor(0)

    def get_data(self) -> Tensor:
        """All elements, those that are masked out too."""
        return content(self)

    def get_mask(self) -> Tensor:
        """Where elements are specified."""
        return self._held.mask

    def to_tensor(self, value: Any) -> Tensor:
        """An ordinary tensor with `value` where nothing is specified."""
        data = content(self)
        return _ops["where"](self.get_mask(), data, _ops["full"]((), value, dtype=data.dtype))

    def is_sparse_coo(self) -> bool:
        """Whether the data are sparse: never, they are written out."""
        return False

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        """Whether the data are sparse: never, they are written out."""
        return False

    def is_contiguous(self, *args: Any, **kwargs: Any) -> bool:
        return self._raw.is_contiguous()

    def stride(self, dim: Any = None) -> Any:
        return self._raw.stride() if dim is None else self._raw.stride(dim)

    def tolist(self) -> Any:
        raise RuntimeError(".tolist() is not supported for masked tensors: use to_tensor(value)")

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for masked tensors: use to_tensor(value)")

    def __len__(self) -> int:
        return len(self._raw)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if self._raw.dim() == 0:
            shown = _number(self._raw.item()) if bool(self.get_mask()) else "--"
            return f"MaskedTensor({shown}, {bool(self.get_mask())})"
        return f"MaskedTensor(\n{_lines(self._raw.tolist(), self.get_mask().tolist(), '  ')}\n)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __getitem__(self, index: Any) -> Any:
        return _both(lambda t: t[index], self)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError("masked tensors are not written by index: make a new one")


def _check(data: Any, mask: Any) -> None:
    if not isinstance(data, Tensor) or isinstance(data, MaskedTensor):
        raise TypeError("data must be a Tensor")
    if not isinstance(mask, Tensor) or isinstance(mask, MaskedTensor):
        raise TypeError("mask must be a Tensor")
    if mask.dtype is not _C.bool:
        raise TypeError("mask must have dtype bool.")
    if data.is_complex():
        raise TypeError(f"{data.dtype} is not supported in MaskedTensor.")
    if data.layout is not mask.layout:
        raise TypeError(
            f"data and mask must have the same layout: got {data.layout} and {mask.layout}"
        )
    if tuple(data.shape) != tuple(mask.shape):
        raise ValueError(
            f"data.size() must equal mask.size(): got {tuple(data.shape)} and {tuple(mask.shape)}"
        )


def _plainly(x: Any) -> Tensor:
    return x if x.layout is strided else x.to_dense()


def _number(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _lines(values: Any, mask: Any, indent: str) -> str:
    if not values or not isinstance(values[0], list):
        shown = [_number(v) if m else "--".rjust(8) for v, m in zip(values, mask, strict=True)]
        return f"{indent}[{', '.join(shown)}]"
    rows = [_lines(v, m, indent + "  ") for v, m in zip(values, mask, strict=True)]
    return f"{indent}[\n" + ",\n".join(rows) + f"\n{indent}]"


# -- rules ----------------------------------------------------------------------------------------


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function the rule of these ops."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            RULES[name] = function
        return function

    return keep


def _both(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The op on the data and on the mask."""

    def side(read: Callable[[Any], Any]) -> Any:
        def convert(a: Any) -> Any:
            if isinstance(a, MaskedTensor):
                return read(a)
            return [convert(b) for b in a] if isinstance(a, list) else a

        given = [list(a) if isinstance(a, tuple) and _any_masked(a) else a for a in args]
        return func(*map(convert, given), **kwargs)

    data, mask = side(content), side(lambda x: x.get_mask())
    if isinstance(data, (tuple, list)):
        return tuple(wrap(d, Mask(m)) for d, m in zip(data, mask, strict=True))
    return wrap(data, Mask(mask))


def _any_masked(values: Sequence[Any]) -> bool:
    return any(isinstance(v, MaskedTensor) for v in values)


@rule("pointwise")
def pointwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    masked = [a for a in (*args, *kwargs.values()) if isinstance(a, MaskedTensor)]
    mask = masked[0].get_mask()
    for other in masked[1:]:
        if other.get_mask() is not mask and not other.get_mask().equal(mask):
            raise ValueError(
                "Input masks must match. If you need support for this, make the masks equal first: "
                f"{func.__name__} got masks of shapes {tuple(mask.shape)} and "
                f"{tuple(other.get_mask().shape)} that differ"
            )

    def plain(a: Any) -> Any:
        return content(a) if isinstance(a, MaskedTensor) else a

    found = func(*map(plain, args), **{k: plain(v) for k, v in kwargs.items()})
    return wrap(found, Mask(mask.expand(found.shape)))


for _name in (
    "t", "transpose", "swapaxes", "swapdims", "reshape", "view", "flatten", "unflatten", "select",
    "narrow", "split", "chunk", "expand", "unsqueeze", "squeeze", "permute", "unbind", "cat",
    "stack", "contiguous", "index_select", "flip", "roll", "movedim", "repeat", "diagonal",
    "tril", "triu", "gather", "take_along_dim", "tensor_split", "hstack", "vstack", "tile",
):  # fmt: skip
    _func = _ops.get(_name) or getattr(Tensor, _name, None)
    if _func is not None:
        RULES[_name] = lambda *args, _func=_func, **kwargs: _both(_func, *args, **kwargs)
for _name in ("T", "mT"):
    RULES["." + _name] = lambda input, _name=_name: _both(lambda t: getattr(t, _name), input)


def _like(name: str) -> None:
    func = _ops[name]

    @rule(name)
    def like(input: Any, *args: Any, **options: Any) -> Any:
        wanted = options.pop("requires_grad", False)
        made = wrap(func(input._raw, *args, **options), input._held)
        return made.requires_grad_() if wanted else made


for _name in ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"):
    if _name in _ops:
        _like(_name)


def _reduction(name: str, home: Callable[..., Tensor]) -> None:
    @rule(name)
    def reduce(
        input: Any, dim: Any = None, *args: Any, keepdim: bool = False, **options: Any
    ) -> Any:
        if args and isinstance(args[0], bool) and name not in ("var", "std"):
            keepdim, args = args[0], args[1:]
        found = home(input, dim, *args, keepdim=keepdim, **options)
        mask = input.get_mask()
        dims = functions._dims(dim, mask.dim())
        left = mask.any(dims, keepdim) if mask.dim() else mask
        return wrap(found, Mask(left))


for _name in ("sum", "mean", "amax", "amin", "prod", "argmax", "argmin", "var", "std"):
    _reduction(_name, getattr(functions, _name))


@rule("norm")
def norm(input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    order = 2 if p == "fro" else p
    found = functions.norm(input, order, dim, keepdim=keepdim, dtype=dtype)
    mask = input.get_mask()
    return wrap(found, Mask(mask.any(functions._dims(dim, mask.dim()), keepdim)))


@rule("all")
def all_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    data = content(input).bool() | ~input.get_mask()
    mask = input.get_mask()
    if dim is None:
        return wrap(data.all(), Mask(mask.any()))
    return wrap(data.all(dim, keepdim), Mask(mask.any(dim, keepdim)))


@rule("any")
def any_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    data = content(input).bool() & input.get_mask()
    mask = input.get_mask()
    if dim is None:
        return wrap(data.any(), Mask(mask.any()))
    return wrap(data.any(dim, keepdim), Mask(mask.any(dim, keepdim)))


def _along(name: str) -> None:
    @rule(name)
    def along(input: Any, dim: int, dtype: Any = None, **options: Any) -> Any:
        found = getattr(functions, name)(input, dim, dtype=dtype)
        return wrap(found, input._held)


for _name in ("softmax", "log_softmax", "softmin", "cumsum", "cumprod"):
    _along(_name)


@rule("where")
def where(condition: Any, input: Any, other: Any) -> Any:
    if isinstance(condition, MaskedTensor):
        condition = condition.get_data()
    data = _ops["where"](condition, _part(input, True), _part(other, True))
    mask = _ops["where"](condition, _part(input, False), _part(other, False))
    return wrap(data, Mask(mask.bool().expand(data.shape)))


def _part(x: Any, data: bool) -> Any:
    if isinstance(x, MaskedTensor):
        return content(x) if data else x.get_mask()
    if data:
        return x
    return (
        _ops["ones"](x.shape, dtype=_C.bool)
        if isinstance(x, Tensor)
        else _C._tensor(True, _C.bool, None, False)
    )


def _plain_unary(name: str) -> None:
    func = _ops[name]
    RULES[name] = lambda input, *args, **kwargs: pointwise(func, input, *args, **kwargs)


for _name in ("nan_to_num", "clamp", "clip", "square", "relu", "floor_divide", "true_divide"):
    if _name in _ops:
        _plain_unary(_name)


@rule("__rsub__", "rsub")
def rsub(input: Any, other: Any) -> Any:
    return -input + other


@rule("__rtruediv__")
def rtruediv(input: Any, other: Any) -> Any:
    return input.reciprocal() * other


@rule("__rpow__")
def rpow(input: Any, other: Any) -> Any:
    return wrap(other ** content(input), input._held)


@rule("equal")
def equal(input: Any, other: Any) -> bool:
    if not isinstance(input, MaskedTensor) or not isinstance(other, MaskedTensor):
        return False
    return input.get_mask().equal(other.get_mask()) and input.to_tensor(0).equal(other.to_tensor(0))


def masked_tensor(data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
    """A masked tensor with a copy of the data, outside any graph.

    >>> import rushlight as torch
    >>> torch.masked.masked_tensor(torch.tensor([1, 2]), torch.tensor([True, False]))
    MaskedTensor(
      [1,       --]
    )
    """
    _check(data, mask)
    return MaskedTensor(data.detach().clone(), mask.detach().clone(), requires_grad)


def as_masked_tensor(data: Any, mask: Any) -> MaskedTensor:
    """A masked tensor of data that stay in their graph.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, float("nan")], requires_grad=True)
    >>> torch.masked.as_masked_tensor(x, torch.tensor([True, False])).exp().sum().backward()
    >>> x.grad
    tensor([2.7183, 0.0000])
    """
    _check(data, mask)
    return wrap(_plainly(data), Mask(_plainly(mask).detach()))


def is_masked_tensor(obj: object, /) -> bool:
    """Whether that is a masked tensor.

    >>> import rushlight as torch
    >>> torch.masked.is_masked_tensor(torch.ones(2))
    False
    """
    return isinstance(obj, MaskedTensor)
