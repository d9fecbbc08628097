"""Datasets, samplers and the loader that makes batches of them."""

from rushlight.utils.data._utils.worker import get_worker_info as get_worker_info
from rushlight.utils.data.dataloader import (
    DataLoader as DataLoader,
    _DatasetKind as _DatasetKind,
    default_collate as default_collate,
    default_convert as default_convert,
)
from rushlight.utils.data.dataset import (
    ChainDataset as ChainDataset,
    ConcatDataset as ConcatDataset,
    Dataset as Dataset,
    IterableDataset as IterableDataset,
    StackDataset as StackDataset,
    Subset as Subset,
    TensorDataset as TensorDataset,
    random_split as random_split,
)
from rushlight.utils.data.distributed import DistributedSampler as DistributedSampler
from rushlight.utils.data.sampler import (
    BatchSampler as BatchSampler,
    RandomSampler as RandomSampler,
    Sampler as Sampler,
    SequentialSampler as SequentialSampler,
    SubsetRandomSampler as SubsetRandomSampler,
    WeightedRandomSampler as WeightedRandomSampler,
)

TYPE_CHECKING = False  # type checkers read it as True; these are loaded on first use
if TYPE_CHECKING:
    from rushlight.utils.data import datapipes as datapipes
    from rushlight.utils.data.datapipes._decorator import (
        functional_datapipe as functional_datapipe,
        guaranteed_datapipes_determinism as guaranteed_datapipes_determinism,
        non_deterministic as non_deterministic,
    )
    from rushlight.utils.data.datapipes.datapipe import (
        DataChunk as DataChunk,
        DFIterDataPipe as DFIterDataPipe,
        IterDataPipe as IterDataPipe,
        MapDataPipe as MapDataPipe,
    )

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DFIterDataPipe", "DataChunk", "DataLoader",
    "Dataset", "DistributedSampler", "IterDataPipe", "IterableDataset", "MapDataPipe",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "default_convert", "functional_datapipe", "get_worker_info",
    "guaranteed_datapipes_determinism", "non_deterministic", "random_split",
]  # fmt: skip

_OF_PIPES = {
    "DFIterDataPipe": "datapipe",
    "DataChunk": "datapipe",
    "IterDataPipe": "datapipe",
    "MapDataPipe": "datapipe",
    "functional_datapipe": "_decorator",
    "guaranteed_datapipes_determinism": "_decorator",
    "non_deterministic": "_decorator",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in ("datapipes", "graph", "graph_settings"):
        return import_module(f"rushlight.utils.data.{name}")
    if name in _OF_PIPES:
        pipes = import_module("rushlight.utils.data.datapipes")  # steps are registered there
        return getattr(import_module(f"{pipes.__name__}.{_OF_PIPES[name]}"), name)
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.utils.data", name)
