"""Switches that are set for a block."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from rushlight import _C

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def set_for_a_block(module: str, values: dict[str, Any]) -> Iterator[None]:
    """Sets attributes of a module that are not None, and sets them back.

    >>> import rushlight.backends.mkldnn as mkldnn
    >>> from rushlight.backends._flags import set_for_a_block
    >>> with set_for_a_block("rushlight.backends.mkldnn", {"enabled": False}):
    ...     mkldnn.enabled
    False
    >>> mkldnn.enabled
    True
    """
    owner = sys.modules[module]
    given = {name: value for name, value in values.items() if value is not None}
    attributes = ((partial(getattr, owner, n), partial(setattr, owner, n), given[n]) for n in given)
    with _C._Scope(("states", tuple(attributes))):
        yield
