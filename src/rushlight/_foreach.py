"""``torch._foreach_add`` and its like: an operation over each tensor of a list.

>>> import rushlight as torch
>>> torch._foreach_mul([torch.ones(1), torch.ones(2)], 3.0)
(tensor([3.]), tensor([3., 3.]))
>>> torch._foreach_add_([torch.ones(1)], [torch.ones(1)], alpha=2)
[tensor([3.])]
"""

from __future__ import annotations

from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PREFIX = "_foreach_"


def _norm(t: Tensor, ord: float = 2, dtype: Any = None) -> Tensor:
    from rushlight import linalg

    return linalg.vector_norm(t, ord, dtype=dtype)


def _powsum(t: Tensor, ord: float = 2, dtype: Any = None) -> Tensor:
    return t.abs().pow(ord).sum(dtype=dtype)


def _larger(t: Tensor, other: Any) -> Tensor:
    return t.maximum(other) if isinstance(other, Tensor) else t.clamp_min(other)


def _smaller(t: Tensor, other: Any) -> Tensor:
    return t.minimum(other) if isinstance(other, Tensor) else t.clamp_max(other)


def _addcmul(t: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
    return t + value * a * b if isinstance(value, Tensor) else t.addcmul(a, b, value=value)


def _addcdiv(t: Tensor, a: Tensor, b: Tensor, value: Any = 1) -> Tensor:
    return t + value * a / b if isinstance(value, Tensor) else t.addcdiv(a, b, value=value)


def _power(base: Any, exponent: Any) -> Any:
    return base**exponent


# Those that are not a method of the same name with the same arguments.
_OTHERS: dict[str, Callable[..., Any]] = {
    "norm": _norm,
    "powsum": _powsum,
    "maximum": _larger,
    "minimum": _smaller,
    "addcmul": _addcmul,
    "addcdiv": _addcdiv,
    "pow": _power,
}


def _written(operation: Callable[..., Any]) -> Callable[..., Any]:
    """The in-place form of an operation that has none."""
    return lambda t, *args, **kwargs: t.copy_(operation(t, *args, **kwargs))


def _operation(name: str) -> Callable[..., Any] | None:
    if name in _OTHERS:
        return _OTHERS[name]
    if name.endswith("_") and name[:-1] in _OTHERS:
        return _written(_OTHERS[name[:-1]])
    return getattr(Tensor, name, None)


def _rows(name: str, args: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The arguments of each call: lists give one element to each, anything else is for all."""
    lists = [a for a in args if isinstance(a, (list, tuple))]
    if not lists:
        raise TypeError(f"{name}: expected a list of tensors, got {type(args[0]).__name__}")
    count = len(lists[0])
    if count == 0:
        raise RuntimeError(f"{name}: Tensor list must have at least one tensor.")
    for other in lists:
        if len(other) != count:
            raise RuntimeError(
                f"{name}: Tensor lists must have the same number of tensors, got {count} and "
                f"{len(other)}"
            )
    return [tuple(a[i] if isinstance(a, (list, tuple)) else a for a in args) for i in range(count)]


def __getattr__(name: str) -> Any:
    operation = _operation(name.removeprefix(_PREFIX)) if name.startswith(_PREFIX) else None
    if operation is None:
        raise AttributeError(f"module 'rushlight' has no attribute '{name}'")

    def each(*args: Any, **kwargs: Any) -> Any:
        results = [operation(*row, **kwargs) for row in _rows(name, args)]
        return args[0] if name.endswith("_") else tuple(results)

    each.__name__ = name
    return each
