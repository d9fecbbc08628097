"""Handles with which hooks are removed."""

from __future__ import annotations

from itertools import count

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight.utils._backward_hook import (
        BackwardHook as BackwardHook,
    )
    from rushlight.utils._backward_hook import (
        unserializable_hook as unserializable_hook,
    )
    from rushlight.utils._backward_hook import (
        warn_if_has_hooks as warn_if_has_hooks,
    )

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

_next_id = count()


class RemovableHandle:
    """Removes a hook from the dict it was put into; also a context manager.

    >>> import rushlight as torch
    >>> x = torch.ones((), requires_grad=True)
    >>> with x.register_hook(print) as handle:
    ...     (2 * x).backward()
    tensor(2.)
    >>> (2 * x).backward()  # prints nothing: the hook is gone
    """

    def __init__(self, hooks: dict[int, Callable[..., Any]]) -> None:
        self.hooks = hooks
        self.id = next(_next_id)

    def remove(self) -> None:
        """Removes the hook. Calling it again does nothing."""
        self.hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def add_hook(hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> RemovableHandle:
    """Puts a hook at the end of the dict.

    >>> from rushlight.utils.hooks import add_hook
    >>> hooks = {}
    >>> handle = add_hook(hooks, print)
    >>> list(hooks.values())
    [<built-in function print>]
    >>> handle.remove()
    >>> hooks
    {}
    """
    if not callable(hook):
        raise TypeError(f"a hook must be callable, got {type(hook).__name__}")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


def __getattr__(name: str) -> Any:
    if name in ("BackwardHook", "unserializable_hook", "warn_if_has_hooks"):
        from rushlight.utils import _backward_hook

        return getattr(_backward_hook, name)
    raise AttributeError(f"module 'rushlight.utils.hooks' has no attribute {name!r}")
