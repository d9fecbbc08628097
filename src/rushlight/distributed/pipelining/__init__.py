"""A model cut into stages, one in each process, through which micro-batches flow."""

from rushlight.distributed._single import absent as _absent
from rushlight.distributed.pipelining.schedules import Schedule1F1B as Schedule1F1B
from rushlight.distributed.pipelining.schedules import ScheduleGPipe as ScheduleGPipe
from rushlight.distributed.pipelining.stage import PipelineStage as PipelineStage

_NAMES = [
    "Pipe", "ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble", "SplitPoint", "build_stage", "pipe_split", "pipeline",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe"]
