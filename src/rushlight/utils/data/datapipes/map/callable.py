"""Steps that call a function on each sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["MapperMapDataPipe"]


def _same(data: Any) -> Any:
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe[Any]):
    """``fn`` of each sample.

    >>> from rushlight.utils.data.datapipes.map import SequenceWrapper
    >>> SequenceWrapper([1, 2]).map(float)[1]
    2.0
    """

    def __init__(self, datapipe: MapDataPipe[Any], fn: Callable[..., Any] = _same) -> None:
        if not callable(fn):
            raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)
