"""The ops of the core that live in the top namespace."""

from rushlight import _C

globals().update(_C._namespaces[""])
