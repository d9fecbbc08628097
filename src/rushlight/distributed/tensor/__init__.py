"""Tensors spread over processes."""

from rushlight.distributed.device_mesh import DeviceMesh as DeviceMesh
from rushlight.distributed.device_mesh import init_device_mesh as init_device_mesh
from rushlight.distributed.tensor import parallel as parallel
from rushlight.distributed.tensor._dtensor import DTensor as DTensor
from rushlight.distributed.tensor._dtensor import distribute_module as distribute_module
from rushlight.distributed.tensor._dtensor import distribute_tensor as distribute_tensor
from rushlight.distributed.tensor._dtensor import empty as empty
from rushlight.distributed.tensor._dtensor import full as full
from rushlight.distributed.tensor._dtensor import ones as ones
from rushlight.distributed.tensor._dtensor import rand as rand
from rushlight.distributed.tensor._dtensor import randn as randn
from rushlight.distributed.tensor._dtensor import zeros as zeros
from rushlight.distributed.tensor.placement_types import Partial as Partial
from rushlight.distributed.tensor.placement_types import Placement as Placement
from rushlight.distributed.tensor.placement_types import Replicate as Replicate
from rushlight.distributed.tensor.placement_types import Shard as Shard

__all__ = [
    "DTensor", "Partial", "Placement", "Replicate", "Shard", "distribute_module",
    "distribute_tensor", "empty", "full", "ones", "rand", "randn", "zeros",
]  # fmt: skip
