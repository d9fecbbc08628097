"""Versions that compare by their numbers, with strings and tuples, as PyTorch's does."""

from __future__ import annotations

__all__ = ["TorchVersion"]

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _numbers(version: Any) -> tuple[int, ...]:
    parts = version.split("+")[0].split(".") if isinstance(version, str) else list(version)
    found: list[int] = []
    for part in parts:
        digits = str(part)
        while digits and not digits.isdigit():
            digits = digits[:-1]
        if not digits:
            break
        found.append(int(digits))
    while found and found[-1] == 0:
        found.pop()
    return tuple(found)


def _comparison(name: str) -> Callable[[str, Any], bool]:
    def compare(self: str, other: Any) -> bool:
        if not isinstance(other, (str, tuple, list)):
            return NotImplemented
        return bool(getattr(_numbers(self), name)(_numbers(other)))

    compare.__name__ = name
    return compare


class TorchVersion(str):
    """A version that is a string and compares as numbers.

    >>> from rushlight.torch_version import TorchVersion
    >>> TorchVersion("2.13.0+rushlight") >= "2.9", TorchVersion("2.13.0") > (2, 14)
    (True, False)
    """

    __lt__ = _comparison("__lt__")
    __le__ = _comparison("__le__")
    __gt__ = _comparison("__gt__")
    __ge__ = _comparison("__ge__")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (str, tuple, list)) and _numbers(self) == _numbers(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(_numbers(self))
