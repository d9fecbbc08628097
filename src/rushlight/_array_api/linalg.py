"""The standard's extension for linear algebra."""

from __future__ import annotations

import rushlight as torch
from rushlight._array_api._dtypes import together
from rushlight._array_api._manipulation import axes_of, matrix_transpose
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve",
    "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip

_linalg = torch.linalg


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices."""
    if x1.ndim == 0 or x2.ndim == 0:
        raise ValueError("matmul: arrays without dimensions have no product of matrices")
    return torch.matmul(*together(x1, x2))


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: Any = 2) -> Tensor:
    """Sums of products over the last axes of one and the first of the other, or over pairs."""
    a, b = together(x1, x2)
    return torch.tensordot(a, b, dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """Sums of products along an axis, the first factor conjugated.

    >>> import rushlight as torch
    >>> torch.ones(1).__array_namespace__().vecdot(torch.ones(2, 3), torch.ones(3))
    tensor([3., 3.])
    """
    least = min(x1.ndim, x2.ndim)
    if not -least <= axis < 0:
        raise ValueError(f"vecdot: the axis is counted from the end, from -{least} to -1: {axis}")
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: lengths {x1.shape[axis]} and {x2.shape[axis]} differ")
    a, b = together(x1, x2)
    a, b = torch.broadcast_tensors(a, b)
    product = torch.conj(a).moveaxis(axis, -1).unsqueeze(-2) @ b.moveaxis(axis, -1).unsqueeze(-1)
    return product.squeeze(-1).squeeze(-1)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of matrices."""
    return _linalg.cholesky(x, upper=upper)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three elements."""
    return _linalg.cross(*together(x1, x2), dim=axis)


def det(x: Tensor, /) -> Tensor:
    """The determinant of matrices."""
    return _linalg.det(x)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonal of matrices."""
    return torch.diagonal(x, offset, -2, -1)


def eigh(x: Tensor, /) -> Any:
    """The eigenvalues and eigenvectors of symmetric matrices."""
    return _linalg.eigh(x)


def eigvalsh(x: Tensor, /) -> Tensor:
    """The eigenvalues of symmetric matrices."""
    return _linalg.eigvalsh(x)


def inv(x: Tensor, /) -> Tensor:
    """The inverse of matrices."""
    return _linalg.inv(x)


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """A norm of matrices."""
    return _linalg.matrix_norm(x, ord, keepdim=keepdims)


def matrix_power(x: Tensor, n: int, /) -> Tensor:
    """The n-th power of matrices."""
    return _linalg.matrix_power(x, n)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """How many singular values of matrices are larger than so much of the largest one."""
    return _linalg.matrix_rank(x, rtol=rtol)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of all pairs of elements of two vectors."""
    return torch.outer(*together(x1, x2))


def pinv(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The pseudo-inverse of matrices."""
    return _linalg.pinv(x, rtol=rtol)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """Orthonormal columns and a triangular factor."""
    return _linalg.qr(x, mode)


def slogdet(x: Tensor, /) -> Any:
    """The sign and the logarithm of the absolute value of the determinant."""
    return _linalg.slogdet(x)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """What the matrices multiply to give x2: a vector where it has one dimension, else matrices."""
    a, b = together(x1, x2)
    if b.ndim == 1:
        return _linalg.solve(a, b.unsqueeze(-1)).squeeze(-1)
    lead = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _linalg.solve(a.expand(*lead, *a.shape[-2:]), b.expand(*lead, *b.shape[-2:]))


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """Singular vectors and values."""
    return _linalg.svd(x, full_matrices=full_matrices)


def svdvals(x: Tensor, /) -> Tensor:
    """Singular values, descending."""
    return _linalg.svdvals(x)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of the diagonal of matrices."""
    from rushlight._array_api._statistics import sum as summed

    return summed(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x: Tensor, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """A norm of vectors along axes, of all elements without one."""
    axes = axes_of(axis, x.ndim)
    if not axes:  # each element is a vector
        return x.abs() if ord != 0 else (x != 0).to(x.abs().dtype)
    return _linalg.vector_norm(x, ord, axes, keepdims)
