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

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "default_convert", "get_worker_info", "random_split",
]  # fmt: skip
