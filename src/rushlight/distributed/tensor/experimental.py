"""What of spread tensors may change: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = ["context_parallel", "implicit_replication", "local_map", "register_sharding"]

globals().update(_absent(__name__, _NAMES))
