"""cuDNN is not there; its switches can be set all the same.

>>> import rushlight as torch
>>> torch.backends.cudnn.is_available()
False
>>> with torch.backends.cudnn.flags(benchmark=True):
...     torch.backends.cudnn.benchmark
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.backends._flags import set_for_a_block

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

enabled = True
benchmark = False
benchmark_limit: int | None = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


def is_available() -> bool:
    """False: there is no CUDA device.

    >>> import rushlight as torch
    >>> torch.backends.cudnn.is_available()
    False
    """
    return False


def version() -> int | None:
    """None: cuDNN is not there.

    >>> import rushlight as torch
    >>> print(torch.backends.cudnn.version())
    None
    """
    return None


def is_acceptable(tensor: Any) -> bool:
    """False: nothing runs on cuDNN.

    >>> import rushlight as torch
    >>> torch.backends.cudnn.is_acceptable(torch.ones(1))
    False
    """
    return False


def flags(
    enabled: bool | None = None,
    benchmark: bool | None = None,
    benchmark_limit: int | None = None,
    deterministic: bool | None = None,
    allow_tf32: bool | None = None,
    fp32_precision: str | None = None,
) -> AbstractContextManager[None]:
    """``with flags(...):`` these switches, then the former ones.

    >>> import rushlight as torch
    >>> with torch.backends.cudnn.flags(deterministic=True):
    ...     torch.backends.cudnn.deterministic
    True
    >>> torch.backends.cudnn.deterministic
    False
    """
    return set_for_a_block(__name__, locals())


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _benchmark_limit: int | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[Any, ...]:
    """Sets the switches; returns the former ones.

    >>> import rushlight as torch
    >>> before = torch.backends.cudnn.set_flags(_benchmark=True)
    >>> torch.backends.cudnn.benchmark
    True
    >>> _ = torch.backends.cudnn.set_flags(*before)
    """
    names = (
        "enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32", "fp32_precision",
    )  # fmt: skip
    given = locals()
    before = tuple(globals()[name] for name in names)
    for name in names:
        if given["_" + name] is not None:
            globals()[name] = given["_" + name]
    return before
