"""What makes masked tensors."""

from rushlight._masked.tensor import as_masked_tensor, masked_tensor

__all__ = ["as_masked_tensor", "masked_tensor"]
