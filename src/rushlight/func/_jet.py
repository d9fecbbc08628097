"""Taylor mode: how a function changes along a curve, to any order k, at about k² times its cost."""

from __future__ import annotations

import functools
import math

from rushlight import _C
from rushlight.func import _taylor
from rushlight.func._taylor import Map, Pointwise, Product, Series, Sum, as_series
from rushlight.utils._pytree import tree_flatten, tree_map, tree_unflatten

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

_ops = _C._namespaces[""]
_F = _C._namespaces["nn.functional"]


class Trace:
    """One call of jet: its order, and the pointwise series that were made."""

    def __init__(self, order: int) -> None:
        self.order = order
        self.made: dict[Any, Series] = {}


class Jet(_C.Tensor):
    """A tensor that varies: its value, and the series it is the start of."""

    series: Series
    of: Trace

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _apply(func, args, kwargs or {})

    @property
    def real(self) -> Any:  # type: ignore[override]
        """The real parts, which vary too."""
        return _apply(_ops["real"], (self,), {})

    @property
    def imag(self) -> Any:  # type: ignore[override]
        """The imaginary parts, which vary too."""
        return _apply(_ops["imag"], (self,), {})


def _jet(series: Series, trace: Trace) -> Any:
    value = series[0]
    new = _C.Tensor._make_subclass(Jet, value.detach() if value.requires_grad else value)
    new.series, new.of = series, trace
    return new


def jet(func: Callable[..., Any], primals: Any, series: Any) -> tuple[Any, Any]:
    """The value of `func`, and its derivatives along a curve.

    `primals` are the arguments at the curve's start; `series` has, for each of them, the list of
    the curve's derivatives there. The result has the same derivatives of the function's values,
    found without nesting: orders share their work.

    >>> import rushlight as torch
    >>> x = torch.tensor(0.5)
    >>> y, (first, second, third) = torch.func.jet(torch.sin, (x,), ([1.0, 0.0, 0.0],))
    >>> bool(torch.isclose(third, -torch.cos(x)))
    True
    """
    leaves, spec = tree_flatten(primals if isinstance(primals, (tuple, list)) else (primals,))
    given = list(series)
    if len(given) != len(leaves):
        raise ValueError(f"jet: {len(leaves)} primals but series for {len(given)}")
    order = max((len(s) for s in given), default=0)
    trace = Trace(order)
    arguments = []
    for x, derivatives in zip(leaves, given, strict=True):
        if not isinstance(x, _C.Tensor) or not x.is_floating_point():
            raise TypeError("jet: the primals must be floating point tensors")
        terms: list[Any] = [x]
        for n, d in enumerate(derivatives, 1):
            if isinstance(d, _C.Tensor) and d.shape != x.shape:
                raise ValueError(
                    f"jet: a derivative of shape {tuple(d.shape)} for a primal of shape "
                    f"{tuple(x.shape)}"
                )
            full = d if isinstance(d, _C.Tensor) else _ops["full_like"](x, d)
            terms.append(full / math.factorial(n))
        arguments.append(_jet(Series(terms), trace))
    result = func(*tree_unflatten(arguments, spec))
    values = tree_map(lambda y: _plain(y), result)
    moved = tree_map(lambda y: _derivatives(y, order), result)
    return values, moved


def _plain(value: Any) -> Any:
    return value.series[0] if isinstance(value, Jet) else value


def _derivatives(value: Any, order: int) -> list[Any]:
    if not isinstance(value, Jet):
        return [_ops["zeros_like"](value)] * order
    zero = _ops["zeros_like"](value.series[0])
    terms = (value.series[n] for n in range(1, order + 1))
    return [zero if c is None else c * math.factorial(n) for n, c in enumerate(terms, 1)]


# -- one op ---------------------------------------------------------------------------------------


def _jets(tree: Any) -> list[Any]:
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, Jet)]


def _series(value: Any) -> Series:
    return value.series if isinstance(value, Jet) else Series([value])


