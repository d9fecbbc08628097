"""The standard's extension for Fourier transforms."""

from __future__ import annotations

import rushlight as torch
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_MANY = ("fftn", "ifftn", "rfftn", "irfftn")
__all__ = [*_ONE, *_MANY, "fftfreq", "fftshift", "ifftshift", "rfftfreq"]  # noqa: PLE0604

_fft = torch.fft


def _along_one(name: str) -> Callable[..., Tensor]:
    function = getattr(_fft, name)

    def call(
        x: Tensor, /, *, n: int | None = None, axis: int = -1, norm: str = "backward"
    ) -> Tensor:
        found: Tensor = function(x, n, axis, norm)
        return found

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``torch.fft.{name}`` with the arguments of the standard."
    return call


def _along_many(name: str) -> Callable[..., Tensor]:
    function = getattr(_fft, name)

    def call(x: Tensor, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Tensor:
        found: Tensor = function(x, s, axes, norm)
        return found

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"``torch.fft.{name}`` with the arguments of the standard."
    return call


globals().update({name: _along_one(name) for name in _ONE})
globals().update({name: _along_many(name) for name in _MANY})


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of ``fft``."""
    return _fft.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of ``rfft``."""
    return _fft.rfftfreq(n, d, dtype=dtype, device=device)


def fftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The elements with the frequency 0 moved to the middle."""
    return _fft.fftshift(x, axes)


def ifftshift(x: Tensor, /, *, axes: Any = None) -> Tensor:
    """The inverse of ``fftshift``."""
    return _fft.ifftshift(x, axes)
