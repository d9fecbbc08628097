"""Steps that make one stream of several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["ConcaterIterDataPipe", "MultiplexerIterDataPipe", "ZipperIterDataPipe"]


class _Several(IterDataPipe[Any]):
    def __init__(self, *datapipes: IterDataPipe[Any]) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        for pipe in datapipes:
            if not isinstance(pipe, IterDataPipe):
                raise TypeError(f"Expected all inputs to be `IterDataPipe`, got {type(pipe)}")
        self.datapipes = datapipes

    def _lengths(self) -> list[int]:
        return [len(pipe) for pipe in self.datapipes]


@functional_datapipe("concat")
class ConcaterIterDataPipe(_Several):
    """One stream after the other.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("ab").concat(IterableWrapper("c")))
    ['a', 'b', 'c']
    """

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(self._lengths())


@functional_datapipe("mux")
class MultiplexerIterDataPipe(_Several):
    """A sample of each in turn, until one ends.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("abc").mux(IterableWrapper("xy")))
    ['a', 'x', 'b', 'y']
    """

    def __iter__(self) -> Iterator[Any]:
        for samples in zip(*self.datapipes, strict=False):
            yield from samples

    def __len__(self) -> int:
        return min(self._lengths()) * len(self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(_Several):
    """Tuples of a sample of each, until one ends.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper("abc").zip(IterableWrapper("xy")))
    [('a', 'x'), ('b', 'y')]
    """

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(self._lengths())
