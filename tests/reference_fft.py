"""The Fourier transforms as NumPy has them."""

import numpy as np

NAMES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
BACK = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def one(name):
    f = getattr(np.fft, name)
    return lambda x, n=None, dim=-1, norm=None: f(x, n, dim, norm)


def several(name, default):
    """hfftn and ihfftn are those of rfft, with the exponent of the other sign."""

    def call(x, s=None, dim=default, norm=None):
        if dim is None:
            dim = tuple(range(x.ndim - len(s), x.ndim)) if s else tuple(range(x.ndim))
        axes = (dim,) if isinstance(dim, int) else tuple(dim)
        if name == "hfft":
            return np.fft.irfftn(np.conj(x), s, axes, BACK[norm])
        if name == "ihfft":
            return np.conj(np.fft.rfftn(x, s, axes, BACK[norm]))
        return getattr(np.fft, f"{name}n")(x, s, axes, norm)

    return call


def shift(sign):
    def call(x, dim=None):
        axes = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
        for axis in axes:
            half = x.shape[axis] // 2
            x = np.roll(x, sign * half, axis)
        return x

    return call


REFERENCES = {
    **{f"fft.{name}": one(name) for name in NAMES},
    **{f"fft.{name}2": several(name, (-2, -1)) for name in NAMES},
    **{f"fft.{name}n": several(name, None) for name in NAMES},
    "fft.fftshift": shift(1),
    "fft.ifftshift": shift(-1),
}
