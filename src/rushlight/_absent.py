"""Devices that this build does not have: what to say when a program needs one."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

_ADVICE = "rushlight computes on the CPU only; ask torch.{0}.is_available() before using torch.{0}"


def fail(kind: str, name: str, error: type[Exception] = AssertionError) -> NoReturn:
    """Raises as torch built without the device does; the function ``name`` needed it."""
    text = f"torch.{kind}.{name}(): Torch not compiled with {kind.upper()} enabled"
    raise error(f"{text}: {_ADVICE.format(kind)}")


def failing(kind: str, name: str, doc: str) -> Callable[..., Any]:
    """A function that needs the device, and so raises."""

    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        fail(kind, name, RuntimeError if kind == "mps" else AssertionError)

    return described(absent, kind, name, f"{doc} Raises: there is no such device.")


def described(function: Any, kind: str, name: str, doc: str) -> Any:
    """The function, which raises, with its names and a docstring that shows the error."""
    function.__module__ = f"rushlight.{kind}"
    function.__name__ = function.__qualname__ = name
    error = "RuntimeError" if kind in ("accelerator", "mps") else "AssertionError"
    function.__doc__ = f"""{doc}

    >>> import rushlight as torch
    >>> torch.{kind}.{name}()
    Traceback (most recent call last):
        ...
    {error}: torch.{kind}.{name}(): ...
    """
    return function


def absent_class(kind: str, name: str, doc: str) -> type:
    """A class whose objects need the device: isinstance works, making one raises."""

    def new(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"torch.{kind}.{name} requires {kind.upper()} support: {_ADVICE.format(kind)}"
        )

    shown = f"""{doc} Making one raises: there is no such device.

    >>> import rushlight as torch
    >>> isinstance(None, torch.{kind}.{name})
    False
    """
    return type(name, (), {"__new__": new, "__doc__": shown, "__module__": f"rushlight.{kind}"})


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""
