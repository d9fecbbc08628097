"""Memory shared with other libraries: see ``torch.from_dlpack``."""

from rushlight._functions import from_dlpack as from_dlpack
from rushlight._functions import to_dlpack as to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
