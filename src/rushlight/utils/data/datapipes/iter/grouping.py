"""Steps that make batches, and take them apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes._steps import Batching
from rushlight.utils.data.datapipes.datapipe import DataChunk, IterDataPipe

__all__ = ["BatcherIterDataPipe", "GrouperIterDataPipe", "UnBatcherIterDataPipe"]


@functional_datapipe("batch")
class BatcherIterDataPipe(Batching, IterDataPipe[Any]):
    """Lists of ``batch_size`` samples; the last one may have fewer.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(3)).batch(2))
    [[0, 1], [2]]
    """

    def __iter__(self) -> Iterator[Any]:
        batch: list[Any] = []
        for data in self.datapipe:
            batch.append(data)
            if len(batch) == self.batch_size:
                yield self.wrapper_class(batch)
                batch = []
        if batch and not self.drop_last:
            yield self.wrapper_class(batch)

    def __len__(self) -> int:
        whole, rest = divmod(len(self.datapipe), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)


@functional_datapipe("unbatch")
class UnBatcherIterDataPipe(IterDataPipe[Any]):
    """The samples of batches, ``unbatch_level`` lists deep; -1 is to the ground.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([[1, [2]], [3]]).unbatch(unbatch_level=-1))
    [1, 2, 3]
    """

    def __init__(self, datapipe: IterDataPipe[Any], unbatch_level: int = 1) -> None:
        self.datapipe, self.unbatch_level = datapipe, unbatch_level

    def __iter__(self) -> Iterator[Any]:
        if self.unbatch_level < -1:
            raise ValueError(f"unbatch_level must be -1 or >= 0, got {self.unbatch_level}")
        for data in self.datapipe:
            yield from self._samples(data, self.unbatch_level)

    def _samples(self, data: Any, level: int) -> Iterator[Any]:
        within = isinstance(data, (list, DataChunk))
        if level == 0 or (level == -1 and not within):
            yield data
        elif within:
            for item in data:
                yield from self._samples(item, max(level - 1, -1))
        else:
            raise IndexError(
                f"unbatch_level {self.unbatch_level} exceeds the depth of the DataPipe"
            )


@functional_datapipe("groupby")
class GrouperIterDataPipe(IterDataPipe[Any]):
    """Lists of samples with the same key, of ``group_size`` or, where the buffer is full, the
    largest there is.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).groupby(lambda x: x % 2))
    [[0, 2, 4], [1, 3]]
    """

    def __init__(
        self,
        datapipe: IterDataPipe[Any],
        group_key_fn: Callable[[Any], Any],
        *,
        keep_key: bool = False,
        buffer_size: int = 10000,
        group_size: int | None = None,
        guaranteed_group_size: int | None = None,
        drop_remaining: bool = False,
    ) -> None:
        if not callable(group_key_fn):
            raise TypeError(
                f"A callable function is expected, but {type(group_key_fn)} is provided."
            )
        self.datapipe, self.group_key_fn, self.keep_key = datapipe, group_key_fn, keep_key
        self.max_buffer_size, self.group_size = buffer_size, group_size
        self.drop_remaining = drop_remaining
        if group_size is not None and not 0 < group_size <= buffer_size:
            raise AssertionError(
                f"group_size must be > 0 and <= buffer_size, got {group_size} and {buffer_size}"
            )
        if guaranteed_group_size is not None and (
            group_size is None or not 0 < guaranteed_group_size <= group_size
        ):
            raise AssertionError(
                "guaranteed_group_size must be > 0 and <= group_size and group_size must be set, "
                f"got {guaranteed_group_size} and {group_size}"
            )
        self.guaranteed_group_size = (
            group_size if guaranteed_group_size is None else guaranteed_group_size
        )

    def __iter__(self) -> Iterator[Any]:
        groups: dict[Any, list[Any]] = defaultdict(list)
        held = 0

        def taken(key: Any) -> Any:
            group = DataChunk(groups.pop(key))
            return (key, group) if self.keep_key else group

        for data in self.datapipe:
            key = self.group_key_fn(data)
            groups[key].append(data)
            held += 1
            if len(groups[key]) == self.group_size:
                held -= len(groups[key])
                yield taken(key)
            if held == self.max_buffer_size:
                largest = max(groups, key=lambda k: len(groups[k]))
                size = len(groups[largest])
                held -= size
                least = self.guaranteed_group_size
                if least is None or size >= least:
                    yield taken(largest)
                elif self.drop_remaining:
                    del groups[largest]
                else:
                    raise RuntimeError(
                        f"Failed to group items {groups[largest]}: the buffer of "
                        f"{self.max_buffer_size} is full, and no group has {least}"
                    )
        for key in list(groups):
            yield taken(key)
