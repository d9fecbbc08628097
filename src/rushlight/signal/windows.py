"""Window functions: symmetric, or periodic with ``sym=False``.

>>> import rushlight as torch
>>> torch.signal.windows.hann(5)
tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
"""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip

_ops = _C._namespaces[""]


def _checked(name: str, m: int, dtype: Any, layout: Any) -> Any:
    """The dtype of the window."""
    if m < 0:
        raise ValueError(f"{name} requires non-negative window length, got M={m}")
    if layout is not None and str(layout) != "torch.strided":
        raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
    dtype = dtype or _C.get_default_dtype()
    if dtype not in (_C.float32, _C.float64, _C.float16, _C.bfloat16):
        raise ValueError(f"{name} expects float32 or float64 dtypes, got: {dtype}")
    return dtype


def _steps(m: int, sym: bool, start: float, stop: float, dtype: Any, device: Any) -> Tensor:
    """m numbers from start towards stop, which the last is when the window is symmetric."""
    whole = m if sym else m + 1
    step = (stop - start) / (whole - 1) if whole > 1 else 0.0
    counts = _ops["arange"](m, dtype=dtype, device=device)
    return counts * step + start


def _given(result: Tensor, requires_grad: bool) -> Tensor:
    return result.requires_grad_() if requires_grad else result


def _constant(m: int, dtype: Any, device: Any) -> Tensor:
    return _ops["ones"](m, dtype=dtype, device=device)


def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``exp(-|n - center| / tau)``.

    >>> import rushlight as torch
    >>> torch.signal.windows.exponential(3)
    tensor([0.3679, 1.0000, 0.3679])
    """
    dtype = _checked("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError(f"Tau must be positive, got: {tau} instead.")
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if center is None:
        center = (M if not sym and M > 1 else M - 1) / 2
    n = _ops["arange"](M, dtype=dtype, device=device)
    return _given((-(n - center).abs() / tau).exp(), requires_grad)


def cosine(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``sin(pi * (n + 0.5) / M)``: half a period of a sine.

    >>> import rushlight as torch
    >>> torch.signal.windows.cosine(3)
    tensor([0.5000, 1.0000, 0.5000])
    """
    dtype = _checked("cosine", M, dtype, layout)
    whole = M if sym or M < 2 else M + 1
    n = _ops["arange"](M, dtype=dtype, device=device)
    return _given(((n + 0.5) * (math.pi / max(whole, 1))).sin(), requires_grad)


def gaussian(
    M: int,
    *,
    std: float = 1.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``exp(-(n - middle)**2 / (2 * std**2))``.

    >>> import rushlight as torch
    >>> torch.signal.windows.gaussian(3, std=1.0)
    tensor([0.6065, 1.0000, 0.6065])
    """
    dtype = _checked("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError(f"Standard deviation must be positive, got: {std} instead.")
    middle = (M if not sym and M > 1 else M - 1) / 2
    n = _ops["arange"](M, dtype=dtype, device=device)
    return _given((-(((n - middle) / std) ** 2) / 2).exp(), requires_grad)


def kaiser(
    M: int,
    *,
    beta: float = 12.0,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``i0(beta * sqrt(1 - x**2)) / i0(beta)`` for x from -1 to 1.

    >>> import rushlight as torch
    >>> torch.signal.windows.kaiser(3, beta=1.0)
    tensor([0.7898, 1.0000, 0.7898])
    """
    dtype = _checked("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError(f"beta must be non-negative, got: {beta} instead.")
    if M == 1:
        return _given(_constant(M, dtype, device), requires_grad)
    x = _steps(M, sym, -1.0, 1.0, dtype, device)
    root = (1 - x * x).clamp(min=0).sqrt()
    top = _ops["i0"](_ops["full"]((), beta, dtype=dtype, device=device))
    return _given(_ops["i0"](root * beta) / top, requires_grad)


def general_cosine(
    M: int,
    *,
    a: Iterable[float],
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``sum((-1)**k * a[k] * cos(k * x))`` for x over one period.

    >>> import rushlight as torch
    >>> torch.signal.windows.general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    dtype = _checked("general_cosine", M, dtype, layout)
    if not hasattr(a, "__iter__"):
        raise TypeError("Coefficients must be a list/tuple")
    factors = list(a)
    if not factors:
        raise ValueError("Coefficients cannot be empty")
    if M == 1:
        return _given(_constant(M, dtype, device), requires_grad)
    x = _steps(M, sym, 0.0, 2 * math.pi, dtype, device)
    result = _ops["zeros_like"](x)
    for k, factor in enumerate(factors):
        result = result + (x * k).cos() * (factor if k % 2 == 0 else -factor)
    return _given(result, requires_grad)


def general_hamming(
    M: int,
    *,
    alpha: float = 0.54,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``alpha - (1 - alpha) * cos(x)`` for x over one period.

    >>> import rushlight as torch
    >>> torch.signal.windows.general_hamming(3, alpha=0.5)
    tensor([0., 1., 0.])
    """
    return general_cosine(
        M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def hamming(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``0.54 - 0.46 * cos(x)`` for x over one period.

    >>> import rushlight as torch
    >>> torch.signal.windows.hamming(3)
    tensor([0.0800, 1.0000, 0.0800])
    """
    return general_hamming(
        M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad
    )


def hann(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``0.5 - 0.5 * cos(x)`` for x over one period.

    >>> import rushlight as torch
    >>> torch.signal.windows.hann(4, sym=False)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return general_hamming(
        M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def blackman(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """``0.42 - 0.5 * cos(x) + 0.08 * cos(2 * x)`` for x over one period.

    >>> import rushlight as torch
    >>> torch.signal.windows.blackman(5)[1:4]
    tensor([0.3400, 1.0000, 0.3400])
    """
    return general_cosine(
        M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def bartlett(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """A triangle that is 0 at its ends.

    >>> import rushlight as torch
    >>> torch.signal.windows.bartlett(5)
    tensor([0.0000, 0.5000, 1.0000, 0.5000, 0.0000])
    """
    dtype = _checked("bartlett", M, dtype, layout)
    if M == 1:
        return _given(_constant(M, dtype, device), requires_grad)
    return _given(1 - _steps(M, sym, -1.0, 1.0, dtype, device).abs(), requires_grad)


def nuttall(
    M: int,
    *,
    sym: bool = True,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Nuttall's four cosine terms.

    >>> import rushlight as torch
    >>> torch.signal.windows.nuttall(5)[1:4]
    tensor([0.2270, 1.0000, 0.2270])
    """
    return general_cosine(
        M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout,
        device=device, requires_grad=requires_grad,
    )  # fmt: skip
