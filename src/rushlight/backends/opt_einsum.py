"""``einsum`` finds the order of its products by itself."""

from __future__ import annotations

enabled = True
strategy: str | None = "auto"


def is_available() -> bool:
    """False: the package is not used.

    >>> import rushlight as torch
    >>> torch.backends.opt_einsum.is_available()
    False
    """
    return False


def get_opt_einsum() -> None:
    """None: the package is not used.

    >>> import rushlight as torch
    >>> print(torch.backends.opt_einsum.get_opt_einsum())
    None
    """
    return None
