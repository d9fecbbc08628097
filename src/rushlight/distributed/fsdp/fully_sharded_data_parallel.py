"""Sharded modules: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "BackwardPrefetch", "CPUOffload", "FullOptimStateDictConfig", "FullStateDictConfig",
    "FullyShardedDataParallel", "LocalStateDictConfig", "MixedPrecision", "OptimStateKeyType",
    "ShardedOptimStateDictConfig", "ShardedStateDictConfig", "ShardingStrategy", "StateDictType",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
