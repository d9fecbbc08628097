"""Loss scaling where each process has a part of the gradients."""

from __future__ import annotations

import rushlight
from rushlight import distributed as dist
from rushlight.amp.grad_scaler import GradScaler

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ShardedGradScaler"]


class ShardedGradScaler(GradScaler):
    """A ``GradScaler`` whose processes skip a step together, whoever has the infinity.

    >>> import rushlight as torch
    >>> from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
    >>> ShardedGradScaler("cpu", init_scale=8.0).get_scale()
    8.0
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        backoff_factor: float = 0.5,
        growth_factor: float = 2.0,
        growth_interval: int = 2000,
        enabled: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__(
            device, init_scale, growth_factor, backoff_factor, growth_interval, enabled
        )
        self.process_group = process_group

    def _unscale_grads_(
        self, optimizer: Any, inv_scale: Any, found_inf: Any, allow_fp16: bool
    ) -> dict[Any, Any]:
        with rushlight.no_grad():
            for p in (p for group in optimizer.param_groups for p in group["params"]):
                if p.grad is None:
                    continue
                part = getattr(p.grad, "_local_tensor", p.grad)
                if not part.isfinite().all():
                    found_inf.fill_(1.0)
                if inv_scale is not None:
                    part.mul_(inv_scale.to(part.device))
            if dist.is_initialized():
                dist.all_reduce(found_inf, op=dist.ReduceOp.MAX, group=self.process_group)
        return {found_inf.device: found_inf}
