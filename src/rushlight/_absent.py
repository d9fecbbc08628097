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

    absent.__name__ = absent.__qualname__ = name
    absent.__doc__ = f"{doc} Raises: there is no such device."
    return absent


def absent_class(kind: str, name: str, doc: str) -> type:
    """A class whose objects need the device: isinstance works, making one raises."""

    def new(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"torch.{kind}.{name} requires {kind.upper()} support: {_ADVICE.format(kind)}"
        )

    return type(name, (), {"__new__": new, "__doc__": doc, "__module__": f"rushlight.{kind}"})


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""
