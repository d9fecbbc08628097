"""Threads: rushlight has its own pool, and ``torch.set_num_threads`` sets its size."""

from __future__ import annotations


def is_available() -> bool:
    """True: kernels run on several threads.

    >>> import rushlight as torch
    >>> torch.backends.openmp.is_available()
    True
    """
    return True
