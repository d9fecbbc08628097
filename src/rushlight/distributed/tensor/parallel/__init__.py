"""Layers spread over processes: tensor and sequence parallelism."""

from rushlight.distributed.tensor.parallel.api import loss_parallel as loss_parallel
from rushlight.distributed.tensor.parallel.api import parallelize_module as parallelize_module
from rushlight.distributed.tensor.parallel.style import ColwiseParallel as ColwiseParallel
from rushlight.distributed.tensor.parallel.style import ParallelStyle as ParallelStyle
from rushlight.distributed.tensor.parallel.style import PrepareModuleInput as PrepareModuleInput
from rushlight.distributed.tensor.parallel.style import (
    PrepareModuleInputOutput as PrepareModuleInputOutput,
)
from rushlight.distributed.tensor.parallel.style import PrepareModuleOutput as PrepareModuleOutput
from rushlight.distributed.tensor.parallel.style import RowwiseParallel as RowwiseParallel
from rushlight.distributed.tensor.parallel.style import SequenceParallel as SequenceParallel

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput",
    "PrepareModuleOutput", "RowwiseParallel", "SequenceParallel", "loss_parallel",
    "parallelize_module",
]  # fmt: skip
