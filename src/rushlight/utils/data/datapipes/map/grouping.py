"""Steps that make batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import DataChunk, MapDataPipe

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(MapDataPipe[Any]):
    """Lists of ``batch_size`` samples; the last one may have fewer.

    >>> from rushlight.utils.data.datapipes.map import SequenceWrapper
    >>> list(SequenceWrapper(range(3)).batch(2))
    [[0, 1], [2]]
    """

    def __init__(
        self,
        datapipe: MapDataPipe[Any],
        batch_size: int,
        drop_last: bool = False,
        wrapper_class: Callable[[list[Any]], Any] = DataChunk,
    ) -> None:
        if batch_size <= 0:
            raise AssertionError(
                f"Batch size is required to be larger than 0! Got batch_size={batch_size}"
            )
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        end = min((index + 1) * self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(index * self.batch_size, end)])

    def __len__(self) -> int:
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
