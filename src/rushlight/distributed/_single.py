"""What needs several processes, in a build that runs in one: names, which raise when used."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

_NO_GROUP = (
    "Default process group has not been initialized, please make sure to call init_process_group: "
    "this build of rushlight runs in one process; ask torch.distributed.is_initialized() first"
)
_NO_PACKAGE = (
    "needs several processes, and this build of rushlight runs in one: ask "
    "torch.distributed.is_available() first"
)


def _function(module: str, name: str) -> Any:
    path = f"torch{module.removeprefix('rushlight')}.{name}"

    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(f"{path}(): {_NO_GROUP}")

    absent.__module__ = module
    absent.__name__ = absent.__qualname__ = name
    absent.__doc__ = f"""Raises: there is no process group.

    >>> import rushlight as torch
    >>> import rushlight{module.removeprefix("rushlight")}
    >>> {path}()
    Traceback (most recent call last):
        ...
    ValueError: {path}(): Default process group has not been initialized...
    """
    return absent


def _class(module: str, name: str) -> type:
    path = f"torch{module.removeprefix('rushlight')}.{name}"

    def new(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{path} {_NO_PACKAGE}")

    doc = f"""A part of programs of several processes: nothing is one, and making one raises.

    >>> import rushlight as torch
    >>> import rushlight{module.removeprefix("rushlight")}
    >>> isinstance(None, {path})
    False
    """
    return type(name, (), {"__new__": new, "__doc__": doc, "__module__": module})


def absent(module: str, names: Iterable[str]) -> dict[str, Any]:
    """The members of a module that need several processes, by name; classes are capitalised."""
    return {name: (_class if name[0].isupper() else _function)(module, name) for name in names}
