"""Random numbers that a recomputation draws again: every generator, those of other libraries."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.random import live_generators
from rushlight.utils.checkpoint._sources import reachable

if TYPE_CHECKING:
    from collections.abc import Callable

    Source = tuple[Callable[[], Any], Callable[[Any], object], Any]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return all(_same(value, b[key]) for key, value in a.items())
    equal = a == b
    return equal if isinstance(equal, bool) else bool(equal.all())


def _library_sources() -> list[tuple[Callable[[], Any], Callable[[Any], object]]]:
    """The global generators of libraries, as far as the program has imported them."""
    found = []
    if "random" in sys.modules:
        module = sys.modules["random"]
        found.append((module.getstate, module.setstate))
    if "numpy.random" in sys.modules:
        module = sys.modules["numpy.random"]
        found.append((partial(module.get_state, legacy=False), module.set_state))
    return found


class States:
    """The states of all sources at one time.

    The sources are all generators of this library, the global ones of others, and those of others
    that ``roots``, a function and its arguments, can reach.
    """

    def __init__(self, *roots: Any) -> None:
        pairs = [(g._raw_state, g._set_raw_state) for g in live_generators()]
        pairs += _library_sources() + reachable(*roots)
        self.sources: list[Source] = [(get, put, get()) for get, put in pairs]

    def forget_unused(self) -> None:
        """Keeps the sources that have moved since, so that a replay touches no others.

        A generator made since then and still alive was made by the region and may be used by its
        next run without being made again: that run must find it at the start of its sequence.
        """
        known = {getattr(get, "__self__", None) for get, _, _ in self.sources}
        made = [g for g in live_generators() if g not in known]
        self.sources = [s for s in self.sources if not _same(s[0](), s[2])]
        self.sources += [(g._raw_state, g._set_raw_state, g._initial_state()) for g in made]

    def replayed(self) -> _C._Scope:
        """A block that starts from there; after it, sources go on as though it had not run."""
        return _C._Scope(("states", tuple(self.sources)))
