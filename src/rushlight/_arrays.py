"""Arrays of NumPy in expressions with tensors: the tensor wins, its dtype by NumPy's rules."""

from __future__ import annotations

import numpy as np

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


def operands(a: Any, b: Any, op: str) -> Any:
    """A tensor and an array as two tensors; NotImplemented where the array must answer itself.

    The array is copied: what is done to it later does not reach a recorded graph.
    """
    tensor, array = (a, b) if isinstance(a, Tensor) else (b, a)
    # Matrices, masked arrays, quantities with units and the like have rules of their own.
    if array.__array_priority__ > 0:
        return NotImplemented
    dtype = _common(tensor.dtype, array.dtype, op)
    if dtype is None:
        return NotImplemented
    copied = array.astype("float32" if dtype is _C.bfloat16 else dtype.name, order="C")
    values = _C._tensor(copied, dtype, None, False)
    tensor = tensor.to(dtype)
    return (tensor, values) if isinstance(a, Tensor) else (values, tensor)


def _common(dtype: Any, other: Any, op: str) -> Any:
    """The dtype that NumPy would compute in; None where tensors have none like it."""
    if op in ("div", "__rtruediv__") and other.kind in "biu" and not dtype.is_floating_point:
        other = np.result_type(other, float)
    if dtype is _C.bfloat16:  # NumPy has none
        known = getattr(_C, other.name, None)
        return _C.promote_types(dtype, known) if isinstance(known, _C.dtype) else None
    try:
        common = getattr(_C, np.result_type(dtype.name, other).name, None)
    except TypeError:
        return None
    return common if isinstance(common, _C.dtype) else None
