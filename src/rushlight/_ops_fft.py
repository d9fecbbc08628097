"""The ops of the core that live in ``fft``."""

from rushlight import _C

globals().update(_C._namespaces.get("fft", {}))
