"""The modules of ``rushlight.nn``, one file per family."""

from rushlight.nn.modules.module import Module as Module
from rushlight.nn.modules.container import *
from rushlight.nn.modules.linear import *

__all__ = sorted(name for name in globals() if name[0].isupper())  # type: ignore[misc]
