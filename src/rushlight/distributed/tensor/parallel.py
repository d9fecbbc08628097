"""Layers spread over processes: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
