"""Steps that make one map of several."""

from __future__ import annotations

from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["ConcaterMapDataPipe", "ZipperMapDataPipe"]


class _Several(MapDataPipe[Any]):
    def __init__(self, *datapipes: MapDataPipe[Any]) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        for pipe in datapipes:
            if not isinstance(pipe, MapDataPipe):
                raise TypeError(f"Expected all inputs to be `MapDataPipe`, got {type(pipe)}")
        self.datapipes = datapipes


@functional_datapipe("concat")
class ConcaterMapDataPipe(_Several):
    """One map after the other; keys count from 0.

    >>> from rushlight.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper("ab").concat(SequenceWrapper("c"))[2]
    'c'
    """

    def __getitem__(self, index: int) -> Any:
        offset = 0
        for pipe in self.datapipes:
            size = len(pipe)
            if index - offset < size:
                return pipe[index - offset]
            offset += size
        raise IndexError(f"Index {index} is out of range.")

    def __len__(self) -> int:
        return sum(len(pipe) for pipe in self.datapipes)


@functional_datapipe("zip")
class ZipperMapDataPipe(_Several):
    """Tuples of the samples of a key.

    >>> from rushlight.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper("ab").zip(SequenceWrapper("cd"))[1]
    ('b', 'd')
    """

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        samples = []
        for pipe in self.datapipes:
            try:
                samples.append(pipe[index])
            except IndexError as error:
                raise IndexError(
                    f"Index {index} is out of range for one of the input MapDataPipes {pipe!r}."
                ) from error
        return tuple(samples)

    def __len__(self) -> int:
        return min(len(pipe) for pipe in self.datapipes)
