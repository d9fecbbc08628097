"""Exponential families."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.distributions.distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions with densities exp(<t(x), theta> - F(theta) + k(x)).

    A subclass gives its natural parameters theta, the log normaliser F and the mean of the carrier
    k; entropies and divergences follow by differentiating F.

    >>> import rushlight as torch
    >>> from rushlight.distributions import ExponentialFamily, Exponential
    >>> ExponentialFamily.entropy(Exponential(torch.tensor([1.0, 2.0]))).detach()
    tensor([1.0000, 0.3069])
    """

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Any) -> Any:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Any:
        """F(theta) - <theta, F'(theta)> - E[k]: the Bregman divergence of F from 0."""
        theta = [p.detach().requires_grad_() for p in self._natural_params]
        normalizer = self._log_normalizer(*theta)
        slopes = torch.autograd.grad(normalizer.sum(), theta, create_graph=True)
        result = normalizer - self._mean_carrier_measure
        for p, slope in zip(theta, slopes, strict=True):
            result = result - (p * slope).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
