"""oneDNN is not used; its switches can be set all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.backends._flags import set_for_a_block

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

VERBOSE_OFF, VERBOSE_ON, VERBOSE_ON_CREATION = 0, 1, 2
enabled = True
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """False: kernels are rushlight's own.

    >>> import rushlight as torch
    >>> torch.backends.mkldnn.is_available()
    False
    """
    return False


def flags(
    enabled: bool | None = None,
    deterministic: bool | None = None,
    allow_tf32: bool | None = None,
    fp32_precision: str | None = None,
) -> AbstractContextManager[None]:
    """``with flags(...):`` these switches, then the former ones.

    >>> import rushlight as torch
    >>> with torch.backends.mkldnn.flags(enabled=False):
    ...     torch.backends.mkldnn.enabled
    False
    """
    return set_for_a_block(__name__, locals())


class verbose:
    """``with verbose(level):`` nothing is printed: the library is not used.

    >>> import rushlight as torch
    >>> with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
    ...     torch.ones(2) @ torch.ones(2)
    tensor(2.)
    """

    def __init__(self, level: int) -> None:
        self.level = level

    def __enter__(self) -> verbose:
        return self

    def __exit__(self, *error: Any) -> None:
        pass
