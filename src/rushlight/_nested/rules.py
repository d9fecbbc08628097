"""The rules of ops on nested tensors, by name."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._nested.structure import Jagged, Pieces, join
from rushlight._structured.base import content, pointwise_inputs, wrap

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ops = _C._namespaces[""]
_nn = _C._namespaces["nn.functional"]
RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function the rule of these ops."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            RULES[name] = function
        return function

    return keep


def is_nested(x: object) -> bool:
    from rushlight._nested.tensor import NestedTensor

    return isinstance(x, NestedTensor)


def each(func: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The op on one part after the other."""
    count = next(a._structure.batch for a in args if is_nested(a))
    lists = [a.unbind() if is_nested(a) else None for a in args]
    results = []
    for i in range(count):
        own = [a if parts is None else parts[i] for a, parts in zip(args, lists, strict=True)]
        results.append(func(*own, **kwargs))
    values, structure = join(results)
    return wrap(values, structure)


def _shapes(args: Sequence[Any]) -> str:
    return " and ".join(str(tuple(a.shape)) for a in args if isinstance(a, Tensor))


@rule("pointwise")
def pointwise(func: Any, *args: Any, **kwargs: Any) -> Any:
    """Parts of one structure, with numbers and ordinary tensors that fit."""
    nested = [a for a in (*args, *kwargs.values()) if is_nested(a)]
    first = nested[0]
    structure = first._structure
    for other in nested[1:]:
        if not structure.same(other._structure):
            raise RuntimeError(
                f"cannot call binary pointwise function {func.__name__} with inputs of shapes "
                f"{_shapes(nested) if isinstance(structure, Jagged) else 'that differ'}: their "
                "parts have different sizes, or were made apart. Fix: make one from the "
                "other's offsets()"
            )
        if isinstance(structure, Jagged) and other._structure.ragged != structure.ragged:
            raise RuntimeError(
                f"cannot call binary pointwise function {func.__name__} with inputs of shapes "
                f"{_shapes(nested)}"
            )
    if isinstance(structure, Pieces) and any(
        isinstance(a, Tensor) and not is_nested(a) and a.dim() > 0 for a in args
    ):
        return each(func, *args, **kwargs)
    given = [_beside(a, first) for a in args]
    named = {k: _beside(v, first) for k, v in kwargs.items()}
    return wrap(func(*given, **named), structure)


def _beside(a: Any, x: Any) -> Any:
    """An argument as it goes with the values of `x`."""
    if is_nested(a):
        return content(a)
    if not isinstance(a, Tensor) or a.dim() == 0 or isinstance(x._structure, Pieces):
        return a
    ragged, dims = x._structure.ragged, x.dim()
    if a.dim() < dims - ragged or (a.dim() == dims - ragged and a.shape[0] == 1):
        return a  # dimensions behind the ragged one
    if a.dim() < dims and a.shape[a.dim() - (dims - ragged)] == 1:
        return a
    if a.dim() == dims and a.shape[ragged] == 1:
        if a.shape[0] == 1:
            return a[0]
        if a.shape[0] == x._structure.batch and x._structure.lengths is None:
            return a.squeeze(ragged).index_select(0, x._structure.owners()).movedim(0, ragged - 1)
    raise RuntimeError(
        f"cannot call a pointwise function with inputs of shapes {tuple(x.shape)} and "
        f"{tuple(a.shape)}: an ordinary tensor has size 1 along the ragged dimension"
    )


def _dim(x: Any, dim: int) -> int:
    dims = x.dim()
    if not -dims <= dim < dims:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got "
            f"{dim})"
        )
    return dim % dims


def _inner(name: str, x: Any, dim: int) -> int:
    """The dimension of the values for one that is neither the batch's nor ragged."""
    d = _dim(x, dim)
    if d == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if d == x._structure.ragged:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return d - 1


# -- on values ------------------------------------------------------------------------------------


