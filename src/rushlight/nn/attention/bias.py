"""Causal masks for attention, by the corner in which they start."""

from __future__ import annotations

from enum import IntEnum

import rushlight as torch

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from rushlight._C import Tensor

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """Whether the first or the last places of queries and keys fall together."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


def CausalBias(variant: CausalVariant, seq_len_q: int, seq_len_kv: int) -> Tensor:
    """A mask of bool in which each query sees its own place and those before it.

    >>> from rushlight.nn.attention.bias import CausalBias, CausalVariant
    >>> CausalBias(CausalVariant.LOWER_RIGHT, 1, 3)
    tensor([[True, True, True]])
    """
    if not isinstance(variant, CausalVariant):
        raise AssertionError(f"CausalBias: expected a CausalVariant, got {variant!r}")
    if seq_len_q > seq_len_kv and variant is CausalVariant.LOWER_RIGHT:
        import warnings

        warnings.warn(
            "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!",
            stacklevel=2,
        )
    shift = seq_len_kv - seq_len_q if variant is CausalVariant.LOWER_RIGHT else 0
    return torch.ones(seq_len_q, seq_len_kv, dtype=torch.bool).tril(shift)


def causal_upper_left(*size: int) -> Tensor:
    """A causal mask that starts in the upper left corner.

    >>> from rushlight.nn.attention.bias import causal_upper_left
    >>> causal_upper_left(2, 3)
    tensor([[ True, False, False],
            [ True,  True, False]])
    """
    return _of_size(CausalVariant.UPPER_LEFT, size)


def causal_lower_right(*size: int) -> Tensor:
    """A causal mask that ends in the lower right corner.

    >>> from rushlight.nn.attention.bias import causal_lower_right
    >>> causal_lower_right(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    return _of_size(CausalVariant.LOWER_RIGHT, size)


def _of_size(variant: CausalVariant, size: tuple[int, ...]) -> Tensor:
    if len(size) != 2:
        raise RuntimeError(f"causal masks only support 2D tensors, got size {size}")
    return CausalBias(variant, size[0], size[1])
