"""The named tuples that ops with several results return.

>>> import rushlight as torch
>>> isinstance(torch.max(torch.ones(2, 2), 0), torch.return_types.max)
True
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from rushlight import _C

# Those of functions that are made of others.
_COMPOSED = {
    "frexp": ("mantissa", "exponent"),
    "histogram": ("hist", "bin_edges"),
    "histogramdd": ("hist", "bin_edges"),
    "nanmedian": ("values", "indices"),
}


def __getattr__(name: str) -> Any:
    if name == "all_return_types":
        return [each for each in map(_C._return_type, _C._namespaces[""]) if each is not None]
    # What `out=` gives has the type of what is given without it.
    found = None if name.startswith("__") else _C._return_type(name.removesuffix("_out"))
    if found is not None:
        return found
    plain = name.removesuffix("_out")
    if plain in _COMPOSED:
        made = globals()[plain] = globals().get(plain) or namedtuple(plain, _COMPOSED[plain])
        return made
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.return_types", name)


def pytree_register_structseq(cls: type) -> None:
    """Lets results of a type be seen as containers: they are, without asking.

    >>> import rushlight as torch
    >>> torch.return_types.pytree_register_structseq(torch.return_types.max)
    """
