"""Differentiable collectives."""

from rushlight.distributed._single import absent as _absent
from rushlight.distributed.nn import functional as functional
from rushlight.distributed.nn.functional import (
    all_gather as all_gather,
    all_reduce as all_reduce,
    all_to_all as all_to_all,
    all_to_all_single as all_to_all_single,
    broadcast as broadcast,
    gather as gather,
    reduce as reduce,
    reduce_scatter as reduce_scatter,
    scatter as scatter,
)

globals().update(_absent(__name__, ["RemoteModule"]))
