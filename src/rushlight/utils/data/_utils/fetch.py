"""Fetching the samples of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight import Tensor, index_select, int64, tensor
from rushlight.utils.data._utils.collate import (
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
)
from rushlight.utils.data.dataset import Subset, TensorDataset


class _IterableDatasetFetcher:
    """Takes the next samples of a stream."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: Any, drop_last: bool) -> None:
        self.dataset_iter = iter(dataset)
        self.auto_collation = batched
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.ended = False

    def fetch(self, index: Any) -> Any:
        """A batch; StopIteration at the end of the stream."""
        if self.ended:
            raise StopIteration
        if not self.auto_collation:
            return self.collate_fn(next(self.dataset_iter))
        data = []
        for _ in index:
            try:
                data.append(next(self.dataset_iter))
            except StopIteration:
                self.ended = True
                break
        if not data or (self.drop_last and len(data) < len(index)):
            raise StopIteration
        return self.collate_fn(data)


class _MapDatasetFetcher:
    """Looks up samples by index."""

    def __init__(self, dataset: Any, batched: bool, collate_fn: Any, drop_last: bool) -> None:
        self.dataset = dataset
        self.auto_collation = batched
        self.collate_fn = collate_fn
        self._rows = _rows_of(dataset) if batched and collate_fn is default_collate else None

    def fetch(self, index: Any) -> Any:
        """A batch."""
        if not self.auto_collation:
            return self.collate_fn(self.dataset[index])
        if self._rows is not None:
            batch = self._rows(index)
            if batch is not None:
                return batch
        get_many = getattr(self.dataset, "__getitems__", None)
        if get_many:
            return self.collate_fn(get_many(index))
        dataset = self.dataset
        return self.collate_fn([dataset[i] for i in index])


def _rows_of(dataset: Any) -> Callable[[Any], list[Tensor] | None] | None:
    """A quick way to what default_collate makes of a TensorDataset or a part of one.

    One ``index_select`` per tensor gives what stacking single rows gives. None stands for "not
    this way": the general one then also raises the errors.
    """
    subsets = []
    while type(dataset) is Subset:
        subsets.append(dataset)
        dataset = dataset.dataset
    kind = type(dataset)
    if not isinstance(dataset, TensorDataset) or hasattr(kind, "__getitems__"):
        return None
    if kind.__getitem__ is not TensorDataset.__getitem__:
        return None
    only_ints = {int}

    def rows(index: Any) -> list[Tensor] | None:
        tensors = dataset.tensors
        if default_collate_fn_map.get(Tensor) is not collate_tensor_fn:
            return None
        try:
            for subset in subsets:
                indices = subset.indices
                index = [indices[i] for i in index]
            if set(map(type, index)) != only_ints or min(index) < 0:
                return None
            if any(type(t) is not Tensor for t in tensors):
                return None
            chosen = tensor(index, dtype=int64)
            return [index_select(t, 0, chosen) for t in tensors]
        except (IndexError, TypeError, RuntimeError):
            return None

    return rows
