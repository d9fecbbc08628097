"""Optimizers over processes: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "DistributedOptimizer", "PostLocalSGDOptimizer", "ZeroRedundancyOptimizer",
    "as_functional_optim",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
