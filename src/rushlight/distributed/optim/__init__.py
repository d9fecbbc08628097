"""Optimizers over processes."""

from rushlight.distributed._single import absent as _absent
from rushlight.distributed.optim.zero_redundancy_optimizer import (
    ZeroRedundancyOptimizer as ZeroRedundancyOptimizer,
)

_NAMES = ["DistributedOptimizer", "PostLocalSGDOptimizer", "as_functional_optim"]

globals().update(_absent(__name__, _NAMES))
