"""The continuous Bernoulli distribution."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._odds import Odds, one_of
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import (
    EMPTY,
    batch_shape_of,
    broadcast_all,
    clamp_probs,
    lazy_property,
    logits_to_probs,
)
from rushlight.nn.functional import binary_cross_entropy_with_logits

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(Odds, ExponentialFamily):
    """Numbers in the unit interval with density proportional to p^x (1 - p)^(1 - x).

    Between ``lims`` the formulas lose their digits, and series around 0.5 take their place.

    >>> import rushlight as torch
    >>> from rushlight.distributions import ContinuousBernoulli
    >>> d = ContinuousBernoulli(torch.tensor([0.5, 0.9]))
    >>> d.mean, d.log_prob(torch.tensor(0.5))
    (tensor([0.5000, 0.6699]), tensor([ 0.0000, -0.1936]))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0
    _parameters = ("probs", "logits")

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        given = one_of(probs, logits)
        (param,) = broadcast_all(given)
        if probs is None:
            self.logits = param
        else:
            # Checked before it is clamped, after which it is always valid.
            if validate_args is not None and not constraints.unit_interval._holds(param):
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(param)
        self._lims = lims
        super().__init__(batch_shape_of(param, given), validate_args=validate_args)

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        super()._expand_into(new, batch_shape)
        new._lims = self._lims

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter p, kept off 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        """The probabilities, with a harmless one where series are used."""
        return torch.where(self._outside_unstable_region(), self.probs, self._lims[0])

    def _odds(self, cut: Tensor) -> Tensor:
        return torch.log1p(-cut) - torch.log(cut)

    def _cont_bern_log_norm(self) -> Tensor:
        """The logarithm of the normalising constant."""
        cut = self._cut_probs()
        below = torch.where(cut <= 0.5, cut, 0.0)
        above = torch.where(cut >= 0.5, cut, 1.0)
        distance = torch.where(cut <= 0.5, torch.log1p(-2.0 * below), torch.log(2.0 * above - 1.0))
        formula = torch.log(torch.abs(self._odds(cut))) - distance
        x = torch.pow(self.probs - 0.5, 2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return torch.where(self._outside_unstable_region(), formula, series)

    @property
    def mean(self) -> Tensor:
        cut = self._cut_probs()
        formula = cut / (2.0 * cut - 1.0) + 1.0 / self._odds(cut)
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * torch.pow(x, 2)) * x
        return torch.where(self._outside_unstable_region(), formula, series)

    @property
    def stddev(self) -> Tensor:
        return torch.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        cut = self._cut_probs()
        formula = cut * (cut - 1.0) / torch.pow(1.0 - 2.0 * cut, 2)
        formula = formula + 1.0 / torch.pow(self._odds(cut), 2)
        x = torch.pow(self.probs - 0.5, 2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return torch.where(self._outside_unstable_region(), formula, series)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(torch.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        binary = binary_cross_entropy_with_logits(logits, value, reduction="none")
        return self._cont_bern_log_norm() - binary

    def cdf(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        cut = self._cut_probs()
        weight = torch.pow(cut, value) * torch.pow(1.0 - cut, 1.0 - value)
        formula = (weight + cut - 1.0) / (2.0 * cut - 1.0)
        inside = torch.where(self._outside_unstable_region(), formula, value)
        return torch.where(value <= 0.0, 0.0, torch.where(value >= 1.0, 1.0, inside))

    def icdf(self, value: Any) -> Any:
        cut = self._cut_probs()
        rise = torch.log1p(-cut + value * (2.0 * cut - 1.0)) - torch.log1p(-cut)
        formula = rise / (torch.log(cut) - torch.log1p(-cut))
        return torch.where(self._outside_unstable_region(), formula, value)

    def entropy(self) -> Any:
        log_rest = torch.log1p(-self.probs)
        slope = log_rest - torch.log(self.probs)
        return self.mean * slope - self._cont_bern_log_norm() - log_rest

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.logits,)

    def _log_normalizer(self, x: Any) -> Any:
        low, high = self._lims[0] - 0.5, self._lims[1] - 0.5
        outside = (x <= low) | (x > high)
        cut = torch.where(outside, x, low)
        formula = torch.log(torch.abs(torch.expm1(cut))) - torch.log(torch.abs(cut))
        series = 0.5 * x + torch.pow(x, 2) / 24.0 - torch.pow(x, 4) / 2880.0
        return torch.where(outside, formula, series)
