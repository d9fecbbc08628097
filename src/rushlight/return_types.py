"""The named tuples that ops with several results return.

>>> import rushlight as torch
>>> isinstance(torch.max(torch.ones(2, 2), 0), torch.return_types.max)
True
"""

from __future__ import annotations

from typing import Any

from rushlight import _C


def __getattr__(name: str) -> Any:
    found = None if name.startswith("__") else _C._return_type(name)
    if found is not None:
        return found
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.return_types", name)
