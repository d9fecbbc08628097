"""Functions of NumPy that keep the gradient of tensors, with NumPy's arguments."""

from __future__ import annotations

import inspect

import numpy as np

import rushlight as torch
from rushlight import _C
from rushlight import _array_api as xp
from rushlight._array_api._dtypes import together
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FUNCTIONS: dict[Any, Any] = {}


def find(function: Any, args: Any, kwargs: Any) -> Any:
    """What computes a function of NumPy with these arguments, or None."""
    ours = _FUNCTIONS.get(function)
    try:
        return ours and inspect.signature(ours).bind(*args, **kwargs) and ours
    except TypeError:  # arguments that only NumPy has
        return None


def _keeps(*names: str) -> Callable[[Any], Any]:
    """Marks what computes NumPy's functions of these names."""

    def mark(ours: Any) -> Any:
        for name in names:
            home, _, last = name.rpartition(".")
            _FUNCTIONS[getattr(np.linalg if home else np, last)] = ours
        return ours

    return mark


def _tensors(arrays: Any) -> list[Tensor]:
    """Tensors, arrays and numbers as tensors of their common dtype."""
    return together(*(torch.as_tensor(x) if isinstance(x, np.ndarray) else x for x in arrays))


def _dtype(given: Any) -> Any:
    known = given is None or isinstance(given, _C.dtype)
    return given if known else getattr(torch, np.dtype(given).name)


def _shape(given: Any) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


# ---- parts and shapes


@_keeps("concatenate")
def _concatenate(arrays: Any, /, axis: Any = 0) -> Any:
    return xp.concat(_tensors(arrays), axis=axis)


@_keeps("stack")
def _stack(arrays: Any, axis: int = 0) -> Any:
    return torch.stack(_tensors(arrays), axis)


@_keeps("column_stack")
def _column_stack(tup: Any) -> Any:
    return torch.column_stack(_tensors(tup))


@_keeps("dstack")
def _dstack(tup: Any) -> Any:
    return torch.dstack(_tensors(tup))


@_keeps("hstack")
def _hstack(tup: Any) -> Any:
    return torch.hstack(_tensors(tup))


@_keeps("vstack")
def _vstack(tup: Any) -> Any:
    return torch.vstack(_tensors(tup))


@_keeps("reshape")
def _reshape(a: Any, /, shape: Any) -> Any:
    return torch.reshape(a, _shape(shape))


@_keeps("ravel")
def _ravel(a: Any) -> Any:
    return a.reshape(-1)


@_keeps("transpose")
def _transpose(a: Any, axes: Any = None) -> Any:
    return a.permute(*(reversed(range(a.ndim)) if axes is None else axes))


@_keeps("swapaxes")
def _swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    return torch.swapaxes(a, axis1, axis2)


@_keeps("moveaxis")
def _moveaxis(a: Any, source: Any, destination: Any) -> Any:
    return torch.moveaxis(a, source, destination)


@_keeps("squeeze")
def _squeeze(a: Any, axis: Any = None) -> Any:
    return torch.squeeze(a) if axis is None else xp.squeeze(a, axis)


@_keeps("expand_dims")
def _expand_dims(a: Any, axis: int) -> Any:
    return torch.unsqueeze(a, axis)


@_keeps("broadcast_to")
def _broadcast_to(array: Any, shape: Any) -> Any:
    return torch.broadcast_to(array, _shape(shape))


@_keeps("flip")
def _flip(m: Any, axis: Any = None) -> Any:
    return xp.flip(m, axis=axis)


@_keeps("roll")
def _roll(a: Any, shift: Any, axis: Any = None) -> Any:
    return xp.roll(a, shift, axis=axis)


@_keeps("tile")
def _tile(A: Any, reps: Any) -> Any:
    return torch.tile(A, _shape(reps))


@_keeps("repeat")
def _repeat(a: Any, repeats: int, axis: Any = None) -> Any:
    return torch.repeat_interleave(a, repeats, axis)


@_keeps("diagonal")
def _diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return torch.diagonal(a, offset, axis1, axis2)


# ---- elements


@_keeps("where")
def _where(condition: Any, x: Any, y: Any, /) -> Any:
    return torch.where(torch.as_tensor(condition), *_tensors([x, y]))


@_keeps("clip")
def _clip(a: Any, a_min: Any = None, a_max: Any = None) -> Any:
    bounds = [torch.as_tensor(b) if isinstance(b, np.ndarray) else b for b in (a_min, a_max)]
    return xp.clip(a, *bounds)


@_keeps("real")
def _real(val: Any) -> Any:
    return torch.real(val)


@_keeps("imag")
def _imag(val: Any) -> Any:
    return xp.imag(val)


# ---- reductions


@_keeps("sum")
def _sum(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return xp.sum(a, axis=axis, dtype=_dtype(dtype), keepdims=keepdims)


@_keeps("prod")
def _prod(a: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    return xp.prod(a, axis=axis, dtype=_dtype(dtype), keepdims=keepdims)


@_keeps("mean")
def _mean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return xp.mean(a, axis=axis, keepdims=keepdims)


@_keeps("std")
def _std(a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    return xp.std(a, axis=axis, correction=ddof, keepdims=keepdims)


@_keeps("var")
def _var(a: Any, axis: Any = None, *, ddof: float = 0, keepdims: bool = False) -> Any:
    return xp.var(a, axis=axis, correction=ddof, keepdims=keepdims)


@_keeps("amax", "max")
def _max(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return xp.max(a, axis=axis, keepdims=keepdims)


@_keeps("amin", "min")
def _min(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    return xp.min(a, axis=axis, keepdims=keepdims)


@_keeps("cumsum")
def _cumsum(a: Any, axis: Any = None) -> Any:
    return torch.cumsum(a.reshape(-1), 0) if axis is None else torch.cumsum(a, axis)


@_keeps("cumprod")
def _cumprod(a: Any, axis: Any = None) -> Any:
    return torch.cumprod(a.reshape(-1), 0) if axis is None else torch.cumprod(a, axis)


@_keeps("diff")
def _diff(a: Any, n: int = 1, axis: int = -1) -> Any:
    return torch.diff(a, n, axis)


@_keeps("trace")
def _trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return torch.diagonal(a, offset, axis1, axis2).sum(-1)


# ---- products


@_keeps("dot")
def _dot(a: Any, b: Any, /) -> Any:
    x, y = _tensors([a, b])
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return torch.tensordot(x, y, dims=([x.ndim - 1], [max(y.ndim - 2, 0)]))


@_keeps("inner")
def _inner(a: Any, b: Any, /) -> Any:
    return torch.inner(*_tensors([a, b]))


@_keeps("outer")
def _outer(a: Any, b: Any) -> Any:
    return torch.outer(*(x.reshape(-1) for x in _tensors([a, b])))


@_keeps("tensordot")
def _tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    x, y = _tensors([a, b])
    return torch.tensordot(x, y, dims=axes)


@_keeps("einsum")
def _einsum(subscripts: str, /, *arrays: Any) -> Any:
    return torch.einsum(subscripts, *_tensors(arrays))


@_keeps("linalg.inv")
def _inv(a: Any) -> Any:
    return torch.linalg.inv(a)


@_keeps("linalg.det")
def _det(a: Any) -> Any:
    return torch.linalg.det(a)


@_keeps("linalg.solve")
def _solve(a: Any, b: Any) -> Any:
    return xp.linalg.solve(*_tensors([a, b]))


@_keeps("linalg.norm")
def _norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    return torch.linalg.norm(x, ord, axis, keepdims)
