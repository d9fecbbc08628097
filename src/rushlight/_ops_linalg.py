"""The ops of the core that live in ``linalg``."""

from rushlight import _C

globals().update(_C._namespaces.get("linalg", {}))
