"""Sharded modules: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "BackwardPrefetch", "CPUOffload", "CPUOffloadPolicy", "FSDPModule",
    "FullOptimStateDictConfig", "FullStateDictConfig", "FullyShardedDataParallel",
    "LocalOptimStateDictConfig", "LocalStateDictConfig", "MixedPrecision", "MixedPrecisionPolicy",
    "OffloadPolicy", "OptimStateDictConfig", "OptimStateKeyType", "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig", "ShardingStrategy", "StateDictConfig", "StateDictSettings",
    "StateDictType", "fully_shard", "register_fsdp_forward_method",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
