"""Tensors for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight

if TYPE_CHECKING:
    from rushlight import Tensor

__all__ = ["make_tensor"]


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random numbers from [low, high), by default from [-9, 9).

    >>> import rushlight as torch
    >>> t = torch.testing.make_tensor(2, 3, dtype=torch.float64, device="cpu", low=0, high=1)
    >>> t.shape, bool((t < 1).all())
    (torch.Size([2, 3]), True)
    """
    size = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"make_tensor: `requires_grad=True` is not supported for boolean and integral dtypes, "
            f"but got dtype={dtype}"
        )
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "make_tensor: the parameters `noncontiguous` and `memory_format` are mutually "
            f"exclusive, but got {noncontiguous=} and {memory_format=}"
        )
    low, high = _bounds(dtype, low, high)
    spread = noncontiguous and size != () and 0 not in size
    drawn = (*size[:-1], 2 * size[-1]) if spread else size
    result = rushlight.empty(drawn, dtype=dtype, device=device)
    if dtype.is_floating_point or dtype.is_complex:
        result.uniform_(low, high)
    else:
        result.random_(int(low), int(high))
    if spread:
        result = result[..., 1::2]
    if exclude_zero:
        result[result == 0] = _least(dtype)
    if memory_format is not None:
        result = result.clone(memory_format=memory_format)
    return result.requires_grad_() if requires_grad else result


def _bounds(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    limits: tuple[float, float] = (0, 2)
    if dtype is rushlight.bool:
        defaults = (0, 2)
    elif dtype.is_floating_point or dtype.is_complex:
        most = rushlight.finfo(dtype).max
        defaults, limits = (-9, 9), (-most, most)
    else:
        facts = rushlight.iinfo(dtype)
        defaults = (0 if facts.min == 0 else -9, 10)
        limits = (facts.min, facts.max + 1)
    first = defaults[0] if low is None else low
    last = defaults[1] if high is None else high
    if any(x != x for x in (first, last)):
        raise ValueError(f"make_tensor: `low` and `high` cannot be NaN, but got {low=} and {high=}")
    if first >= last:
        raise ValueError(f"make_tensor: `low` must be less than `high`, but got {first} >= {last}")
    return max(first, limits[0]), min(last, limits[1])


def _least(dtype: Any) -> float:
    exact = not (dtype.is_floating_point or dtype.is_complex)
    return 1 if exact else rushlight.finfo(dtype).tiny
