"""Functions of each element. Two arrays have their dtypes promoted, also without dimensions."""

from __future__ import annotations

import rushlight as torch
from rushlight._array_api._dtypes import together
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# The standard's name, and that of the function here.
UNARY = {
    **{
        name: name
        for name in (
            "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp",
            "expm1", "floor", "isfinite", "isinf", "isnan", "log", "log10", "log1p", "log2",
            "logical_not", "negative", "positive", "real", "reciprocal", "signbit", "sin", "sinh",
            "sqrt", "square", "tan", "tanh", "trunc",
        )
    },
    "bitwise_invert": "bitwise_not",
    "sign": "sgn",
}  # fmt: skip
BINARY = {
    **{
        name: name
        for name in (
            "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
            "bitwise_xor", "copysign", "divide", "floor_divide", "greater", "greater_equal",
            "hypot", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor",
            "maximum", "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder",
            "subtract", "add",
        )
    },
    "equal": "eq",
}  # fmt: skip
__all__ = [*UNARY, *BINARY, "clip", "conj", "imag", "round"]  # noqa: PLE0604 - of the tables


def _needed(x: Any, name: str) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: an array is needed, got {type(x).__name__}")


def _unary(name: str, function: Any) -> Callable[..., Any]:
    def call(x: Tensor, /) -> Any:
        _needed(x, name)
        return function(x)

    return _named(call, name, function)


def _binary(name: str, function: Any) -> Callable[..., Any]:
    def call(x1: Any, x2: Any, /) -> Any:
        return function(*together(x1, x2))

    return _named(call, name, function)


def _named(call: Any, name: str, function: Any) -> Any:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``torch.{function.__name__}`` with the arguments of the standard."
    return call


globals().update({name: _unary(name, getattr(torch, ours)) for name, ours in UNARY.items()})
globals().update({name: _binary(name, getattr(torch, ours)) for name, ours in BINARY.items()})


def conj(x: Tensor, /) -> Tensor:
    """The complex conjugate."""
    return torch.conj(x).resolve_conj()


def imag(x: Tensor, /) -> Tensor:
    """The imaginary part; zeros of real numbers."""
    _needed(x, "imag")
    return torch.imag(x) if x.is_complex() else torch.zeros_like(x)


def clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """The elements, no smaller than ``min`` and no larger than ``max``; the dtype stays.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().clip(torch.tensor([1, 5]), max=3)
    tensor([1, 3])
    """
    found = x
    for bound, choice in ((min, torch.maximum), (max, torch.minimum)):
        if bound is not None:
            found = choice(*together(found, bound))
    return x.clone() if found is x else found.to(x.dtype)


def round(x: Tensor, /) -> Tensor:
    """The nearest integers, the even one of two; of both parts of complex numbers."""
    _needed(x, "round")
    if x.is_complex():
        return torch.complex(torch.round(x.real), torch.round(x.imag))
    return torch.round(x)
