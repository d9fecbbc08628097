"""Bernoulli numbers relaxed to the unit interval."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions._odds import Odds, one_of
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import SigmoidTransform
from rushlight.distributions.utils import EMPTY, batch_shape_of, broadcast_all, clamp_probs

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(Odds):
    """The logits of relaxed Bernoulli numbers: of a log odds and a logistic number, over the
    temperature.

    >>> import rushlight as torch
    >>> from rushlight.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    >>> d = LogitRelaxedBernoulli(torch.tensor(1.0), torch.tensor(0.5))
    >>> d.log_prob(torch.tensor(0.0))
    tensor(-1.3863)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _parameters = ("probs", "logits")

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        given = one_of(probs, logits)
        (param,) = broadcast_all(given)
        setattr(self, "logits" if probs is None else "probs", param)
        super().__init__(batch_shape_of(param, given), validate_args=validate_args)

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        super()._expand_into(new, batch_shape)
        new.temperature = self.temperature

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        p = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(torch.rand(shape, dtype=p.dtype, device=p.device))
        return (u.log() - (-u).log1p() + p.log() - (-p).log1p()) / self.temperature

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value.mul(self.temperature)
        return self.temperature.log() + away - 2 * away.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in the unit interval that come near 0 and 1 as the temperature falls.

    >>> import rushlight as torch
    >>> from rushlight.distributions import RelaxedBernoulli
    >>> d = RelaxedBernoulli(torch.tensor(1.0), torch.tensor(0.5))
    >>> d.log_prob(torch.tensor(0.25)).exp()
    tensor(1.)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli
    _parameters = ("base_dist",)

    def __init__(
        self,
        temperature: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)

    @property
    def temperature(self) -> Any:
        """The temperature of the relaxation."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self.base_dist.probs
