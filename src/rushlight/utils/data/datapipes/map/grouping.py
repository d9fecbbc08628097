"""Steps that make batches."""

from __future__ import annotations

from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes._steps import Batching
from rushlight.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["BatcherMapDataPipe"]


@functional_datapipe("batch")
class BatcherMapDataPipe(Batching, MapDataPipe[Any]):
    """Lists of ``batch_size`` samples; the last one may have fewer.

    >>> from rushlight.utils.data.datapipes.map import SequenceWrapper
    >>> list(SequenceWrapper(range(3)).batch(2))
    [[0, 1], [2]]
    """

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(f"Index {index} is out of bound.")
        end = min((index + 1) * self.batch_size, len(self.datapipe))
        return self.wrapper_class([self.datapipe[i] for i in range(index * self.batch_size, end)])

    def __len__(self) -> int:
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)
