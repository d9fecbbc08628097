"""Ops by their names: ``torch.ops.aten.add.Tensor``, and those that programs define."""

from rushlight._operators.overloads import ops as ops

__all__ = ["ops"]
