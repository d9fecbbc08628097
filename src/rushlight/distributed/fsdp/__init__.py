"""Modules whose parameters, gradients and optimizer states are divided among processes."""

from rushlight.distributed.fsdp import wrap as wrap
from rushlight.distributed.fsdp._fully_shard import CPUOffloadPolicy as CPUOffloadPolicy
from rushlight.distributed.fsdp._fully_shard import FSDPModule as FSDPModule
from rushlight.distributed.fsdp._fully_shard import MixedPrecisionPolicy as MixedPrecisionPolicy
from rushlight.distributed.fsdp._fully_shard import OffloadPolicy as OffloadPolicy
from rushlight.distributed.fsdp._fully_shard import UnshardHandle as UnshardHandle
from rushlight.distributed.fsdp._fully_shard import fully_shard as fully_shard
from rushlight.distributed.fsdp._fully_shard import (
    register_fsdp_forward_method as register_fsdp_forward_method,
)
from rushlight.distributed.fsdp.api import *
from rushlight.distributed.fsdp.fully_sharded_data_parallel import (
    FullyShardedDataParallel as FullyShardedDataParallel,
)
