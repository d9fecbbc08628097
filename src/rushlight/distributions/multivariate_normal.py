"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import EMPTY, _standard_normal, lazy_property

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Any, bvec: Any) -> Any:
    """Products of matrices and vectors over a batch."""
    return torch.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Any, bx: Any) -> Any:
    """The squared length of L^-1 x for triangular L, whose batch may be broadcast to that of x.

    Each matrix is solved once for all vectors that share it: their dimensions become columns.
    """
    n = bx.size(-1)
    batch = bx.shape[:-1]
    outer = len(batch) - (bL.dim() - 2)
    split = list(bx.shape[:outer])  # each shared dimension as (copies, matrices)
    for matrices, size in zip(bL.shape[:-2], batch[outer:], strict=True):
        split += [size // matrices, matrices]
    copies = [*range(outer), *range(outer, len(split), 2)]
    shared = list(range(outer + 1, len(split), 2))
    x = bx.reshape(split + [n]).permute(*copies, *shared, len(split))
    permuted = x.shape[:-1]
    flat = bL.reshape(-1, n, n)
    columns = x.reshape(-1, flat.size(0), n).permute(1, 2, 0)
    solved = torch.linalg.solve_triangular(flat, columns, upper=False)
    lengths = solved.pow(2).sum(-2).t().reshape(permuted)
    back = list(range(outer))
    for i in range(len(shared)):
        back += [outer + i, len(copies) + i]
    return lengths.permute(back).reshape(batch)


def _precision_to_scale_tril(P: Any) -> Any:
    """The Cholesky factor of the inverse, from the factor of the matrix turned around."""
    factor = torch.linalg.cholesky(torch.flip(P, (-2, -1)))
    inverse = torch.flip(factor, (-2, -1)).mT
    identity = torch.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return torch.linalg.solve_triangular(inverse, identity, upper=False)


def _half_log_det(tril: Any) -> Any:
    return tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)


class MultivariateNormal(Distribution):
    """Normal vectors, by covariance, precision or the Cholesky factor of the covariance.

    ``scale_tril`` is the quickest: the others are decomposed first.

    >>> import rushlight as torch
    >>> from rushlight.distributions import MultivariateNormal
    >>> d = MultivariateNormal(torch.zeros(2), scale_tril=torch.tensor([[2.0, 0.0], [1.0, 1.0]]))
    >>> d.covariance_matrix, d.variance
    (tensor([[4., 2.],
            [2., 2.]]), tensor([4., 2.]))
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True
    _parameters = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        name, matrix = one_matrix(covariance_matrix, precision_matrix, scale_tril, ValueError)
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(
                f"{what} must be at least two-dimensional, with optional leading batch dimensions"
            )
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        super()._expand_into(new, batch_shape)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril

    def _matrix(self, value: Any) -> Any:
        return value.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_scale_tril
        return self._matrix(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._matrix(torch.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        squares = self._unbroadcasted_scale_tril.pow(2).sum(-1)
        return squares.expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        constant = self._event_shape[0] * math.log(2 * math.pi)
        return -0.5 * (constant + distance) - _half_log_det(self._unbroadcasted_scale_tril)

    def entropy(self) -> Any:
        n = self._event_shape[0]
        result = 0.5 * n * (1.0 + math.log(2 * math.pi))
        return (result + _half_log_det(self._unbroadcasted_scale_tril)).expand(self._batch_shape)


def one_matrix(covariance: Any, precision: Any, tril: Any, error: type[Exception]) -> Any:
    """The name and the value of the one that is given."""
    named = {
        "covariance_matrix": covariance,
        "precision_matrix": precision,
        "scale_tril": tril,
    }
    given = [(name, matrix) for name, matrix in named.items() if matrix is not None]
    if len(given) != 1:
        raise error(
            "Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified."
        )
    return given[0]


def factor_of(name: str, matrix: Any) -> Any:
    """The Cholesky factor of the covariance."""
    if name == "scale_tril":
        return matrix
    if name == "covariance_matrix":
        return torch.linalg.cholesky(matrix)
    return _precision_to_scale_tril(matrix)
