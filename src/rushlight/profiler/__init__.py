"""The profiler: times, memory, traces; ``profile`` with a schedule of steps."""

from rushlight.autograd.profiler import record_function as record_function
from rushlight.autograd.profiler_util import DeviceType as DeviceType
from rushlight.profiler import itt as itt
from rushlight.profiler.profiler import (
    ProfilerAction as ProfilerAction,
    ProfilerActivity as ProfilerActivity,
    kineto_available as kineto_available,
    profile as profile,
    schedule as schedule,
    supported_activities as supported_activities,
    tensorboard_trace_handler as tensorboard_trace_handler,
)

__all__ = [
    "DeviceType", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile",
    "record_function", "schedule", "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
