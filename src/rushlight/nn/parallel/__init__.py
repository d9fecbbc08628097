"""Modules that run on several devices; here there is one, and batches stay whole."""

from rushlight.nn.parallel import comm as comm
from rushlight.nn.parallel import distributed as distributed
from rushlight.nn.parallel.data_parallel import DataParallel as DataParallel
from rushlight.nn.parallel.data_parallel import data_parallel as data_parallel
from rushlight.nn.parallel.distributed import DistributedDataParallel as DistributedDataParallel
from rushlight.nn.parallel.parallel_apply import parallel_apply as parallel_apply
from rushlight.nn.parallel.replicate import replicate as replicate
from rushlight.nn.parallel.scatter_gather import gather as gather
from rushlight.nn.parallel.scatter_gather import scatter as scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply",
    "replicate", "scatter",
]  # fmt: skip
