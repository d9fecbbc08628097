"""Whether mixed precision on CUDA devices makes sense here."""

from __future__ import annotations

from rushlight import cuda

__all__ = ["amp_definitely_not_available"]


def amp_definitely_not_available() -> bool:
    """Whether there is no CUDA device.

    >>> import rushlight as torch
    >>> torch.cuda.amp.amp_definitely_not_available()
    True
    """
    return not cuda.is_available()
