"""Names for sizes that are given as one number or one per dimension."""

from __future__ import annotations

from typing import Any

from rushlight._C import Tensor

__all__: list[str] = []


def _one_or(kind: Any, count: int | None) -> Any:
    """The type of one value, or of a tuple of so many; None: of any number."""
    return kind | (tuple[kind, ...] if count is None else tuple[(kind,) * count])  # type: ignore[misc]


_size_any_t = _one_or(int, None)
_size_1_t, _size_2_t, _size_3_t, _size_4_t, _size_5_t, _size_6_t = (
    _one_or(int, count) for count in range(1, 7)
)
_size_any_opt_t = _one_or(int | None, None)
_size_2_opt_t, _size_3_opt_t = _one_or(int | None, 2), _one_or(int | None, 3)
_ratio_any_t = _one_or(float, None)
_ratio_2_t, _ratio_3_t = _one_or(float, 2), _one_or(float, 3)
_tensor_list_t = _one_or(Tensor, None)
_maybe_indices_t = _one_or(Tensor, 2)
