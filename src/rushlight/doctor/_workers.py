"""Random streams in the workers of a DataLoader: which of them are equal in several workers.

Workers are forked, so what is installed here is there too. Each writes the fingerprints of the
streams that its first batches used to a file; the doctor reads it at the end.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rushlight.doctor._patches import Patches

FETCHES = 2  # of each worker that are looked at
OBJECTS, DEPTH = 64, 3  # how far to look for a dataset's own streams
_path = ""


class Use(NamedTuple):
    """A worker's fetch that drew from a stream, whose state was ``state`` before."""

    worker: int
    fetch: int
    stream: str
    state: str


def _streams(dataset: Any) -> Iterator[tuple[str, Any]]:
    """Names and states of the random streams that a dataset may draw from."""
    import random

    import rushlight

    yield "random", random.getstate()
    yield "rushlight", rushlight.get_rng_state().tolist()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        yield "numpy.random", numpy.random.get_state()
    for stream, value in _values(dataset):
        if isinstance(value, random.Random):
            yield stream, value.getstate()
        elif isinstance(value, rushlight.Generator):
            yield stream, value.get_state().tolist()
        elif numpy is not None and isinstance(value, numpy.random.Generator):
            yield stream, value.bit_generator.state
        elif numpy is not None and isinstance(value, numpy.random.RandomState):
            yield stream, value.get_state()


def _values(dataset: Any) -> Iterator[tuple[str, Any]]:
    """What a dataset holds, its transforms hold, and the modules of their classes."""
    seen: dict[int, Any] = {}
    stack = [(dataset, 0)]
    while stack and len(seen) < OBJECTS:
        holder, depth = stack.pop()
        if id(holder) in seen:
            continue
        seen[id(holder)] = holder
        where = str(getattr(holder, "__module__", ""))  # of a class, or of a function
        module = sys.modules.get(where)
        if module is not None and id(module) not in seen:
            seen[id(module)] = module
            yield from ((f"{where}.{name}", value) for name, value in list(vars(module).items()))
        for name, value in list(getattr(holder, "__dict__", {}).items()):
            yield f"{type(holder).__name__}.{name}", value
            if depth < DEPTH:
                inner = value[:OBJECTS] if isinstance(value, (list, tuple)) else [value]
                stack += [(each, depth + 1) for each in inner if hasattr(each, "__dict__")]


def _fingerprints(dataset: Any) -> dict[str, str]:
    import hashlib

    return {
        name: hashlib.sha256(repr(state).encode()).hexdigest()[:16]
        for name, state in _streams(dataset)
    }


def install(patches: Patches) -> None:
    """Lets the fetchers of workers say which streams they use."""
    import tempfile

    from rushlight.utils.data import get_worker_info
    from rushlight.utils.data._utils import fetch

    global _path
    handle, path = tempfile.mkstemp(prefix="rushlight-doctor-")
    os.close(handle)
    before, _path = _path, path
    patches.on_undo(lambda: _forget(path, before))

    def make(native: Any) -> Any:
        done = [0]

        def fetching(self: Any, index: Any) -> Any:
            info = get_worker_info()
            if info is None or done[0] >= FETCHES:
                return native(self, index)
            before = _fingerprints(info.dataset)
            result = native(self, index)
            after = _fingerprints(info.dataset)
            lines = [
                f"{info.id}\t{done[0]}\t{name}\t{state}\n"
                for name, state in before.items()
                if after.get(name) != state
            ]
            done[0] += 1
            with open(path, "a", encoding="utf-8") as file:
                file.write("".join(lines))
            return result

        return fetching

    patches.wrap(fetch._MapDatasetFetcher, "fetch", make)
    patches.wrap(fetch._IterableDatasetFetcher, "fetch", make)


def _forget(path: str, before: str) -> None:
    global _path
    _path = before
    os.remove(path)


def uses() -> list[Use]:
    """What the workers wrote."""
    with open(_path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return [Use(int(w), int(f), s, state) for w, f, s, state in rows]
