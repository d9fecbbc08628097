"""Masked tensors, by the names of the files where PyTorch has them."""

from rushlight._masked.tensor import (
    MaskedTensor as MaskedTensor,
    is_masked_tensor as is_masked_tensor,
)

__all__ = ["MaskedTensor", "is_masked_tensor"]
