"""Ways to send gradients, for ``DistributedDataParallel.register_comm_hook``."""

from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks as default_hooks
from rushlight.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD_hook
