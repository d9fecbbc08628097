"""DataLoader: batches of a dataset, fetched here or in worker processes."""

from __future__ import annotations

import math
import multiprocessing.context
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from rushlight import _C
from rushlight.utils.data._utils import pipes
from rushlight.utils.data._utils.collate import default_collate as default_collate
from rushlight.utils.data._utils.collate import default_convert as default_convert
from rushlight.utils.data._utils.fetch import _IterableDatasetFetcher, _MapDatasetFetcher
from rushlight.utils.data._utils.pin_memory import pin_memory
from rushlight.utils.data._utils.worker import get_worker_info as get_worker_info
from rushlight.utils.data.dataset import Dataset, IterableDataset
from rushlight.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    draw_seed,
)

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_collate_fn_t = Callable[[list[Any]], Any]  # what libraries annotate with


class _DatasetKind:
    Map = 0
    Iterable = 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Any, auto_collation: bool, collate_fn: Any, drop_last: bool
    ) -> Any:
        """What fetches batches of a dataset of this kind."""
        fetcher = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return fetcher(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler[None]):
    """Stands in for the sampler of a stream, whose samples have no index."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class DataLoader(Generic[_T_co]):
    """Iterates over a dataset in batches.

    With ``num_workers`` the batches are fetched ahead in that many processes; they come in the same
    order. An exception in a worker is raised here with the worker's traceback, and a worker that
    dies is reported.

    >>> import rushlight as torch
    >>> from rushlight.utils.data import DataLoader
    >>> for batch in DataLoader([1, 2, 3], batch_size=2):
    ...     print(batch)
    tensor([1, 2])
    tensor([3])
    """

    _initialized = False
    _fixed = (
        "batch_size",
        "batch_sampler",
        "sampler",
        "drop_last",
        "dataset",
        "persistent_workers",
    )

    def __init__(
        self,
        dataset: Dataset[_T_co] | Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Any = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset = dataset
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.prefetch_factor = self._checked_prefetch(prefetch_factor)
        self.multiprocessing_context = multiprocessing_context
        streaming = isinstance(dataset, IterableDataset)
        self._dataset_kind = _DatasetKind.Iterable if streaming else _DatasetKind.Map
        if pipes.is_stream(dataset):
            from rushlight.utils.data.graph_settings import apply_shuffle_settings

            self.dataset = apply_shuffle_settings(dataset, shuffle=shuffle)
            shuffle = None
        if streaming:
            _refuse_for_streams(shuffle=shuffle, sampler=sampler, batch_sampler=batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError(
                    "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, "
                    "and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise ValueError(
                "batch_size=None option disables auto-batching and is mutually exclusive with "
                "drop_last"
            )
        if sampler is None:
            sampler = self._default_sampler(bool(shuffle))
        if batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self._IterableDataset_len_called: int | None = None
        self._iterator: Any = None
        self._initialized = True
        self.check_worker_number_rationality()

    def _checked_prefetch(self, prefetch_factor: int | None) -> int | None:
        if self.num_workers < 0:
            raise ValueError(
                "num_workers option should be non-negative; use num_workers=0 to disable "
                f"multiprocessing. Got {self.num_workers}"
            )
        if self.timeout < 0:
            raise ValueError(f"timeout option should be non-negative, got {self.timeout}")
        if self.num_workers == 0 and prefetch_factor is not None:
            raise ValueError(
                "prefetch_factor option could only be specified in multiprocessing. let "
                "num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
            )
        if prefetch_factor is not None and prefetch_factor < 0:
            raise ValueError("prefetch_factor option should be non-negative")
        if self.persistent_workers and self.num_workers == 0:
            raise ValueError("persistent_workers option needs num_workers > 0")
        return 2 if self.num_workers and prefetch_factor is None else prefetch_factor

    def _default_sampler(self, shuffle: bool) -> Any:
        if self._dataset_kind == _DatasetKind.Iterable:
            return _InfiniteConstantSampler()
        if shuffle:
            return RandomSampler(self.dataset, generator=self.generator)
        return SequentialSampler(self.dataset)

    @property
    def multiprocessing_context(self) -> Any:
        """How worker processes are started."""
        return self._multiprocessing_context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None:
            if self.num_workers == 0:
                raise ValueError(
                    "multiprocessing_context can only be used with multi-process loading "
                    f"(num_workers > 0), but got num_workers={self.num_workers}"
                )
            if isinstance(context, str):
                known = multiprocessing.get_all_start_methods()
                if context not in known:
                    raise ValueError(
                        "multiprocessing_context option should specify a valid start method in "
                        f"{known!r}, but got multiprocessing_context={context!r}"
                    )
                context = multiprocessing.get_context(context)
            if not isinstance(context, multiprocessing.context.BaseContext):
                raise TypeError(
                    "multiprocessing_context option should be a valid context object or a string "
                    f"specifying the start method, but got multiprocessing_context={context}"
                )
        self._multiprocessing_context = context

    def __setattr__(self, name: str, value: Any) -> None:
        if self._initialized and name in self._fixed:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized"
            )
        super().__setattr__(name, value)

    def __iter__(self) -> Any:
        if not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None or self._iterator.is_shut_down:
            self._iterator = self._get_iterator()
        else:
            self._iterator._reset(self)
        return self._iterator

    def _get_iterator(self) -> Any:
        if self.num_workers == 0:
            return _SingleProcessDataLoaderIter(self)
        return __getattr__("_MultiProcessingDataLoaderIter")(self)

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        # What the dataset says is remembered: a stream that gives more gets a warning.
        length = self._IterableDataset_len_called = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return length
        whole = length / self.batch_size
        return math.floor(whole) if self.drop_last else math.ceil(whole)

    def check_worker_number_rationality(self) -> None:
        """Warns when there are more workers than processors to run them."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if cores is not None and self.num_workers > cores:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our "
                f"suggested max number of worker in current system is {cores}, which is smaller "
                "than what this DataLoader is going to create. Please be aware that excessive "
                "worker creation might get DataLoader running slow or even freeze, lower the "
                "worker number to avoid potential slowness/freeze if necessary.",
                stacklevel=3,
            )


