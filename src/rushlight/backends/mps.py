"""Apple's GPU is not used."""

from __future__ import annotations


def is_built() -> bool:
    """False: this build computes on the CPU only.

    >>> import rushlight as torch
    >>> torch.backends.mps.is_built()
    False
    """
    return False


def is_available() -> bool:
    """False: this build computes on the CPU only.

    >>> import rushlight as torch
    >>> torch.backends.mps.is_available()
    False
    """
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False: no such device.

    >>> import rushlight as torch
    >>> torch.backends.mps.is_macos_or_newer(14, 0)
    False
    """
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: no such device.

    >>> import rushlight as torch
    >>> torch.backends.mps.is_macos13_or_newer()
    False
    """
    return False
