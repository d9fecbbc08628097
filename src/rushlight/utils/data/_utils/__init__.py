"""The parts of the loader: collating, fetching, workers and how batches travel."""

from rushlight.utils.data._utils import collate as collate
from rushlight.utils.data._utils import fetch as fetch
from rushlight.utils.data._utils import worker as worker
