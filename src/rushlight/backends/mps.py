"""Apple's GPU is not used."""

from __future__ import annotations


def is_built() -> bool:
    """False: this build computes on the CPU only."""
    return False


def is_available() -> bool:
    """False: this build computes on the CPU only."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """False: no such device."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: no such device."""
    return False