def _apply(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    jets = _jets((args, kwargs))
    if not jets:
        return func(*args, **kwargs)
    trace = jets[0].of
    name = getattr(func, "__name__", "")
    if _writes(name, kwargs):
        raise RuntimeError(
            f"jet: {name} writes in place to a tensor that varies; use the operation that does not"
        )
    if name in _RULES:
        try:
            result = _RULES[name](trace, *args, **kwargs)
        except _OtherCall:
            return _nested(func, args, kwargs, trace)
        return _wrap(result, trace)
    if name == "__get__":
        return _attribute(func, args, trace)
    forms = _forms(name)
    real = not any(jet.series[0].is_complex() for jet in jets)  # as formulas are
    if "partial" in forms and real and _taylor.is_readable(name):
        result = _pointwise(name, args, kwargs, trace)
        if result is not None:
            return _jet(result, trace)
    if ("linear" in forms or name in _MOVES) and _is_joint(name, args, kwargs):
        return _linear(func, args, kwargs, trace)
    if not forms or forms <= {"nondifferentiable"}:
        result = func(*tree_map(_plain, args), **tree_map(_plain, kwargs))
        if forms or name == "detach" or not _floats(result):
            return result
    return _nested(func, args, kwargs, trace)


def _writes(name: str, kwargs: Any) -> bool:
    if name in _INPLACE or "out" in kwargs or kwargs.get("inplace"):
        return True
    return name.endswith("_") and not name.endswith("__")


def _can_vary(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _floats(result: Any) -> bool:
    """Whether there is a tensor in it that could vary."""
    return any(isinstance(t, _C.Tensor) and _can_vary(t) for t in tree_flatten(result)[0])


def _wrap(result: Any, trace: Trace) -> Any:
    return _jet(result, trace) if isinstance(result, Series) else result


@functools.cache
def _forms(name: str) -> frozenset[str]:
    return frozenset(e["derivative"] for e in _entries(name))


# Composites that only move elements about.
_MOVES = {
    "__getitem__", "reshape", "reshape_as", "flatten", "ravel", "unflatten", "movedim", "moveaxis",
    "expand_as", "broadcast_to", "narrow", "contiguous", "view", "view_as", "chunk",
    "tensor_split", "hsplit", "vsplit", "dsplit", "atleast_1d", "atleast_2d", "atleast_3d",
    "hstack", "vstack", "dstack", "column_stack", "concat", "concatenate", "fliplr", "flipud",
    "tile", "diag", "repeat_interleave", "trapezoid", "trapz", "diff", "take_along_dim",
}  # fmt: skip


_INPLACE = {"__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__", "__ipow__"}


def _attribute(func: Any, args: tuple[Any, ...], trace: Trace) -> Any:
    """x.T and the like; what does not give a tensor of the same numbers is read off the value."""
    return _linear(func, args, {}, trace)


def _is_joint(name: str, args: Any, kwargs: Any) -> bool:
    """Whether a linear op is so in all its tensors together; a product is in each alone."""
    alone = [a for a in (*args, *kwargs.values()) if isinstance(a, _C.Tensor) and _floats(a)]
    return len(alone) <= 1 or any(
        e["family"] == "indexing" for e in _entries(name) if e["derivative"] == "linear"
    )


@functools.cache
def _entries(name: str) -> list[dict[str, Any]]:
    return [e for e in _C._registry() if e["name"] == name]


def _without_value(name: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments with zero for the number that an op writes, which does not vary."""
    for entry in _entries(name):
        names = [n for n, _, _ in _parameters(entry["signature"])]
        if "value" in names:
            at = names.index("value")
            if at < len(args) and isinstance(args[at], (int, float)):
                args = (*args[:at], 0, *args[at + 1 :])
    return args, {**kwargs, "value": 0} if "value" in kwargs else kwargs


def _linear(func: Any, args: Any, kwargs: Any, trace: Trace) -> Any:
    """An op that is linear in what varies: applied to each term, with constants as zeros."""
    first = func(*tree_map(_plain, args), **tree_map(_plain, kwargs))
    args, kwargs = _without_value(getattr(func, "__name__", ""), args, kwargs)
    leaves, spec = tree_flatten((args, kwargs))
    outputs, out_spec = tree_flatten(first)
    if not all(isinstance(y, _C.Tensor) for y in outputs):
        return first
    rows: list[list[Any]] = [[y] for y in outputs]
    zeros = functools.cache(lambda i: _ops["zeros_like"](leaves[i].series[0]))
    for n in range(1, trace.order + 1):
        terms = [leaf.series[n] if isinstance(leaf, Jet) else None for leaf in leaves]
        if all(t is None for t in terms):
            for row in rows:
                row.append(None)
            continue
        moved = [
            (zeros(i) if t is None else t) if isinstance(leaf, Jet) else _still(leaf)
            for i, (leaf, t) in enumerate(zip(leaves, terms, strict=True))
        ]
        again_args, again_kwargs = tree_unflatten(moved, spec)
        for row, y in zip(rows, tree_flatten(func(*again_args, **again_kwargs))[0], strict=True):
            row.append(y)
    return tree_unflatten(
        [_jet(Series(row), trace) if _can_vary(row[0]) else row[0] for row in rows],
        out_spec,
    )


def _still(leaf: Any) -> Any:
    """What does not vary contributes nothing to later terms; indices and masks stay."""
    if isinstance(leaf, _C.Tensor) and _can_vary(leaf):
        return _ops["zeros_like"](leaf)
    return leaf


@functools.cache
def _parameters(signature: str) -> list[tuple[str, float | None, bool]]:
    """The names of an op's parameters, the defaults that are numbers, and if they go by name."""
    inside = signature[signature.index("(") + 1 : signature.rindex(")")]
    found, by_name = [], False
    for part in inside.split(", "):
        declaration, _, default = part.partition("=")
        if declaration == "*":
            by_name = True
            continue
        try:
            number = float(default)
        except ValueError:
            number = None
        found.append((declaration.rsplit(" ", 1)[-1], number, by_name))
    return found


def _pointwise(name: str, args: Any, kwargs: Any, trace: Trace) -> Series | None:
    """By the op's partial derivatives; None where the call does not fit its formula."""
    for entry in _taylor.formulas().get(name, ()):
        count = len(entry["partials"])
        names = _parameters(entry["signature"])
        given = dict(zip((n for n, _, _ in names), args, strict=False)) | kwargs
        values = [given.pop(n, default) for n, default, _ in names]
        tensors, params = values[:count], values[count:]
        # A formula that has no name of its own may belong to a function of other arguments.
        if entry["parameters"] and not entry["forms"]:
            continue
        kinds = (_C.Tensor, int, float) if entry["forms"] else _C.Tensor
        fits = len(args) <= len(names) and not given
        fits = fits and all(isinstance(p, (int, float)) for p in params)
        fits = fits and all(isinstance(t, kinds) for t in tensors)
        if not fits or entry["parameters"] > len(params):
            continue
        named = {n: p for (n, _, by_name), p in zip(names[count:], params, strict=True) if by_name}
        value = functools.partial(_value, name, params[: len(params) - len(named)], named)
        return Pointwise(entry, value, [_series(t) for t in tensors], params, trace.made)
    return None


def _value(name: str, params: Sequence[float], named: dict[str, float], *tensors: Any) -> Any:
    return _taylor.function_of(name)(*tensors, *params, **named)


def _nested(func: Any, args: Any, kwargs: Any, trace: Trace) -> Any:
    """Other ops: forward mode, nested once for each order."""
    from rushlight.func._grad import jvp

    leaves, spec = tree_flatten((args, kwargs))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Jet)]

    def curve(t: Any) -> Any:
        moved = list(leaves)
        for i in places:
            point = leaves[i].series[0]
            power = t
            for n in range(1, trace.order + 1):
                if leaves[i].series[n] is not None:
                    point = point + leaves[i].series[n] * power
                power = power * t
            moved[i] = point
        again_args, again_kwargs = tree_unflatten(moved, spec)
        return func(*again_args, **again_kwargs)

    dtype = leaves[places[0]].series[0].dtype.to_real()
    zero, one = _ops["zeros"]((), dtype=dtype), _ops["ones"]((), dtype=dtype)
    f, rows = curve, []
    for n in range(trace.order + 1):
        outputs, out_spec = tree_flatten(f(zero))
        rows.append([y / math.factorial(n) if n else y for y in outputs])
        f = functools.partial(lambda g, t: jvp(g, (t,), (one,))[1], f)
    columns = zip(*rows, strict=True)
    return tree_unflatten(
        [_jet(Series(c), trace) if _can_vary(c[0]) else c[0] for c in columns], out_spec
    )


# -- ops with a rule of their own -----------------------------------------------------------------


def _scaled(series: Series, factor: float) -> Series:
    return series if factor == 1 else Map(lambda c, _: c * factor, series)


def _add(trace: Trace, a: Any, b: Any, *, alpha: float = 1) -> Series:
    return Sum(_series(a), _scaled(_series(b), alpha))


def _sub(trace: Trace, a: Any, b: Any, *, alpha: float = 1) -> Series:
    return Sum(_series(a), _scaled(_series(b), alpha), -1)


def _product(times: Callable[..., Any]) -> Callable[..., Series]:
    return lambda trace, a, b: Product(_series(a), _series(b), times)


def _linear_layer(trace: Trace, x: Any, weight: Any, bias: Any = None) -> Series:
    product = Product(_series(x), _series(weight), lambda a, w: _F["linear"](a, w))
    return product if bias is None else Sum(product, _series(bias))


def _pow(trace: Trace, a: Any, b: Any) -> Series:
    """A whole number of factors, which is right at zero as well; else by its derivative."""
    if isinstance(b, (int, float)) and float(b).is_integer() and 1 <= b <= 64:
        power = _series(a)
        for _ in range(int(b) - 1):
            power = Product(power, _series(a))
        return power
    if isinstance(b, (int, float)):
        entry = next(e for e in _taylor.formulas()["pow"] if e["parameters"])
        value = functools.partial(lambda e, x: _ops["pow"](x, e), b)
        return Pointwise(entry, value, [_series(a)], [float(b)], trace.made)
    if not isinstance(a, _C.Tensor):
        a = _ops["full"]((), a, dtype=b.dtype)
    entry = next(e for e in _taylor.formulas()["pow"] if not e["parameters"])
    return Pointwise(entry, _ops["pow"], [_series(a), _series(b)], [], trace.made)


class _OtherCall(Exception):
    """A rule does not know these arguments."""


def _softmax(
    trace: Trace, x: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Any:
    if dim is None or dtype is not None:
        raise _OtherCall
    shifted = x - _plain(x).amax(dim, keepdim=True)
    powers = shifted.exp()
    return powers / powers.sum(dim, keepdim=True)


def _log_softmax(
    trace: Trace, x: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None
) -> Any:
    if dim is None or dtype is not None:
        raise _OtherCall
    shifted = x - _plain(x).amax(dim, keepdim=True)
    return shifted - shifted.exp().sum(dim, keepdim=True).log()


def _mse_loss(trace: Trace, a: Any, b: Any, *others: Any, **options: Any) -> Any:
    reduction = options.pop("reduction", "mean")
    if options or others or a.shape != b.shape:
        raise _OtherCall
    each = (a - b) * (a - b)
    return each.mean() if reduction == "mean" else each.sum() if reduction == "sum" else each


def _layer_norm(
    trace: Trace,
    x: Any,
    shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
) -> Any:
    dims = tuple(range(-len(shape), 0))
    centred = x - x.mean(dims, keepdim=True)
    normal = centred / ((centred * centred).mean(dims, keepdim=True) + eps).sqrt()
    scaled = normal if weight is None else normal * weight
    return scaled if bias is None else scaled + bias


_RULES: dict[str, Callable[..., Any]] = {
    "add": _add,
    "sub": _sub,
    "subtract": _sub,
    "rsub": lambda trace, a, b, **k: _sub(trace, b, a, **k),
    "__radd__": lambda trace, a, b: _add(trace, b, a),
    "__rsub__": lambda trace, a, b: _sub(trace, b, a),
    "__rmul__": lambda trace, a, b: Product(as_series(b), _series(a)),
    "__rtruediv__": lambda trace, a, b: _taylor.Quotient(as_series(b), _series(a)),
    "__rpow__": lambda trace, a, b: _pow(trace, b, a),
    "__rmatmul__": lambda trace, a, b: Product(_series(b), _series(a), _ops["matmul"]),
    "neg": lambda trace, a: _scaled(_series(a), -1),
    "negative": lambda trace, a: _scaled(_series(a), -1),
    "mul": _product(lambda a, b: a * b),
    "multiply": _product(lambda a, b: a * b),
    "square": lambda trace, a: Product(_series(a), _series(a)),
    "pow": _pow,
    "matmul": _product(_ops["matmul"]),
    "mm": _product(_ops["mm"]),
    "bmm": _product(_ops["bmm"]),
    "mv": _product(_ops["mv"]),
    "dot": _product(_ops["dot"]),
    "outer": _product(_ops["outer"]),
    "inner": _product(_ops["inner"]),
    "linear": _linear_layer,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "mse_loss": _mse_loss,
    "layer_norm": _layer_norm,
}
