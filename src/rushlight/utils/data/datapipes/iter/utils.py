"""The beginning of a stream."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from rushlight.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["IterableWrapperIterDataPipe"]


class IterableWrapperIterDataPipe(IterDataPipe[Any]):
    """The elements of an iterable. Each pass goes over a copy, unless ``deepcopy=False``.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2]))
    [1, 2]
    """

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable = iterable
        self.deepcopy = deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:  # generators, files
                warnings.warn(
                    "The input iterable can not be deepcopied: what a later step changes in place "
                    "is changed in the source, and a second pass may find nothing",
                    stacklevel=2,
                )
        yield from source

    def __len__(self) -> int:
        sized: Any = self.iterable
        try:
            return len(sized)
        except TypeError:
            raise TypeError(f"{self!r} instance doesn't have valid length") from None
