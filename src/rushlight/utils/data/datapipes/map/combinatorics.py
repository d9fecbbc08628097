"""Steps that change the order of samples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rushlight.utils.data.datapipes._steps import Shuffling
from rushlight.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["ShufflerIterDataPipe"]


class ShufflerIterDataPipe(Shuffling, IterDataPipe[Any]):
    """The samples of a map in a random order.

    >>> from rushlight.utils.data.datapipes.map import SequenceWrapper
    >>> list(SequenceWrapper(range(5)).shuffle().set_seed(1))
    [2, 3, 4, 0, 1]
    """

    def __init__(self, datapipe: MapDataPipe[Any], *, indices: list[Any] | None = None) -> None:
        self.datapipe = datapipe
        self.indices = list(range(len(datapipe))) if indices is None else indices
        super().__init__()

    def __iter__(self) -> Iterator[Any]:
        indices = self.indices
        if self._enabled:
            indices = self._rng.sample(indices, len(indices))[::-1]  # the order that PyTorch has
        for index in indices:
            yield self.datapipe[index]

    def __len__(self) -> int:
        return len(self.datapipe)


# It gives a stream: as a step of streams it would take the place of theirs.
MapDataPipe.register_datapipe_as_function("shuffle", ShufflerIterDataPipe)
