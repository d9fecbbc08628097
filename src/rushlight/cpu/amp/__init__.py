"""Older names for mixed precision on the CPU: see ``torch.amp``."""

from rushlight.cpu.amp.autocast_mode import autocast as autocast
from rushlight.cpu.amp.grad_scaler import GradScaler as GradScaler

__all__ = ["GradScaler", "autocast"]
