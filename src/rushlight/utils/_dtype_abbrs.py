"""Short names of dtypes, for texts."""

from __future__ import annotations

import re

import rushlight

_KINDS = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}


def _abbreviation(name: str) -> str:
    if name == "bool":
        return "b8"
    kind, rest = re.fullmatch(r"([a-z]+)(.*)", name).groups()  # type: ignore[union-attr]
    return _KINDS.get(kind, kind) + rest.replace("_", "")


dtype_abbrs: dict[rushlight.dtype, str] = {
    value: _abbreviation(str(value).removeprefix("torch."))
    for value in vars(rushlight).values()
    if isinstance(value, rushlight.dtype)
}
