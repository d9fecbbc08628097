"""The class of masked tensors."""

from rushlight._masked.tensor import MaskedTensor, is_masked_tensor

__all__ = ["MaskedTensor", "is_masked_tensor"]
