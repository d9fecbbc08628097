"""Names from the time when tensors needed a wrapper: a tensor is a Variable."""

from rushlight._C import Tensor as Variable

VariableMeta = type(Variable)

__all__ = ["Variable", "VariableMeta"]
