"""Switches for deterministic algorithms.

All are on the CPU. On CUDA devices, where sums of elements at equal places and some of cuDNN's
algorithms are in no fixed order otherwise, they then are as well.
"""

from __future__ import annotations

from rushlight import _C

__all__ = [
    "are_deterministic_algorithms_enabled", "get_deterministic_debug_mode",
    "is_deterministic_algorithms_warn_only_enabled", "set_deterministic_debug_mode",
    "use_deterministic_algorithms",
]  # fmt: skip

_LEVELS = ("default", "warn", "error")
_level = 0


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for results that are the same every time; every op has them: nothing warns or raises.

    On CUDA devices they cost time where elements are summed by index, which are sorted first, and
    in cuDNN's convolutions and attention.

    >>> import rushlight as torch
    >>> torch.use_deterministic_algorithms(True)
    >>> torch.are_deterministic_algorithms_enabled()
    True
    >>> torch.use_deterministic_algorithms(False)
    """
    if not isinstance(mode, bool):
        raise TypeError(
            f"use_deterministic_algorithms(): mode must be bool, not {type(mode).__name__}"
        )
    set_deterministic_debug_mode((1 if warn_only else 2) if mode else 0)


def are_deterministic_algorithms_enabled() -> bool:
    """Whether deterministic algorithms were asked for.

    >>> import rushlight as torch
    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    return _level > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Whether they were asked for with ``warn_only``.

    >>> import rushlight as torch
    >>> torch.use_deterministic_algorithms(True, warn_only=True)
    >>> torch.is_deterministic_algorithms_warn_only_enabled()
    True
    >>> torch.use_deterministic_algorithms(False)
    """
    return _level == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """0 or "default", 1 or "warn", 2 or "error".

    >>> import rushlight as torch
    >>> torch.set_deterministic_debug_mode("error")
    >>> torch.are_deterministic_algorithms_enabled(), torch.get_deterministic_debug_mode()
    (True, 2)
    >>> torch.set_deterministic_debug_mode(0)
    """
    global _level
    if isinstance(debug_mode, str):
        if debug_mode not in _LEVELS:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, "
                f"but got {debug_mode}"
            )
        _level = _LEVELS.index(debug_mode)
    elif debug_mode in (0, 1, 2):
        _level = debug_mode
    else:
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    _C._cuda_set_deterministic(_level > 0)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: see ``set_deterministic_debug_mode``.

    >>> import rushlight as torch
    >>> torch.get_deterministic_debug_mode()
    0
    """
    return _level
