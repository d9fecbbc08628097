"""Steps that call a function on each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight.utils.data._utils.collate import default_collate
from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.utils.common import validate_input_col

__all__ = ["CollatorIterDataPipe", "MapperIterDataPipe"]


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """``fn`` of each sample, or of its columns ``input_col``; the result replaces those, or goes to
    ``output_col`` (-1: behind the last).

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([(1, 2)]).map(lambda x: -x, input_col=1, output_col=-1))
    [(1, 2, -2)]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        fn: Callable[..., Any],
        input_col: Any = None,
        output_col: Any = None,
    ) -> None:
        validate_input_col(fn, input_col)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            (output_col,) = output_col
        self.datapipe, self.fn = datapipe, fn
        self.input_col, self.output_col = input_col, output_col

    def _apply_fn(self, data: Any) -> Any:
        columns, to = self.input_col, self.output_col
        if columns is None:
            return self.fn(data)
        several = isinstance(columns, (list, tuple))
        chosen = list(columns) if several else [columns]
        result = self.fn(*(data[c] for c in chosen))
        kind = tuple if isinstance(data, tuple) else None
        data = list(data) if kind else data.copy()
        if to is not None:
            if to == -1:
                data.append(result)
            else:
                data[to] = result
        else:  # the result takes the place of the first column, the others go
            data[chosen[0]] = result
            for c in sorted(chosen[1:], reverse=True):
                del data[c]
        return kind(data) if kind else data

    def __iter__(self) -> Iterator[Any]:
        for data in self.datapipe:
            yield self._apply_fn(data)

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors, by ``default_collate`` or another function.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2]).batch(2).collate())
    [tensor([1, 2])]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        conversion: Callable[..., Any] = default_collate,
        collate_fn: Callable[..., Any] | None = None,
    ) -> None:
        fn = conversion if collate_fn is None else collate_fn
        if isinstance(fn, dict):
            raise TypeError("collate: columns of data frames can't be converted: give a function")
        super().__init__(datapipe, fn=fn)
