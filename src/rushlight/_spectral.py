"""Short-time Fourier transforms, and the windows of the ``rushlight`` namespace."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "bartlett_window", "blackman_window", "hamming_window", "hann_window", "istft",
    "kaiser_window", "stft",
]  # fmt: skip

_ops = _C._namespaces[""]
_fft = _C._namespaces["fft"]


def _window(
    name: str,
    make: Callable[[Any], Tensor],
    length: int,
    periodic: bool,
    dtype: Any,
    layout: Any,
    device: Any,
    requires_grad: bool,
) -> Tensor:
    """``make(n)`` for n = 0, 1, ... over one period, n / (length - 1) of it at n."""
    dtype = dtype or _C.get_default_dtype()
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(f"{name} expects floating point dtypes, got: torch.{dtype}")
    if layout is not None and str(layout) != "torch.strided":
        raise RuntimeError(f"{name} is not implemented for sparse types, got: {layout}")
    if length < 0:
        raise RuntimeError(
            f"{name} requires non-negative window_length, got window_length={length}"
        )
    if length < 2:
        result = _ops["ones"](length, dtype=dtype, device=device)
    else:
        n = _ops["arange"](length, dtype=_C.float64, device=device)
        result = make(n / (length if periodic else length - 1)).to(dtype)
    return result.requires_grad_() if requires_grad else result


def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A triangle that is 0 at its ends.

    >>> import rushlight as torch
    >>> torch.bartlett_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window(
        "bartlett_window", lambda x: 1 - (2 * x - 1).abs(), window_length, periodic, dtype, layout,
        device, requires_grad,
    )  # fmt: skip


def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``0.42 - 0.5 * cos(x) + 0.08 * cos(2 * x)`` over one period.

    >>> import rushlight as torch
    >>> torch.blackman_window(4)[1:]
    tensor([0.3400, 1.0000, 0.3400])
    """

    def make(x: Any) -> Any:
        turn = x * (2 * 3.141592653589793)
        return 0.42 - 0.5 * turn.cos() + 0.08 * (2 * turn).cos()

    return _window(
        "blackman_window", make, window_length, periodic, dtype, layout, device, requires_grad
    )


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``alpha - beta * cos(x)`` over one period.

    >>> import rushlight as torch
    >>> torch.hamming_window(4)
    tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _window(
        "hamming_window", lambda x: alpha - beta * (x * (2 * 3.141592653589793)).cos(),
        window_length, periodic, dtype, layout, device, requires_grad,
    )  # fmt: skip


def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``0.5 - 0.5 * cos(x)`` over one period.

    >>> import rushlight as torch
    >>> torch.hann_window(4)
    tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window(
        "hann_window", lambda x: 0.5 - 0.5 * (x * (2 * 3.141592653589793)).cos(), window_length,
        periodic, dtype, layout, device, requires_grad,
    )  # fmt: skip


def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """``i0(beta * sqrt(1 - x**2)) / i0(beta)`` for x from -1 to 1.

    >>> import rushlight as torch
    >>> torch.kaiser_window(4, beta=1.0)
    tensor([0.7898, 0.9450, 1.0000, 0.9450])
    """

    def make(x: Any) -> Any:
        root = (1 - (2 * x - 1) ** 2).clamp(min=0).sqrt()
        return _ops["i0"](root * beta) / _ops["i0"](_ops["full"]((), beta, dtype=x.dtype))

    return _window(
        "kaiser_window", make, window_length, periodic, dtype, layout, device, requires_grad
    )


def _framed_window(name: str, window: Tensor | None, length: int, n_fft: int, like: Tensor) -> Any:
    """The window in the middle of n_fft points."""
    if window is None:
        real = like.real if like.is_complex() else like
        window = _ops["ones"](length, dtype=real.dtype, device=like.device)
    if length == n_fft:
        return window
    left = (n_fft - length) // 2
    return _C._namespaces["nn.functional"]["pad"](window, (left, n_fft - length - left))


