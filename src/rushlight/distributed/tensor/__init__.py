"""Tensors spread over processes: names only."""

from rushlight.distributed._single import absent as _absent

_NAMES = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "init_device_mesh", "ones", "rand", "randn", "zeros",
]  # fmt: skip

globals().update(_absent(__name__, _NAMES))
