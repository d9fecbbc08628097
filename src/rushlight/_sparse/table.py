"""The rules of ops on sparse tensors, by name."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function the rule of these ops."""

    def keep(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            RULES[name] = function
        return function

    return keep


kind: Any = ()  # the class, once it is made


def is_sparse(x: object) -> bool:
    return isinstance(x, kind)
