"""Settings of ``FullyShardedDataParallel``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

__all__ = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision",
    "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings",
    "StateDictType",
]  # fmt: skip


class ShardingStrategy(Enum):
    """What is divided, and when whole parameters are freed.

    >>> from rushlight.distributed.fsdp import ShardingStrategy
    >>> ShardingStrategy.FULL_SHARD.name
    'FULL_SHARD'
    """

    FULL_SHARD = auto()  # freed after forward and after backward
    SHARD_GRAD_OP = auto()  # kept from forward to backward
    NO_SHARD = auto()  # as DistributedDataParallel
    HYBRID_SHARD = auto()  # FULL_SHARD within a row of the mesh, replicated over the rows
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """When the next parameters are gathered in backward: before or after a module's own pass.

    >>> from rushlight.distributed.fsdp import BackwardPrefetch
    >>> BackwardPrefetch.BACKWARD_PRE.name
    'BACKWARD_PRE'
    """

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


@dataclass
class CPUOffload:
    """Whether parts are kept in the memory of the CPU.

    >>> from rushlight.distributed.fsdp import CPUOffload
    >>> CPUOffload().offload_params
    False
    """

    offload_params: bool = False


@dataclass
class MixedPrecision:
    """The dtypes of whole parameters, of sums of gradients and of buffers; None: as they are.

    >>> from rushlight.distributed.fsdp import MixedPrecision
    >>> MixedPrecision().param_dtype is None
    True
    """

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Any = ()


class StateDictType(Enum):
    """What ``state_dict`` gives: whole tensors, or this process's parts.

    >>> from rushlight.distributed.fsdp import StateDictType
    >>> StateDictType.FULL_STATE_DICT.name
    'FULL_STATE_DICT'
    """

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


class OptimStateKeyType(Enum):
    """What the states of an optimizer are named by.

    >>> from rushlight.distributed.fsdp import OptimStateKeyType
    >>> OptimStateKeyType.PARAM_NAME.name
    'PARAM_NAME'
    """

    PARAM_NAME = auto()
    PARAM_ID = auto()


@dataclass
class StateDictConfig:
    """How tensors of a state dict are given.

    >>> from rushlight.distributed.fsdp import StateDictConfig
    >>> StateDictConfig().offload_to_cpu
    False
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Whole tensors, in rank 0 only where told.

    >>> from rushlight.distributed.fsdp import FullStateDictConfig
    >>> FullStateDictConfig(rank0_only=True).rank0_only
    True
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """This process's parts.

    >>> from rushlight.distributed.fsdp import LocalStateDictConfig
    >>> LocalStateDictConfig()
    LocalStateDictConfig(offload_to_cpu=False)
    """


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """DTensors.

    >>> from rushlight.distributed.fsdp import ShardedStateDictConfig
    >>> ShardedStateDictConfig()
    ShardedStateDictConfig(offload_to_cpu=False, _use_dtensor=True)
    """

    _use_dtensor: bool = True


@dataclass
class OptimStateDictConfig:
    """How states of optimizers are given.

    >>> from rushlight.distributed.fsdp import OptimStateDictConfig
    >>> OptimStateDictConfig().offload_to_cpu
    True
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Whole tensors, in rank 0 only where told.

    >>> from rushlight.distributed.fsdp import FullOptimStateDictConfig
    >>> FullOptimStateDictConfig().rank0_only
    False
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """This process's parts.

    >>> from rushlight.distributed.fsdp import LocalOptimStateDictConfig
    >>> LocalOptimStateDictConfig().offload_to_cpu
    False
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """DTensors.

    >>> from rushlight.distributed.fsdp import ShardedOptimStateDictConfig
    >>> ShardedOptimStateDictConfig()._use_dtensor
    True
    """

    _use_dtensor: bool = True


@dataclass
class StateDictSettings:
    """What ``FSDP.state_dict_type`` sets.

    >>> from rushlight.distributed.fsdp import StateDictSettings, StateDictType
    >>> StateDictSettings(StateDictType.FULL_STATE_DICT).state_dict_config
    FullStateDictConfig(offload_to_cpu=False, rank0_only=False)
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig = field(default_factory=FullStateDictConfig)
    optim_state_dict_config: OptimStateDictConfig = field(default_factory=FullOptimStateDictConfig)
