"""cuDNN, which convolves and attends on CUDA devices where it is installed, and its switches.

>>> import rushlight as torch
>>> torch.backends.cudnn.is_available() == (torch.backends.cudnn.version() is not None)
True
>>> with torch.backends.cudnn.flags(benchmark=True):
...     torch.backends.cudnn.benchmark
True
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.backends._flags import set_for_a_block

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

enabled = True
benchmark = False
benchmark_limit: int | None = 10
deterministic = False
allow_tf32 = True
fp32_precision = "none"


class _Module(ModuleType):
    """The switches that the core reads are told to it."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in ("allow_tf32", "deterministic"):
            _C._cuda_set_cudnn(name, bool(value))


sys.modules[__name__].__class__ = _Module


def is_available() -> bool:
    """Whether there is a CUDA device, and cuDNN for it.

    >>> import rushlight as torch
    >>> torch.backends.cudnn.is_available() <= torch.cuda.is_available()
    True
    """
    return version() is not None


def version() -> int | None:
    """cuDNN's version; None where it is not there.

    >>> import rushlight as torch
    >>> if not torch.cuda.is_available():
    ...     assert torch.backends.cudnn.version() is None
    """
    from rushlight.cuda._start import start

    return None if start() is not None else _C._cuda_cudnn_version() or None


def is_acceptable(tensor: Any) -> bool:
    """Whether cuDNN takes a tensor: one on a CUDA device, where it is there.

    >>> import rushlight as torch
    >>> torch.backends.cudnn.is_acceptable(torch.ones(1))
    False
    """
    return bool(tensor.is_cuda) and tensor.is_floating_point() and is_available()


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
            setattr(sys.modules[__name__], name, given["_" + name])
    return before
