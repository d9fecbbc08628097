"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from typing import Any

import rushlight as torch
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.chi2 import Chi2
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.multivariate_normal import _half_log_det, factor_of, one_matrix
from rushlight.distributions.utils import EMPTY, NUMBER, lazy_property

__all__ = ["Wishart"]

_LOG_2 = math.log(2)


def _mvdigamma(x: Any, p: int) -> Any:
    """The derivative of mvlgamma."""
    if not x.gt((p - 1) / 2).all():
        raise AssertionError("Wrong domain for multivariate digamma function.")
    order = torch.arange(p, dtype=x.dtype, device=x.device)
    return torch.digamma(x.unsqueeze(-1) - order.div(2)).sum(-1)


class Wishart(ExponentialFamily):
    """The Wishart distribution: sums of outer products of ``df`` normal vectors.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Wishart
    >>> d = Wishart(torch.tensor(2.0), scale_tril=torch.eye(2))
    >>> d.mean
    tensor([[2., 0.],
            [0., 2.]])
    """

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("df", "covariance_matrix", "precision_matrix", "scale_tril")

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The degrees of freedom exceed the dimension less 1."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        name, matrix = one_matrix(covariance_matrix, precision_matrix, scale_tril, AssertionError)
        if matrix.dim() < 2:
            raise ValueError(
                "scale_tril must be at least two-dimensional, with optional leading batch "
                "dimensions"
            )
        if isinstance(df, NUMBER):
            df = torch.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = torch.broadcast_shapes(matrix.shape[:-2], df.shape)
        event_shape = matrix.shape[-2:]
        self.df = df.expand(batch_shape)
        setattr(self, name, matrix.expand(batch_shape + (-1, -1)))
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for "
                "ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        self._unbroadcasted_scale_tril = factor_of(name, matrix)
        self._make_chi2()

    def _make_chi2(self) -> None:
        """The squared diagonal of Bartlett's factor: one degree less from row to row."""
        p = self._unbroadcasted_scale_tril.shape[-1]
        rows = torch.arange(p, dtype=self.df.dtype, device=self.df.device)
        self._dist_chi2 = Chi2(self.df.unsqueeze(-1) - rows)

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        super()._expand_into(new, batch_shape)
        new._unbroadcasted_scale_tril = self._matrix(self._unbroadcasted_scale_tril, batch_shape)
        new._make_chi2()

    def _matrix(self, value: Any, batch_shape: Any = None) -> Any:
        shape = self._batch_shape if batch_shape is None else batch_shape
        return value.expand(shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the scale matrix."""
        return self._matrix(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The scale matrix."""
        factor = self._unbroadcasted_scale_tril
        return self._matrix(factor @ factor.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the scale matrix."""
        factor = self._unbroadcasted_scale_tril
        identity = torch.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device)
        return self._matrix(torch.cholesky_solve(identity, factor))

    def _over_matrices(self, value: Any) -> Any:
        return value.reshape(self._batch_shape + (1, 1))

    @property
    def mean(self) -> Tensor:
        return self._over_matrices(self.df) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = torch.where(factor <= 0, math.nan, factor)
        return self._over_matrices(factor) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        scale = self.covariance_matrix
        diagonal = scale.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self._over_matrices(self.df) * (scale.pow(2) + outer)

    def _bartlett_sampling(self, sample_shape: Any = EMPTY) -> Tensor:
        p = self._event_shape[-1]
        diagonal = self._dist_chi2.rsample(sample_shape).sqrt()
        diagonal = diagonal.clamp(min=torch.finfo(diagonal.dtype).eps)
        noise = diagonal.diag_embed(dim1=-2, dim2=-1)
        i, j = torch.tril_indices(p, p, offset=-1)
        below = Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,)
        noise[..., i, j] = torch.randn(below, dtype=noise.dtype, device=noise.device)
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = EMPTY, max_try_correction: int | None = None) -> Tensor:
        sample_shape = Size(sample_shape)
        if torch.default_generator._torch:
            # PyTorch mistakes its first draw for singular, and gives the second.
            self._bartlett_sampling(sample_shape)
        sample = self._bartlett_sampling(sample_shape)
        singular = self._singular(sample)
        tries = 10 if max_try_correction is None else max_try_correction
        while tries > 0 and singular.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
            again = self._bartlett_sampling(singular[singular].shape)
            sample = sample.clone()
            sample[singular] = again
            singular = self._singular(sample)
            tries -= 1
        return sample

    def _singular(self, sample: Any) -> Any:
        """Which draws of the whole batch have a matrix that is not positive definite."""
        singular = ~self.support.check(sample.detach())
        if not self._batch_shape:
            return singular
        return singular.flatten(singular.dim() - len(self._batch_shape)).any(-1)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        factor = self._unbroadcasted_scale_tril
        scale = -nu * (p * _LOG_2 / 2 + _half_log_det(factor))
        trace = torch.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        determinant = torch.linalg.slogdet(value).logabsdet
        return scale - torch.mvlgamma(nu / 2, p) + (nu - p - 1) / 2 * determinant - trace / 2

    def entropy(self) -> Any:
        nu, p = self.df, self._event_shape[-1]
        scale = p * _LOG_2 / 2 + _half_log_det(self._unbroadcasted_scale_tril)
        gammas = torch.mvlgamma(nu / 2, p) - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p)
        return (p + 1) * scale + gammas + nu * p / 2

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        p = self._event_shape[-1]
        return -self.precision_matrix / 2, (self.df - p - 1) / 2

    def _log_normalizer(self, x: Any, y: Any) -> Any:
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        determinant = torch.linalg.slogdet(-2 * x).logabsdet
        return half * (p * _LOG_2 - determinant) + torch.mvlgamma(half, p)
