"""Differentiable collectives: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "RemoteModule", "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast",
    "gather", "reduce", "reduce_scatter", "scatter",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