def _refuse_for_streams(**options: Any) -> None:
    for name, value in options.items():
        if value is not None and not (name == "shuffle" and value is False):
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got "
                f"{name}={value}"
            )


def _has_cuda() -> bool:
    from rushlight import cuda  # only who pins memory needs it

    return cuda.is_available()


class _BaseDataLoaderIter:
    """One pass over a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._dataset = loader.dataset
        self._dataset_kind = loader._dataset_kind
        self._IterableDataset_len_called = loader._IterableDataset_len_called
        self._auto_collation = loader._auto_collation
        self._drop_last = loader.drop_last
        self._index_sampler = loader._index_sampler
        self._num_workers = loader.num_workers
        self._timeout = loader.timeout
        self._collate_fn = loader.collate_fn
        self._persistent_workers = loader.persistent_workers
        self._num_yielded = 0
        self._profile_name = f"enumerate(DataLoader)#{type(self).__name__}.__next__"
        self._pin_memory = loader.pin_memory and _has_cuda()
        if loader.pin_memory and not self._pin_memory:
            warnings.warn(
                "'pin_memory' argument is set as true but no accelerator is found, then device "
                "pinned memory won't be used.",
                stacklevel=4,
            )
        self._sampler_iter = iter(self._index_sampler)
        self._shared_seed = self._seed_pipe(loader)
        # workers of no two processes share a seed
        self._base_seed = draw_seed(loader.generator) + pipes.place()[0] * loader.num_workers

    def __iter__(self) -> _BaseDataLoaderIter:
        return self

    def _seed_pipe(self, loader: DataLoader[Any]) -> int | None:
        """Where the dataset is a data pipe: the seed of its steps in this pass, in all workers."""
        if not pipes.is_stream(self._dataset):
            return None
        seed = pipes.shared_seed(loader.generator)
        pipes.set_seed(self._dataset, seed)
        return seed

    def _reset(self, loader: DataLoader[Any]) -> None:
        self._sampler_iter = iter(self._index_sampler)
        self._shared_seed = self._seed_pipe(loader)
        self._num_yielded = 0
        self._IterableDataset_len_called = loader._IterableDataset_len_called

    def _next_index(self) -> Any:
        return next(self._sampler_iter)

    def _next_data(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no _next_data")

    def __next__(self) -> Any:
        event = _C._profile_begin(self._profile_name)  # None without a profiler
        try:
            data = self._next_data()
            if self._pin_memory:
                data = pin_memory(data)
        finally:
            _C._profile_end(event)
        self._num_yielded += 1
        said = self._IterableDataset_len_called
        if said is not None and self._num_yielded > said:
            self._warn_of_length(said)
        return data

    def _warn_of_length(self, said: int) -> None:
        text = (
            f"Length of IterableDataset {self._dataset} was reported to be {said} (when accessing "
            f"len(dataloader)), but {self._num_yielded} samples have been fetched. "
        )
        if self._num_workers > 0:
            text += (
                "For multiprocessing data-loading, this could be caused by not properly "
                "configuring the IterableDataset replica at each worker; get_worker_info() tells "
                "a replica which part is its own."
            )
        warnings.warn(text, stacklevel=3)

    def __len__(self) -> int:
        return len(self._index_sampler)

    def __getstate__(self) -> Any:
        raise NotImplementedError(f"{type(self).__name__} cannot be pickled")


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    def __init__(self, loader: DataLoader[Any]) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError(
                f"timeout={self._timeout} needs worker processes: set num_workers, or timeout=0"
            )
        if pipes.is_pipe(self._dataset):
            pipes.divide_among_processes(self._dataset)
        self._dataset_fetcher = _DatasetKind.create_fetcher(
            self._dataset_kind,
            self._dataset,
            self._auto_collation,
            self._collate_fn,
            self._drop_last,
        )

    def _next_data(self) -> Any:
        return self._dataset_fetcher.fetch(next(self._sampler_iter))


def __getattr__(name: str) -> Any:
    if name == "_MultiProcessingDataLoaderIter":
        from rushlight.utils.data._utils import workers  # needs this module itself

        return workers._MultiProcessingDataLoaderIter
    raise AttributeError(f"module 'rushlight.utils.data.dataloader' has no attribute {name!r}")
