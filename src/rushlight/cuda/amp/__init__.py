"""Older names for mixed precision on CUDA devices: see ``torch.amp``."""

from rushlight.cuda.amp.autocast_mode import (
    autocast as autocast,
    custom_bwd as custom_bwd,
    custom_fwd as custom_fwd,
)
from rushlight.cuda.amp.common import amp_definitely_not_available as amp_definitely_not_available
from rushlight.cuda.amp.grad_scaler import GradScaler as GradScaler

__all__ = [
    "GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd",
]  # fmt: skip
