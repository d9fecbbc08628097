"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import EMPTY, batch_shape_of, broadcast_all

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """What lies above a high threshold: tails heavy (``concentration`` > 0), exponential (0) or
    bounded (< 0).

    >>> import rushlight as torch
    >>> from rushlight.distributions import GeneralizedPareto
    >>> d = GeneralizedPareto(0.0, 1.0, torch.tensor([0.0, 0.5]))
    >>> d.mean, d.cdf(torch.tensor(2.0))
    (tensor([1., 2.]), tensor([0.8647, 0.7500]))
    """

    arg_constraints = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    has_rsample = True
    _parameters = ("loc", "scale", "concentration")

    def __init__(
        self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        shape = batch_shape_of(self.loc, loc, scale, concentration)
        super().__init__(shape, validate_args=validate_args)

    def _tails(self) -> tuple[Tensor, Tensor]:
        """Where tails are exponential, and concentrations that may be divided by."""
        exponential = torch.isclose(self.concentration, torch.zeros_like(self.concentration))
        return exponential, torch.where(exponential, 1.0, self.concentration)

    def _z(self, x: Any) -> Any:
        return (x - self.loc) / self.scale

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        exponential, shape = self._tails()
        power = 1 / shape + torch.ones_like(z)
        # With a concentration of -1 the density is even, also where the logarithm is infinite.
        heavy = torch.where(power == 0, power, power * torch.log1p(shape * z))
        return -self.scale.log() - torch.where(exponential, z, heavy)

    def log_survival_function(self, value: Any) -> Any:
        """The logarithm of the probability of a sample above the value."""
        if self._validate_args:
            self._validate_sample(value)
        z = self._z(value)
        exponential, shape = self._tails()
        return torch.where(exponential, -z, -torch.log1p(shape * z) / shape)

    def log_cdf(self, value: Any) -> Any:
        """The logarithm of the distribution function."""
        return torch.log1p(-torch.exp(self.log_survival_function(value)))

    def cdf(self, value: Any) -> Any:
        return torch.exp(self.log_cdf(value))

    def icdf(self, value: Any) -> Any:
        exponential, shape = self._tails()
        log_rest = torch.log1p(-value)
        heavy = self.loc + self.scale / shape * torch.expm1(-shape * log_rest)
        return torch.where(exponential, self.loc - self.scale * log_rest, heavy)

    @property
    def mean(self) -> Tensor:
        exists = self.concentration < 1
        shape = torch.where(exists, self.concentration, 0.5)
        return torch.where(exists, self.loc + self.scale / (1 - shape), math.nan)

    @property
    def variance(self) -> Tensor:
        exists = self.concentration < 0.5
        shape = torch.where(exists, self.concentration, 0.25)
        return torch.where(exists, self.scale**2 / ((1 - shape) ** 2 * (1 - 2 * shape)), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    def entropy(self) -> Any:
        return (torch.log(self.scale) + self.concentration + 1).expand(self._batch_shape)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        """From ``loc`` on, up to where a bounded tail ends."""
        end = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, torch.where(self.concentration < 0, end, math.inf))
