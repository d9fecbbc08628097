# ruff: noqa: F405
"""Discrete Fourier transforms of any size, along any dimensions.

>>> import rushlight as torch
>>> torch.fft.rfft(torch.tensor([1.0, 0.0, -1.0, 0.0]))
tensor([0.+0.j, 2.+0.j, 0.+0.j])
"""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor
from rushlight._composed import _dtype_for, _into
from rushlight._ops_fft import *  # noqa: F403

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2",
    "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2",
    "rfftfreq", "rfftn",
]  # fmt: skip

_ops = _C._namespaces[""]


def _frequencies(
    name: str, start: int, stop: int, n: int, d: float, out: Any, options: dict[str, Any]
) -> Tensor:
    requires_grad = options.pop("requires_grad")
    options.pop("layout"), options.pop("pin_memory")
    options["dtype"] = _dtype_for(out, options["dtype"])
    if not options["dtype"].is_floating_point and not options["dtype"].is_complex:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    counts = _ops["arange"](start, stop, **options)
    result = counts * (1.0 / (n * d) if n * d else math.copysign(math.inf, n * d))
    if name == "fftfreq":
        result = _C._namespaces["fft"]["ifftshift"](result)
    result = _into(out, result, name)
    return result.requires_grad_() if requires_grad else result


def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The frequencies of ``fft``'s results for samples ``d`` apart.

    >>> import rushlight as torch
    >>> torch.fft.fftfreq(5)
    tensor([ 0.0000,  0.2000,  0.4000, -0.4000, -0.2000])
    """
    options = {
        "dtype": dtype, "device": device, "layout": layout, "requires_grad": requires_grad,
        "pin_memory": pin_memory,
    }  # fmt: skip
    return _frequencies("fftfreq", -(n // 2), n - n // 2, n, d, out, options)


def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The frequencies of ``rfft``'s results for samples ``d`` apart.

    >>> import rushlight as torch
    >>> torch.fft.rfftfreq(4, d=0.5)
    tensor([0.0000, 0.5000, 1.0000])
    """
    options = {
        "dtype": dtype, "device": device, "layout": layout, "requires_grad": requires_grad,
        "pin_memory": pin_memory,
    }  # fmt: skip
    return _frequencies("rfftfreq", 0, n // 2 + 1, n, d, out, options)
