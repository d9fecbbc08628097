"""Element types of PyTorch that tensors cannot have here: names to compare with and to look up."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_BYTES = {
    "float4_e2m1fn_x2": 1,
    **{f"{sign}int{bits}": 1 for sign in ("", "u") for bits in range(1, 8)},
    **dict.fromkeys(("bits1x8", "bits2x4", "bits4x2", "bits8"), 1),
    "bits16": 2,
    "qint8": 1,
    "quint8": 1,
    "qint32": 4,
    "quint4x2": 1,
    "quint2x4": 1,
}
NAMES = tuple(_BYTES)


class AbsentDtype:
    """A type that no tensor has, one of the names only: to compare and to keep in tables."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.itemsize = _BYTES[name]
        self.is_floating_point = name.startswith("float")
        self.is_complex = False
        self.is_signed = not name.startswith(("u", "bits", "quint"))

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return of_name, (self.name,)


_made: dict[str, AbsentDtype] = {}


def of_name(name: str) -> AbsentDtype | None:
    """The one object for a type, or None for what is no name of one."""
    if name not in _BYTES:
        return None
    return _made.setdefault(name, AbsentDtype(name))
