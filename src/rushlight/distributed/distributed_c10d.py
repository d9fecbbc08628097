"""Process groups: names only."""

from rushlight.distributed import ReduceOp as ReduceOp
from rushlight.distributed import get_rank as get_rank
from rushlight.distributed import get_world_size as get_world_size
from rushlight.distributed import group as group
from rushlight.distributed import init_process_group as init_process_group
from rushlight.distributed import is_initialized as is_initialized
from rushlight.distributed._single import absent as _absent

_NAMES = [
    "Backend", "BarrierOptions", "DistBackendError", "P2POp", "PrefixStore", "ProcessGroup",
    "Store", "Work", "all_gather", "all_gather_object", "all_reduce", "barrier", "broadcast",
    "broadcast_object_list", "destroy_process_group", "gather", "get_backend",
    "get_process_group_ranks", "new_group",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