def _check_sizes(name: str, n_fft: int, hop: int, length: int, window: Tensor | None) -> None:
    if hop <= 0:
        raise RuntimeError(f"{name}: expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{name}: expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and (window.dim() != 1 or window.shape[0] != length):
        raise RuntimeError(
            f"{name}: expected a 1D window tensor of size equal to win_length={length}, but got "
            f"window with size {list(window.shape)}"
        )


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """The spectra of overlapping pieces of a signal: [..., frequencies, pieces].

    >>> import rushlight as torch
    >>> x = torch.arange(16.0)
    >>> torch.stft(x, 4, window=torch.hann_window(4), return_complex=True).shape
    torch.Size([3, 17])
    """
    hop = hop_length if hop_length is not None else n_fft // 4
    length = win_length if win_length is not None else n_fft
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    x = input
    if not (x.is_floating_point() or x.is_complex()):
        raise RuntimeError(
            f"stft: expected a tensor of floating point or complex values, got {x.dtype}"
        )
    if not 1 <= x.dim() <= 2:
        raise RuntimeError(f"stft: expected a 1D or 2D tensor, but got {x.dim()}D tensor")
    complex_result = x.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not complex_result:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs"
            )
        return_complex = True
    if center:
        width = n_fft // 2
        shaped = x.reshape((1,) * (3 - x.dim()) + tuple(x.shape))
        shaped = _C._namespaces["nn.functional"]["pad"](shaped, (width, width), mode=pad_mode)
        x = shaped.reshape((*x.shape[:-1], shaped.shape[-1]))
    elif align_to_window and 0 < length < n_fft:  # pieces begin where their windows do
        x = _C._namespaces["nn.functional"]["pad"](x, ((n_fft - length) // 2,) * 2)
    if n_fft <= 0 or n_fft > x.shape[-1]:
        raise RuntimeError(
            f"stft: expected 0 < n_fft <= {x.shape[-1]}, but got n_fft={n_fft}: the signal is "
            f"shorter than a piece"
        )
    _check_sizes("stft", n_fft, hop, length, window)
    frames = x.unfold(-1, n_fft, hop) * _framed_window("stft", window, length, n_fft, x)
    one = onesided if onesided is not None else not complex_result
    if one and complex_result:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    spectra = _fft["rfft" if one else "fft"](frames, norm="ortho" if normalized else None)
    result = spectra.transpose(-1, -2)
    return result if return_complex else _ops["view_as_real"](result)


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal whose pieces have these spectra: the inverse of ``stft``.

    >>> import rushlight as torch
    >>> x, w = torch.arange(16.0), torch.hann_window(4)
    >>> y = torch.istft(torch.stft(x, 4, window=w, return_complex=True), 4, window=w)
    >>> torch.allclose(x, y, atol=1e-5)
    True
    """
    from rushlight.nn.functional import fold

    hop = hop_length if hop_length is not None else n_fft // 4
    width = win_length if win_length is not None else n_fft
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    if input.numel() == 0:
        raise RuntimeError("istft: input tensor cannot be empty.")
    if not 2 <= input.dim() <= 3:
        raise RuntimeError(
            f"istft: expected a tensor with 2 or 3 dimensions, but got {input.dim()}"
        )
    x = input if input.dim() == 3 else input.unsqueeze(0)
    bins, pieces = x.shape[1], x.shape[2]
    one = onesided if onesided is not None else bins != n_fft
    expected = n_fft // 2 + 1 if one else n_fft
    if bins != expected:
        raise RuntimeError(
            "istft: expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match {expected} for n_fft={n_fft} when onesided={one}, but got {bins}"
        )
    _check_sizes("istft", n_fft, hop, width, window)
    if return_complex and one:
        raise RuntimeError(
            "cannot have onesided output if window or input is complex: pass onesided=False"
        )
    norm = "ortho" if normalized else None
    spectra = x.transpose(1, 2)
    if return_complex:
        frames = _fft["ifft"](spectra, norm=norm)
    elif one:
        frames = _fft["irfft"](spectra, n_fft, norm=norm)
    else:  # the rest is taken to mirror it
        frames = _fft["irfft"](spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    if window is not None and window.is_complex() and not return_complex:
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    tapered = _framed_window("istft", window, width, n_fft, frames)
    whole = n_fft + hop * (pieces - 1)

    def overlapped(parts: Any) -> Any:
        """The sum of pieces [batch, pieces, n_fft], each a hop behind the one before."""
        if parts.is_complex():
            return _ops["complex"](overlapped(parts.real), overlapped(parts.imag))
        size, kernel, stride = (1, whole), (1, n_fft), (1, hop)
        summed = fold(parts.transpose(1, 2), size, kernel, stride=stride)
        return summed.reshape(parts.shape[0], whole)

    y = overlapped(frames * tapered)
    square = (tapered * tapered).expand(1, pieces, n_fft)
    envelope = overlapped(square)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else whole - (n_fft // 2 if center else 0)
    y, envelope = y[:, start:end], envelope[:, start:end]
    if envelope.shape[1] and bool(envelope.abs().min() < 1e-11):
        raise RuntimeError(
            "istft: window overlap add min: the window's squares sum to 0 somewhere, so the signal "
            "is not determined there: use a smaller hop_length or another window"
        )
    y = y / envelope
    if end > whole:
        import warnings

        warnings.warn(
            "The length of signal is shorter than the length parameter. Result is being padded "
            "with zeros in the tail. Please check your center and hop_length settings.",
            UserWarning,
            stacklevel=2,
        )
        y = _C._namespaces["nn.functional"]["pad"](y, (0, end - whole))
    return y if input.dim() == 3 else y.squeeze(0)
