"""The ops of the core that live in ``special``."""

from rushlight import _C

globals().update(_C._namespaces.get("special", {}))