def _unary(name: str, home: dict[str, Any]) -> None:
    """An op that treats elements or trailing dimensions of the values alike."""
    func = home[name]

    @rule(name)
    def apply(input: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(input._structure, Pieces):
            return each(func, input, *args, **kwargs)
        return wrap(func(content(input), *args, **kwargs), input._structure)


for _name in ("dropout", "gelu", "silu", "elu", "selu", "leaky_relu", "mish", "softplus",
              "hardtanh", "logsigmoid", "relu6", "hardswish", "alpha_dropout"):  # fmt: skip
    if _name in _nn and not pointwise_inputs(_name):
        _unary(_name, _nn)
for _name in ("nan_to_num", "clamp", "clip", "square", "dropout", "softplus"):
    if _name in _ops and not pointwise_inputs(_name) and _name not in RULES:
        _unary(_name, _ops)


@rule("where")
def where(condition: Any, input: Any, other: Any) -> Any:
    return pointwise(_ops["where"], condition, input, other)


@rule("masked_fill")
def masked_fill(input: Any, mask: Any, value: Any) -> Any:
    return pointwise(_ops["masked_fill"], input, mask, value)


@rule("__rsub__", "rsub")
def rsub(input: Any, other: Any) -> Any:
    return -input + other


@rule("__rtruediv__")
def rtruediv(input: Any, other: Any) -> Any:
    return input.reciprocal() * other


@rule("__rpow__")
def rpow(input: Any, other: Any) -> Any:
    return wrap(other ** content(input), input._structure)


@rule("layer_norm")
def layer_norm(input: Any, normalized_shape: Any, *args: Any, **kwargs: Any) -> Any:
    return _normed("layer_norm", input, normalized_shape, *args, **kwargs)


@rule("rms_norm")
def rms_norm(input: Any, normalized_shape: Any, *args: Any, **kwargs: Any) -> Any:
    return _normed("rms_norm", input, normalized_shape, *args, **kwargs)


def _normed(name: str, x: Any, shape: Any, *args: Any, **kwargs: Any) -> Any:
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    if isinstance(x._structure, Pieces):
        return each(_nn[name], x, shape, *args, **kwargs)
    if x.dim() - len(shape) <= x._structure.ragged:
        raise RuntimeError(
            f"{name}(): normalizing over ragged dim not supported for nested tensors"
        )
    return wrap(_nn[name](content(x), shape, *args, **kwargs), x._structure)


@rule("linear")
def linear(input: Any, weight: Tensor, bias: Tensor | None = None) -> Any:
    if isinstance(input._structure, Pieces):
        return each(_nn["linear"], input, weight, bias)
    _inner("linear", input, -1)
    return wrap(_nn["linear"](content(input), weight, bias), input._structure)


@rule("embedding")
def embedding(first: Any, second: Any, *args: Any, **kwargs: Any) -> Any:
    """Of ids that are nested, in the order of either function of that name."""
    if is_nested(first):  # nn.functional.embedding(ids, weight)
        found = _nn["embedding"](content(first), second, *args, **kwargs)
        structure = first._structure
    else:
        found = _ops["embedding"](first, content(second), *args, **kwargs)
        structure = second._structure
    if isinstance(structure, Pieces):
        width = found.shape[-1]
        return wrap(found.reshape(-1), Pieces([(*size, width) for size in structure.sizes]))
    return wrap(found, structure)


@rule("matmul", "__matmul__", "bmm", "mm")
def matmul(input: Any, other: Any) -> Any:
    if isinstance(getattr(input, "_structure", None), Pieces) or not is_nested(input):
        if is_nested(input) and not is_nested(other) and other.dim() == 3:
            parts = zip(input.unbind(), other.unbind(), strict=True)
            values, structure = join([a @ b for a, b in parts])
            return wrap(values, structure)
        return each(_ops["matmul"], input, other)
    structure = input._structure
    if is_nested(other):
        return each(_ops["matmul"], input, other)
    if other.dim() <= 2:
        _inner("matmul", input, -1)
        return wrap(_ops["matmul"](content(input), other), structure)
    if other.dim() == 3 and other.shape[0] == structure.batch and structure.ragged == 1:
        parts = zip(input.unbind(), other.unbind(), strict=True)
        return wrap(_ops["cat"]([a @ b for a, b in parts]), input.contiguous()._structure)
    raise RuntimeError(
        f"matmul(): not supported between inputs of shapes {tuple(input.shape)} and "
        f"{tuple(other.shape)}"
    )


# -- softmax and sums -----------------------------------------------------------------------------


def _segments(x: Any) -> tuple[Any, Tensor, int]:
    """The contiguous tensor, its values with the ragged dimension first, and that dimension."""
    x = x.contiguous()
    at = x._structure.ragged - 1
    return x, content(x).movedim(at, 0), at


def _index(owners: Tensor, values: Tensor) -> Tensor:
    return owners.reshape(-1, *(1,) * (values.dim() - 1)).expand(values.shape)


def _reduced(values: Tensor, structure: Any, how: str) -> Tensor:
    """Rows of one part made one."""
    out = values.new_zeros((structure.batch, *values.shape[1:]))
    index = _index(structure.owners(), values)
    return out.scatter_reduce(0, index, values, how, include_self=False)


def _softmax(x: Any, dim: int, dtype: Any, log: bool) -> Any:
    func = _ops["log_softmax"] if log else _ops["softmax"]
    options = {} if dtype is None else {"dtype": dtype}
    d = _dim(x, dim)
    if d == 0:
        raise RuntimeError("softmax(): not supported when reducing across the batch dimension")
    if isinstance(x._structure, Pieces):
        return each(func, x, d - 1, **options)
    if d != x._structure.ragged:
        return wrap(func(content(x), d - 1, **options), x._structure)
    x, values, at = _segments(x if dtype is None else x.to(dtype))
    owners = x._structure.owners()
    highest = _reduced(values.detach(), x._structure, "amax").index_select(0, owners)
    shifted = values - highest
    total = values.new_zeros((len(x), *values.shape[1:])).index_add(0, owners, shifted.exp())
    total = total.index_select(0, owners)
    found = shifted - total.log() if log else shifted.exp() / total
    return wrap(found.movedim(0, at), x._structure)


@rule("softmax", "_softmax")
def softmax(input: Any, dim: int, dtype: Any = None, **options: Any) -> Any:
    return _softmax(input, dim, dtype, False)


@rule("log_softmax")
def log_softmax(input: Any, dim: int, dtype: Any = None, **options: Any) -> Any:
    return _softmax(input, dim, dtype, True)


def _reduction(name: str, how: str) -> None:
    func = _ops[name]

    @rule(name)
    def reduce(input: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        structure = input._structure
        if dim is None:
            values = content(input.contiguous() if isinstance(structure, Jagged) else input)
            return func(values, **options)
        dims = sorted(_dim(input, d) for d in ((dim,) if isinstance(dim, int) else dim))
        if isinstance(structure, Pieces):
            if 0 in dims:
                raise RuntimeError(f"{name}(): not supported along the batch dimension")
            return each(func, input, [d - 1 for d in dims], keepdim, **options)
        if 0 in dims and structure.ragged not in dims:
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not "
                "supported for nested tensors"
            )
        if structure.ragged not in dims:
            values = func(content(input), [d - 1 for d in dims], keepdim, **options)
            lost = 0 if keepdim else sum(d < structure.ragged for d in dims)
            return wrap(values, structure.moved(structure.ragged - lost))
        if 0 in dims:
            values = content(input.contiguous())
            found = func(values, [d - 1 for d in dims if d], keepdim, **options)
            return found.unsqueeze(0) if keepdim else found
        if len(dims) > 1:
            raise RuntimeError(
                f"{name}(): reducing along a ragged and non-batch dimension is not supported for "
                "nested tensors"
            )
        x, values, at = _segments(input)
        if options.get("dtype") is not None:
            values = values.to(options["dtype"])
        found = _reduced(values, x._structure, how)
        return found.unsqueeze(at + 1) if keepdim else found


for _name, _how in (("sum", "sum"), ("mean", "mean"), ("amax", "amax"), ("amin", "amin"),
                    ("prod", "prod")):  # fmt: skip
    _reduction(_name, _how)


@rule("any")
def any_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return content(input.contiguous()).any()


@rule("all")
def all_(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return content(input.contiguous()).all()


@rule("argmax")
def argmax(input: Any, dim: int, keepdim: bool = False) -> Any:
    at = _inner("argmax", input, dim)
    found = content(input).argmax(at, keepdim)
    lost = 0 if keepdim or at + 1 > input._structure.ragged else 1
    return wrap(found, input._structure.moved(input._structure.ragged - lost))


# -- shapes ---------------------------------------------------------------------------------------


@rule("transpose", "swapaxes", "swapdims")
def transpose(input: Any, dim0: int, dim1: int) -> Any:
    a, b = _dim(input, dim0), _dim(input, dim1)
    if a == b:
        return input
    if 0 in (a, b):
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")
    structure = input._structure
    if isinstance(structure, Pieces):
        return each(_ops["transpose"], input, a - 1, b - 1)
    ragged = {a: b, b: a}.get(structure.ragged, structure.ragged)
    return wrap(content(input).transpose(a - 1, b - 1), structure.moved(ragged))


@rule("permute")
def permute(input: Any, *dims: Any) -> Any:
    order = [_dim(input, d) for d in (dims[0] if len(dims) == 1 else dims)]
    if order[0] != 0 or sorted(order) != list(range(input.dim())):
        raise RuntimeError(f"permute(): the batch dimension stays first, got {tuple(order)}")
    structure = input._structure
    values = content(input).permute([d - 1 for d in order[1:]])
    return wrap(values, structure.moved(order.index(structure.ragged)))


@rule("unflatten")
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    at = _inner("unflatten", input, dim)
    values = content(input).unflatten(at, tuple(sizes))
    more = len(tuple(sizes)) - 1 if at + 1 < input._structure.ragged else 0
    return wrap(values, input._structure.moved(input._structure.ragged + more))


@rule("flatten")
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    first, last = _inner("flatten", input, start_dim), _inner("flatten", input, end_dim)
    ragged = input._structure.ragged
    if first + 1 < ragged < last + 1:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    fewer = last - first if last + 1 < ragged else 0
    return wrap(content(input).flatten(first, last), input._structure.moved(ragged - fewer))


@rule("view", "reshape")
def view(input: Any, *shape: Any) -> Any:
    sizes = list(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else list(shape)
    if isinstance(input._structure, Pieces):
        parts = [p.reshape([p.shape[i] if n == -1 else n for i, n in enumerate(sizes[1:])])
                 for p in input.unbind()]  # fmt: skip
        values, structure = join(parts)
        return wrap(values, structure)
    structure = input._structure
    symbol = structure.symbol
    unknown = [i for i, n in enumerate(sizes) if n is symbol or n == -1]
    ragged = next((i for i in unknown if sizes[i] is symbol), structure.ragged)
    fits = len(sizes) > ragged and (sizes[ragged] is symbol or sizes[ragged] == -1)
    if not fits or sizes[0] not in (-1, structure.batch) or ragged != structure.ragged:
        raise RuntimeError(f"view(): cannot view shape {tuple(input.shape)} as {sizes}")
    sizes[ragged] = content(input).shape[ragged - 1]
    return wrap(content(input).reshape(sizes[1:]), structure)


@rule("unsqueeze")
def unsqueeze(input: Any, dim: int) -> Any:
    d = dim % (input.dim() + 1)
    if d == 0:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    if isinstance(input._structure, Pieces):
        return each(_ops["unsqueeze"], input, d - 1)
    ragged = input._structure.ragged
    return wrap(
        content(input).unsqueeze(d - 1), input._structure.moved(ragged + (1 if d <= ragged else 0))
    )


@rule("squeeze")
def squeeze(input: Any, dim: int) -> Any:
    at = _inner("squeeze", input, dim)
    values = content(input)
    fewer = 1 if values.shape[at] == 1 and at + 1 < input._structure.ragged else 0
    moved = input._structure.moved(input._structure.ragged - fewer)
    return wrap(values.squeeze(at), moved)


@rule("select")
def select(input: Any, dim: int, index: int) -> Any:
    if _dim(input, dim) == 0:
        return input.unbind()[index]
    at = _inner("select", input, dim)
    fewer = 1 if at + 1 < input._structure.ragged else 0
    moved = input._structure.moved(input._structure.ragged - fewer)
    return wrap(content(input).select(at, index), moved)


@rule("narrow")
def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    at = _inner("narrow", input, dim)
    return wrap(content(input).narrow(at, start, length), input._structure)


def _several(name: str) -> None:
    func = _ops[name]

    @rule(name)
    def divide(input: Any, sizes: Any, dim: int = 0) -> tuple[Any, ...]:
        at = _inner(name, input, dim)
        return tuple(wrap(v, input._structure) for v in func(content(input), sizes, at))


for _name in ("chunk", "split"):
    _several(_name)


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> Any:
    first = next(t for t in tensors if is_nested(t))
    if _dim(first, dim) == 0:
        parts = [p for t in tensors for p in (t.unbind() if is_nested(t) else t)]
        if isinstance(first._structure, Pieces):
            values, structure = join(parts)
            return wrap(values, structure)
        from rushlight.nested import as_nested_tensor

        return as_nested_tensor(parts, layout=first.layout)
    at = _inner("cat", first, dim)
    if not all(is_nested(t) and first._structure.same(t._structure) for t in tensors):
        raise RuntimeError("cat(): all tensors must be nested, of the same structure")
    return wrap(_ops["cat"]([content(t) for t in tensors], at), first._structure)


@rule("__getitem__")
def getitem(input: Any, index: Any) -> Any:
    given = index if isinstance(index, tuple) else (index,)
    if given and isinstance(given[0], int):
        part = input.unbind()[given[0]]
        return part[given[1:]] if len(given) > 1 else part
    if given and given[0] is Ellipsis:
        given = (*[slice(None)] * (input.dim() - len(given) + 1), *given[1:])
    ragged = input._structure.ragged
    whole = all(i == slice(None) for i in (given[0], *given[ragged : ragged + 1]))
    if len(given) > input.dim() or not whole:
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0 or the ragged dim")
    fewer = sum(isinstance(i, int) for i in given[1:ragged])
    return wrap(content(input)[given[1:]], input._structure.moved(ragged - fewer))


@rule("expand")
def expand(input: Any, *sizes: Any) -> Any:
    shape = list(sizes[0]) if len(sizes) == 1 else list(sizes)
    inner = [-1 if i + 1 == input._structure.ragged else n for i, n in enumerate(shape[1:])]
    return wrap(content(input).expand(inner), input._structure)


def _like(name: str) -> None:
    func = _ops[name]

    @rule(name)
    def like(input: Any, *args: Any, **options: Any) -> Any:
        wanted = options.pop("requires_grad", False)
        made = wrap(func(input._raw, *args, **options), input._structure)
        return made.requires_grad_() if wanted else made


for _name in ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"):
    if _name in _ops:
        _like(_name)


@rule("scaled_dot_product_attention")
def attention(query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
              is_causal: bool = False, **options: Any) -> Any:  # fmt: skip
    """Attention within each part: tensors of shape (batch, heads, ragged, width)."""
    if attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: nested tensors take no attn_mask")
    if not (is_nested(query) and is_nested(key) and is_nested(value)):
        raise RuntimeError("scaled_dot_product_attention: query, key and value must all be nested")
    func = _nn["scaled_dot_product_attention"]
    results = [
        func(
            q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), None, dropout_p, is_causal, **options
        ).squeeze(0)
        for q, k, v in zip(query.unbind(), key.unbind(), value.unbind(), strict=True)
    ]
    structure = query._structure
    if isinstance(structure, Pieces):
        values, structure = join(results)
        return wrap(values, structure)
    return wrap(_ops["cat"](results, structure.ragged - 1), query.contiguous()._structure)


@rule("equal")
def equal(input: Any, other: Any) -> bool:
    pairs = zip(input.unbind(), other.unbind(), strict=False)
    return len(input) == len(other) and all(a.equal(b) for a, b in pairs)


@rule("to_padded_tensor")
def to_padded_tensor(input: Any, padding: float, output_size: Any = None) -> Tensor:
    return input.to_padded_tensor(padding, output_size)
