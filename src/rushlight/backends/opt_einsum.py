"""``einsum`` finds the order of its products by itself."""

from __future__ import annotations

enabled = True
strategy: str | None = "auto"


def is_available() -> bool:
    """False: the package is not used."""
    return False


def get_opt_einsum() -> None:
    """None: the package is not used."""
    return None
