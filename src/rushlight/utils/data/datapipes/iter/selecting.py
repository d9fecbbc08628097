"""Steps that leave samples out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight import Tensor
from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.utils.common import validate_input_col

__all__ = ["FilterIterDataPipe"]


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[Any]):
    """The samples of which ``filter_fn`` is True.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).filter(lambda x: x % 2 == 0))
    [0, 2, 4]
    """

    def __init__(
        self, datapipe: IterDataPipe[Any], filter_fn: Callable[..., Any], input_col: Any = None
    ) -> None:
        validate_input_col(filter_fn, input_col)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col

    def _apply_filter_fn(self, data: Any) -> Any:
        columns = self.input_col
        if columns is None:
            return self.filter_fn(data)
        if isinstance(columns, (list, tuple)):
            return self.filter_fn(*(data[c] for c in columns))
        return self.filter_fn(data[columns])

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            keep = self._apply_filter_fn(data)
            if isinstance(keep, Tensor) and keep.numel() == 1:
                keep = bool(keep)
            if not isinstance(keep, bool):
                raise ValueError(
                    "Boolean output is required for `filter_fn` of FilterIterDataPipe, got "
                    f"{type(keep)}"
                )
            if keep:
                yield data
