"""Ways to send gradients, for ``DistributedDataParallel.register_comm_hook``."""

from rushlight.distributed.algorithms.ddp_comm_hooks import debugging_hooks as debugging_hooks
from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks as default_hooks
from rushlight.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powerSGD_hook
from rushlight.distributed.algorithms.ddp_comm_hooks._kinds import (
    BuiltinCommHookType as BuiltinCommHookType,
)
from rushlight.distributed.algorithms.ddp_comm_hooks._kinds import (
    DDPCommHookType as DDPCommHookType,
)
from rushlight.distributed.algorithms.ddp_comm_hooks._kinds import (
    register_ddp_comm_hook as register_ddp_comm_hook,
)
