"""Conditions that libraries state, in PyTorch's forms: ``torch._check`` and its kind.

A message is a function that makes the text, called only where the condition does not hold.
"""

from __future__ import annotations

from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    Message = Callable[[], Any] | None


def _raise(error: type[Exception], message: Message) -> None:
    if message is None:
        raise error("Expected cond to be True, but got False.")
    if not callable(message):
        raise TypeError("message must be a callable")
    raise error(str(message()))


def _check_with(error_type: type[Exception], cond: Any, message: Message) -> None:
    """Raises an error of this type unless the condition holds."""
    if isinstance(cond, Tensor):
        raise TypeError(
            "cond must be a bool, but got a Tensor: torch._check_tensor_all() asks all elements"
        )
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not issubclass(error_type, Exception) or issubclass(error_type, Warning):
        raise TypeError(f"error_type must be an exception, but got {error_type}")
    if not cond:
        _raise(error_type, message)


def _check(cond: bool, message: Message = None) -> None:
    _check_with(RuntimeError, cond, message)


def _check_index(cond: bool, message: Message = None) -> None:
    _check_with(IndexError, cond, message)


def _check_value(cond: bool, message: Message = None) -> None:
    _check_with(ValueError, cond, message)


def _check_type(cond: bool, message: Message = None) -> None:
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond: bool, message: Message = None) -> None:
    _check_with(NotImplementedError, cond, message)


def _check_is_size(i: Any, message: Message = None, *, max: int | None = None) -> None:
    """Raises unless a number is no less than 0, and no more than ``max``."""
    _check(bool(i >= 0), message)
    _check(max is None or bool(i <= max), message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: Message = None
) -> None:
    """Raises an error of this type unless all elements hold."""
    if not isinstance(cond, Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if str(cond.dtype) != "torch.bool":
        raise TypeError(f"cond tensor must have dtype torch.bool, but got {cond.dtype}")
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Tensor, message: Message = None) -> None:
    _check_tensor_all_with(RuntimeError, cond, message)


def _assert_async(input: Tensor, assert_msg: str | None = None) -> None:
    """Raises unless the one element of a tensor is other than 0. On CUDA it waits for it."""
    if not bool(input):
        raise RuntimeError(assert_msg or "Expected Tensor with single nonzero value, but got zero")


def _assert_scalar(self: Any, assert_msg: str) -> None:
    """Raises unless a number is other than 0."""
    if not self:
        raise RuntimeError(assert_msg)


def _assert_tensor_metadata(
    a: Tensor,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
    dtype: Any = None,
    *,
    device: Any = None,
    layout: Any = None,
) -> None:
    """Raises unless a tensor has these sizes, strides, dtype, device and layout."""
    from rushlight import device as make_device

    wanted = {
        "sizes": (None if size is None else list(size), list(a.shape)),
        "strides": (None if stride is None else list(stride), list(a.stride())),
        "dtype": (dtype, a.dtype),
        "device": (None if device is None else make_device(device), a.device),
        "layout": (layout, a.layout),
    }
    for what, (expected, got) in wanted.items():
        if expected is not None and expected != got:
            raise RuntimeError(f"Tensor {what} mismatch! Expected: {expected}, Got: {got}")


def _is_all_true(input: Tensor) -> Tensor:
    _check_type(str(input.dtype) == "torch.bool", lambda: f"wants bools, got {input.dtype}")
    return input.all()


def _is_any_true(input: Tensor) -> Tensor:
    _check_type(str(input.dtype) == "torch.bool", lambda: f"wants bools, got {input.dtype}")
    return input.any()
