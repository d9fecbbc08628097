"""The older names of ``torch.amp.autocast("cuda", ...)`` and its decorators."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.amp import autocast_mode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["autocast", "custom_bwd", "custom_fwd"]


class autocast(autocast_mode.autocast):
    """Deprecated: ``torch.amp.autocast("cuda", ...)``."""

    def __init__(
        self, enabled: bool = True, dtype: _C.dtype = _C.float16, cache_enabled: bool = True
    ) -> None:
        warnings.warn(
            "`torch.cuda.amp.autocast(args...)` is deprecated. "
            "Please use `torch.amp.autocast('cuda', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cuda", enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, **kwargs: Any) -> Callable[..., Any]:
    """Deprecated: ``torch.amp.custom_fwd(..., device_type="cuda")``."""
    warnings.warn(
        "`torch.cuda.amp.custom_fwd(args...)` is deprecated. "
        "Please use `torch.amp.custom_fwd(args..., device_type='cuda')` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return autocast_mode.custom_fwd(fwd, device_type="cuda", **kwargs)


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Deprecated: ``torch.amp.custom_bwd(..., device_type="cuda")``."""
    warnings.warn(
        "`torch.cuda.amp.custom_bwd(args...)` is deprecated. "
        "Please use `torch.amp.custom_bwd(args..., device_type='cuda')` instead.",
        FutureWarning,
        stacklevel=2,
    )
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
