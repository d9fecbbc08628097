"""The ops of the core that live in the top namespace."""

from rushlight import _C

globals().update(_C._namespaces[""])


def __getattr__(name: str) -> object:
    """PyTorch's classes of ops, which libraries import from here."""
    if name in ("OpOverload", "OpOverloadPacket", "OperatorBase", "_OpNamespace", "_Ops", "ops"):
        from rushlight._operators import overloads

        return getattr(overloads, name)
    raise AttributeError(f"module 'rushlight._ops' has no attribute '{name}'")
