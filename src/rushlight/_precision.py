"""Casts for functions written in Python that have a policy under mixed precision."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from rushlight import Tensor


def in_full(tensor: Tensor) -> Tensor:
    """The tensor as a function that runs in float32 takes it: halves are cast in a region."""
    half = tensor.dtype is _C.bfloat16 or tensor.dtype is _C.float16
    return tensor.float() if half and _C._is_autocast() else tensor
