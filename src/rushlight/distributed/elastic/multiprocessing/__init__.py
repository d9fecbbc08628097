"""Processes that a launcher watches: how they report their errors."""

from rushlight.distributed.elastic.multiprocessing import errors as errors
from rushlight.distributed.elastic.multiprocessing.errors import ProcessFailure as ProcessFailure
