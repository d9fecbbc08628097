"""Errors for names that are not there: what is missing, where it may be, what is near."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType
    from typing import Any

# Where else a name is looked for, in this order.
_PLACES = ("", "nn", "nn.functional", "optim", "linalg", "special", "autograd", "utils.data")


class MissingAttribute(AttributeError):
    """A module has no such attribute. The text is made when it is read: ``hasattr`` stays cheap."""

    __module__, __qualname__ = "builtins", "AttributeError"  # what tracebacks show

    def __init__(self, module: str, name: str) -> None:
        super().__init__(f"module '{public(module)}' has no attribute '{name}'")
        self._module, self._missing = module, name

    def __str__(self) -> str:
        return f"{self.args[0]}: rushlight does not have it{hint(self._module, self._missing)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return AttributeError, (str(self),)


def public(module: str) -> str:
    """The name under which the program knows a module of rushlight."""
    if sys.modules.get("torch") is sys.modules["rushlight"]:
        return "torch" + module.removeprefix("rushlight")
    return module


def hint(module: str, name: str) -> str:
    """`` (it is torch.nn.Linear)`` or `` (near: torch.nn.Linear, ...)``, or nothing."""
    elsewhere = [place for place in _homes(name) if place != module]
    if elsewhere:
        return f" (it is {public(elsewhere[0])}.{name})"
    found = near(name, dir(sys.modules[module]))
    return f" (near: {', '.join(f'{public(module)}.{n}' for n in found)})" if found else ""


def module_hint(parent: str, name: str) -> str:
    """`` (near: torch.nn)`` for a submodule that is not there, or nothing."""
    from pkgutil import iter_modules

    found = near(name, [m.name for m in iter_modules(sys.modules[parent].__path__)])
    return f" (near: {', '.join(f'{public(parent)}.{n}' for n in found)})" if found else ""


def near(name: str, candidates: Iterable[str]) -> list[str]:
    """The names most like it, whatever the case."""
    from difflib import get_close_matches

    by_folded: dict[str, str] = {}
    for candidate in candidates:
        if not candidate.startswith("_") or name.startswith("_"):
            by_folded.setdefault(candidate.lower(), candidate)
    return [by_folded[n] for n in get_close_matches(name.lower(), by_folded, n=3, cutoff=0.7)]


def _homes(name: str) -> list[str]:
    """Loaded modules that do have the name."""
    if name.startswith("_") or name in ("annotations", "TYPE_CHECKING"):
        return []
    places = [f"rushlight.{place}".rstrip(".") for place in _PLACES]
    return [p for p in places if p in sys.modules and name in dir(sys.modules[p])]


def of_tensor(name: str) -> str:
    """What to say when a tensor has no such attribute."""
    from rushlight._C import Tensor

    found = near(name, dir(Tensor))
    where = f"; near: {', '.join(f'Tensor.{n}' for n in found)}" if found else ""
    return f"rushlight's Tensor does not have '{name}'{where}"


def module_getattr(module: ModuleType, label: str) -> Any:
    """A module's ``__getattr__`` that explains, after its own where it has one."""
    own = vars(module).get("__getattr__")

    def __getattr__(name: str) -> Any:
        if own is not None:
            try:
                return own(name)
            except MissingAttribute:
                raise
            except AttributeError:
                pass
        raise MissingAttribute(label, name)

    return __getattr__
