"""NumPy's functions of tensors: what operators do stays with them, gradients are kept, and all else
is NumPy's."""

from __future__ import annotations

import numpy as np

import rushlight as torch
from rushlight import _C
from rushlight._arrays import operands
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

# Universal functions that are operators, and the methods of tensors, from the left and the right.
_OPERATORS: dict[Any, str] = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.divide: "truediv",
    np.floor_divide: "floordiv", np.remainder: "mod", np.power: "pow", np.matmul: "matmul",
    np.bitwise_and: "and", np.bitwise_or: "or", np.bitwise_xor: "xor", np.left_shift: "lshift",
    np.right_shift: "rshift",
}  # fmt: skip
_COMPARISONS: dict[Any, tuple[str, str]] = {
    np.equal: ("eq", "eq"), np.not_equal: ("ne", "ne"), np.less: ("lt", "gt"),
    np.less_equal: ("le", "ge"), np.greater: ("gt", "lt"), np.greater_equal: ("ge", "le"),
}  # fmt: skip
_METHODS: dict[Any, tuple[str, str]] = {
    **{u: (f"__{n}__", f"__r{n}__") for u, n in _OPERATORS.items()},
    **{u: (f"__{a}__", f"__{b}__") for u, (a, b) in _COMPARISONS.items()},
}
# Others that have a gradient: the same function under another name, or under its own.
_RENAMED: dict[Any, str] = {
    np.absolute: "abs", np.fabs: "abs", np.arccos: "acos", np.arccosh: "acosh",
    np.arcsin: "asin", np.arcsinh: "asinh", np.arctan: "atan", np.arctanh: "atanh",
    np.arctan2: "atan2", np.conjugate: "conj", np.rint: "round", np.sign: "sgn",
    np.invert: "bitwise_not",
}  # fmt: skip
_SAME = (
    "ceil", "copysign", "cos", "cosh", "deg2rad", "exp", "exp2", "expm1", "float_power", "floor",
    "fmax", "fmin", "fmod", "heaviside", "hypot", "isfinite", "isinf", "isnan", "log", "log10",
    "log1p", "log2", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or",
    "logical_xor", "maximum", "minimum", "negative", "nextafter", "positive", "rad2deg",
    "reciprocal", "signbit", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
)  # fmt: skip
_DIFFERENTIABLE = {**_RENAMED, **{getattr(np, name): name for name in _SAME}}


def _tensors(values: Any) -> list[Tensor]:
    """The tensors among arguments, in lists and tuples too."""
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, dict):
        values = values.values()
    elif not isinstance(values, (list, tuple)):
        return []
    return [t for v in values for t in _tensors(v)]


def _recorded(values: Any) -> bool:
    return _C.is_grad_enabled() and any(t.requires_grad for t in _tensors(values))


def ufunc(function: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """``function`` of arrays, tensors and numbers, as ``Tensor.__array_ufunc__`` is asked for."""
    given = [_number(x) for x in inputs]
    out = options.get("out")
    if method == "__call__" and (not options or _is_in_place(inputs, options)):
        if function in _METHODS:
            found = _operator(function, *given)
            if found is not NotImplemented:  # else NumPy tells what is wrong with its array
                return found
        if function in _DIFFERENTIABLE and _recorded(given):
            return _differentiable(function, given)
    if out is not None and any(isinstance(x, Tensor) for x in out):
        return NotImplemented
    arrays = [x.__array__() if isinstance(x, Tensor) else x for x in inputs]
    found = getattr(function, method)(*arrays, **options)
    if out is not None:
        return found
    return tuple(map(_wrapped, found)) if isinstance(found, tuple) else _wrapped(found)


def _number(x: Any) -> Any:
    """NumPy's numbers as Python's, which are weak; long ones come as arrays, and tensors have none
    such."""
    if isinstance(x, np.ndarray) and x.ndim == 0 and x.dtype.char in "gG":
        return complex(x) if x.dtype.char == "G" else float(x)
    return x.item() if isinstance(x, np.generic) else x


def _is_in_place(inputs: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """``array += tensor``, which makes a tensor: NumPy asks for it with the array as the result."""
    out = options.get("out", ())
    return len(options) == len(out) == 1 and len(inputs) == 2 and out[0] is inputs[0]


def _operator(function: Any, *given: Any) -> Any:
    left, right = _METHODS[function]
    a, b = given
    return getattr(a, left)(b) if isinstance(a, Tensor) else getattr(b, right)(a)


def _wrapped(array: Any) -> Any:
    known = isinstance(array, (np.ndarray, np.generic))
    return _C._tensor(array, None, None, False) if known else array


def _differentiable(function: Any, given: Any) -> Any:
    name = _DIFFERENTIABLE[function]
    if any(isinstance(x, np.ndarray) for x in given):
        given = operands(given[0], given[1], name)
        if given is NotImplemented:
            return NotImplemented
    elif len(given) == 2:
        from rushlight._array_api._dtypes import together

        given = together(*given)
    return getattr(torch, name)(*given)


def array_function(function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """A function of NumPy, as ``Tensor.__array_function__`` is asked for it."""
    if not all(issubclass(t, (Tensor, np.ndarray)) for t in types):
        return NotImplemented
    if _recorded([args, kwargs]):
        from rushlight._array_functions import find

        ours = find(function, args, kwargs)
        if ours is not None:
            return ours(*args, **kwargs)
    return function._implementation(*args, **kwargs)
