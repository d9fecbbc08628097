"""Functions replaced for a while."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Patches:
    """Replaces attributes of classes and modules and puts them back, the latest first."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def on_undo(self, action: Callable[[], None]) -> None:
        self._undo.append(action)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Replaces an attribute that the owner itself has."""
        before = vars(owner)[name]
        setattr(owner, name, value)
        self._undo.append(lambda: setattr(owner, name, before))

    def add(self, owner: Any, name: str, value: Any) -> None:
        """Gives the owner an attribute that it inherits, unless it got one already."""
        if name in vars(owner):
            return self.set(owner, name, value)
        setattr(owner, name, value)
        self._undo.append(lambda: delattr(owner, name))

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replaces a function by what ``make`` returns for it, under its name and docstring."""
        before = vars(owner)[name]
        self.set(owner, name, wraps(before)(make(before)))

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()
