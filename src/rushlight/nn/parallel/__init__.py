"""Modules that run on several devices."""

from rushlight.nn.parallel.data_parallel import DataParallel as DataParallel
from rushlight.nn.parallel.data_parallel import data_parallel as data_parallel
