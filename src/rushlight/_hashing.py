"""A number that says whether tensors hold the same bits."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["hash_tensor"]


def hash_tensor(
    input: Tensor, dim: Any = None, *, keepdim: bool = False, mode: int = 0, out: Any = None
) -> Tensor:
    """The exclusive *or* of the elements' bits, widened to 64: of all, or along dimensions.

    >>> import rushlight as torch
    >>> torch.hash_tensor(torch.tensor([[1, 2], [4, 8]])), torch.hash_tensor(torch.eye(2), 1)
    (tensor(15, dtype=torch.uint64), tensor([4607182418800017408, 4607182418800017408], ...))
    """
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}: only 0, exclusive or, is there")
    if input.is_complex():
        raise NotImplementedError(f"hash_tensor: not implemented for {input.dtype}")
    dims = (dim,) if isinstance(dim, int) else tuple(range(input.dim()) if dim is None else dim)
    if input.numel() == 0 and dim is None:
        raise RuntimeError(
            "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify "
            "the reduction dim with the 'dim' argument."
        )
    bits = input.detach()
    if bits.is_floating_point():
        bits = bits.to(_C.float64).view(_C.int64)
    elif bits.dtype is not _C.uint64:
        bits = bits.to(_C.int64)
    bits = bits.view(_C.int64)
    if not input.dim():
        bits = bits.reshape(1)  # a number has a dimension 0, too
    shape, n = list(bits.shape), bits.dim()
    dims = dims or tuple(range(n))
    for d in dims:
        if not -n <= d < n:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {d})"
            )
    places = [d % n for d in dims]
    for d in places:
        bits = _folded(bits, d)
        shape[d] = 1
    if not input.dim():
        shape = []
    elif not keepdim:
        shape = [n for d, n in enumerate(shape) if d not in places]
    found = bits.reshape(shape).view(_C.uint64)
    return found if out is None else out.resize_(shape).copy_(found)


def _folded(bits: Tensor, dim: int) -> Tensor:
    """The exclusive or along a dimension, which keeps one element."""
    n = bits.shape[dim]
    if n == 0:
        raise IndexError(f"hash_tensor: Expected reduction dim {dim} to have non-zero size.")
    while n > 1:
        half = n // 2
        pairs = bits.narrow(dim, 0, half) ^ bits.narrow(dim, half, half)
        last = bits.narrow(dim, n - 1, 1)
        bits = _C._namespaces[""]["cat"]([pairs, last], dim) if n % 2 else pairs
        n = half + n % 2
    return bits
