"""Marks of what stays as it is from release to release."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

_BACK_COMPAT_OBJECTS: dict[object, None] = {}
_MARKED_WITH_COMPATIBILITY: dict[object, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """A decorator that notes whether programs may rely on a function or class.

    >>> from rushlight.fx._compatibility import compatibility
    >>> @compatibility(is_backward_compatible=True)
    ... def stable():
    ...     return 1
    >>> stable()
    1
    """

    def mark(marked: _T) -> _T:
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(marked)
        _MARKED_WITH_COMPATIBILITY.setdefault(marked)
        return marked

    return mark
