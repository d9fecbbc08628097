"""The ops of the core that live in ``nn.functional``."""

from rushlight import _C

globals().update(_C._namespaces.get("nn.functional", {}))
