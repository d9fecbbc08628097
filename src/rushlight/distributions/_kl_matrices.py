"""Divergences between multivariate normal distributions."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.distributions.kl import register_kl
from rushlight.distributions.lowrank_multivariate_normal import (
    LowRankMultivariateNormal,
    _batch_lowrank_mahalanobis,
)
from rushlight.distributions.multivariate_normal import (
    MultivariateNormal,
    _batch_mahalanobis,
    _half_log_det,
)


def _log_det(d: Any) -> Any:
    """The logarithm of the determinant of the covariance."""
    if isinstance(d, LowRankMultivariateNormal):
        return d._log_det()
    return 2 * _half_log_det(d._unbroadcasted_scale_tril)


def _distance(q: Any, x: Any) -> Any:
    """The squared distance of x in q's metric."""
    if isinstance(q, LowRankMultivariateNormal):
        return _batch_lowrank_mahalanobis(
            q._unbroadcasted_cov_factor, q._unbroadcasted_cov_diag, x, q._capacitance_tril
        )
    return _batch_mahalanobis(q._unbroadcasted_scale_tril, x)


def _roots(p: Any) -> list[Any]:
    """Matrices whose outer squares add up to the covariance."""
    if isinstance(p, LowRankMultivariateNormal):
        return [p._unbroadcasted_cov_factor, torch.diag_embed(p._unbroadcasted_cov_diag.sqrt())]
    return [p._unbroadcasted_scale_tril]


def _squares(matrix: Any) -> Any:
    return matrix.pow(2).sum((-2, -1))


def _trace(q: Any, root: Any) -> Any:
    """The trace of q's precision times the outer square of the root."""
    if isinstance(q, LowRankMultivariateNormal):
        diagonal = q._unbroadcasted_cov_diag
        scaled = q._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
        half = torch.linalg.solve_triangular(q._capacitance_tril, scaled, upper=False)
        return _squares(root * diagonal.rsqrt().unsqueeze(-1)) - _squares(half @ root)
    factor = q._unbroadcasted_scale_tril
    batch = torch.broadcast_shapes(factor.shape[:-2], root.shape[:-2])
    factor, root = factor.expand(batch + (-1, -1)), root.expand(batch + (-1, -1))
    return _squares(torch.linalg.solve_triangular(factor, root, upper=False))


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p: Any, q: Any) -> Any:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event "
            f"shapes cannot be computed: {p.event_shape} and {q.event_shape}"
        )
    trace = sum(_trace(q, root) for root in _roots(p))
    distance = _distance(q, q.loc - p.loc)
    return 0.5 * (_log_det(q) - _log_det(p) + trace + distance - p.event_shape[0])
