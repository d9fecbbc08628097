"""Queues of work on CUDA devices: names, which raise when used."""

from rushlight.cuda import Event as Event
from rushlight.cuda import ExternalStream as ExternalStream
from rushlight.cuda import Stream as Stream
