"""A model cut into stages, one in each process, through which micro-batches flow."""

from rushlight.distributed.pipelining.schedules import Schedule1F1B as Schedule1F1B
from rushlight.distributed.pipelining.schedules import ScheduleGPipe as ScheduleGPipe
from rushlight.distributed.pipelining.stage import PipelineStage as PipelineStage

__all__ = ["PipelineStage", "Schedule1F1B", "ScheduleGPipe"]
