"""MKL is not used: matrices are multiplied by rushlight's own kernels and OpenBLAS."""

from __future__ import annotations

from rushlight.backends.mkldnn import verbose as verbose

VERBOSE_OFF, VERBOSE_ON = 0, 1


def is_available() -> bool:
    """False: MKL is not used.

    >>> import rushlight as torch
    >>> torch.backends.mkl.is_available()
    False
    """
    return False
