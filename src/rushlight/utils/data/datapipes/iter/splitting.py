"""Steps that make several streams of one, which share a buffer."""

from __future__ import annotations

import copy as copying
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe
from rushlight.utils.data.datapipes.datapipe import IterDataPipe

__all__ = ["DemultiplexerIterDataPipe", "ForkerIterDataPipe"]


class _Source(IterDataPipe[Any]):
    """The stream of which others take samples. A part that begins again begins them all anew."""

    def __init__(self, datapipe: IterDataPipe[Any], num_instances: int, buffer_size: int) -> None:
        self.main_datapipe = datapipe
        self.num_instances, self.buffer_size = num_instances, buffer_size
        self._round = 0
        self.reset()

    def reset(self) -> None:
        """Forgets what the parts have not taken."""
        self._round += 1
        self._samples: Iterator[Any] | None = None
        self._waiting: list[deque[Any]] = [deque() for _ in range(self.num_instances)]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_samples": None}

    def _pull(self) -> Any:
        if self._samples is None:
            self._samples = iter(self.main_datapipe)
        return next(self._samples)

    def _next(self, number: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no _next")

    def _overflow(self) -> BufferError:
        return BufferError(
            f"{self!r} buffer overflow, buffer size {self.buffer_size} is "
            "insufficient: take the samples of its parts in turn, or give it a larger buffer_size"
        )

    def __len__(self) -> int:
        return len(self.main_datapipe)


class _ChildDataPipe(IterDataPipe[Any]):
    """One of the streams."""

    _takes_turns = False  # the source knows whose turn it is

    def __init__(self, main_datapipe: _Source, instance_id: int) -> None:
        self.main_datapipe, self.instance_id = main_datapipe, instance_id
        self._began = 0

    def __iter__(self) -> Iterator[Any]:
        source = self.main_datapipe
        if self._began == source._round:
            source.reset()
        self._began = source._round
        return self._samples(self._began)

    def _samples(self, began: int) -> Iterator[Any]:
        source = self.main_datapipe
        while True:
            if source._round != began:
                raise RuntimeError(
                    "This iterator has been invalidated, because a new iterator has been created "
                    f"from one of the ChildDataPipes of {source!r}"
                )
            try:
                yield source._next(self.instance_id)
            except StopIteration:
                return

    def __len__(self) -> int:
        return len(self.main_datapipe)


class _Forker(_Source):
    def __init__(self, datapipe: Any, num_instances: int, buffer_size: int, copy: Any) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        self._copy = copy

    def _next(self, number: int) -> Any:
        waiting = self._waiting[number]
        if not waiting:
            if 0 <= self.buffer_size < max(map(len, self._waiting)):
                raise self._overflow()
            data = self._pull()
            for queue in self._waiting:
                queue.append(data)
        data = waiting.popleft()
        return data if self._copy is None else self._copy(data)

    def __repr__(self) -> str:
        return "ForkerIterDataPipe"


def _check_count(num_instances: int) -> None:
    if num_instances < 1:
        raise ValueError(f"Expected `num_instances` larger than 0, but {num_instances} is found")


@functional_datapipe("fork")
class ForkerIterDataPipe(IterDataPipe[Any]):
    """``num_instances`` streams of the same samples; ``copy="deep"`` gives each its own.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> a, b = IterableWrapper(range(2)).fork(2)
    >>> list(a), list(b)
    ([0, 1], [0, 1])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        buffer_size: int = 1000,
        copy: str | None = None,
    ) -> Any:
        _check_count(num_instances)
        if num_instances == 1:
            return datapipe
        ways = {None: None, "shallow": copying.copy, "deep": copying.deepcopy}
        if copy not in ways:
            raise ValueError(
                f"Unknown copy method `{copy}` requested, choose one of None, `shallow` or `deep`."
            )
        source = _Forker(datapipe, num_instances, buffer_size, ways[copy])
        return [_ChildDataPipe(source, i) for i in range(num_instances)]


class _Demultiplexer(_Source):
    def __init__(
        self,
        datapipe: Any,
        num_instances: int,
        buffer_size: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool,
    ) -> None:
        super().__init__(datapipe, num_instances, buffer_size)
        self.classifier_fn, self.drop_none = classifier_fn, drop_none

    def _next(self, number: int) -> Any:
        if self._waiting[number]:
            return self._waiting[number].popleft()
        while True:
            data = self._pull()
            place = self.classifier_fn(data)
            if place is None and self.drop_none:
                continue
            if place is None or not 0 <= place < self.num_instances:
                raise ValueError(
                    "Output of the classification fn should be between 0 and "
                    f"{self.num_instances - 1}. {place} is returned."
                )
            if place == number:
                return data
            self._waiting[place].append(data)
            if 0 <= self.buffer_size < sum(map(len, self._waiting)):
                raise self._overflow()

    def __repr__(self) -> str:
        return "DemultiplexerIterDataPipe"

    def __len__(self) -> int:
        raise TypeError(f"{self!r} instance doesn't have valid length")


@functional_datapipe("demux")
class DemultiplexerIterDataPipe(IterDataPipe[Any]):
    """``num_instances`` streams; ``classifier_fn`` tells to which a sample goes.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> even, odd = IterableWrapper(range(5)).demux(2, lambda x: x % 2)
    >>> list(even), list(odd)
    ([0, 2, 4], [1, 3])
    """

    def __new__(
        cls,
        datapipe: IterDataPipe[Any],
        num_instances: int,
        classifier_fn: Callable[[Any], int | None],
        drop_none: bool = False,
        buffer_size: int = 1000,
    ) -> Any:
        _check_count(num_instances)
        if not callable(classifier_fn):
            raise TypeError(
                f"A callable function is expected, but {type(classifier_fn)} is provided."
            )
        source = _Demultiplexer(datapipe, num_instances, buffer_size, classifier_fn, drop_none)
        return [_ChildDataPipe(source, i) for i in range(num_instances)]
