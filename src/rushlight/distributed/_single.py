"""Parts of torch.distributed that are left out: names, which raise when used."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, NoReturn

_LEFT_OUT = "rushlight leaves this part of torch.distributed out"


def _function(module: str, name: str) -> Any:
    path = f"torch{module.removeprefix('rushlight')}.{name}"

    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{path}(): {_LEFT_OUT}")

    absent.__module__ = module
    absent.__name__ = absent.__qualname__ = name
    absent.__doc__ = f"""Raises: it is left out.

    >>> import rushlight as torch
    >>> import rushlight{module.removeprefix("rushlight")}
    >>> {path}()
    Traceback (most recent call last):
        ...
    RuntimeError: {path}(): rushlight leaves this part of torch.distributed out
    """
    return absent


def _class(module: str, name: str) -> type:
    path = f"torch{module.removeprefix('rushlight')}.{name}"

    def new(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{path}: {_LEFT_OUT}")

    doc = f"""Left out: nothing is one, and making one raises.

    >>> import rushlight as torch
    >>> import rushlight{module.removeprefix("rushlight")}
    >>> isinstance(None, {path})
    False
    """
    return type(name, (), {"__new__": new, "__doc__": doc, "__module__": module})


def absent(module: str, names: Iterable[str]) -> dict[str, Any]:
    """The members of a module that are left out, by name; classes are capitalised."""
    return {name: (_class if name[0].isupper() else _function)(module, name) for name in names}
