"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._odds import Odds, one_of
from rushlight.distributions.gamma import Gamma
from rushlight.distributions.utils import EMPTY, broadcast_all, lazy_property
from rushlight.nn.functional import logsigmoid

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Odds):
    """The number of successes of probability ``probs`` before ``total_count`` failures.

    >>> import rushlight as torch
    >>> from rushlight.distributions import NegativeBinomial
    >>> d = NegativeBinomial(torch.tensor(3.0), torch.tensor(0.5))
    >>> d.mean, d.log_prob(torch.tensor([0.0, 1.0])).exp()
    (tensor(3.), tensor([0.1250, 0.1875]))
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer
    _parameters = ("total_count", "probs", "logits")

    def __init__(
        self,
        total_count: Any,
        probs: Any = None,
        logits: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        count, param = broadcast_all(total_count, one_of(probs, logits))
        self.total_count = count.type_as(param)
        setattr(self, "logits" if probs is None else "probs", param)
        super().__init__(param.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * torch.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / torch.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        # A total count of 0 is allowed here.
        return Gamma(self.total_count, torch.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        with torch.no_grad():
            return torch.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        count = self.total_count
        powers = count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        choices = torch.lgamma(count + value) - torch.lgamma(1.0 + value) - torch.lgamma(count)
        # No failures wanted and no success: certain, though lgamma(0) is infinite.
        return powers + choices.masked_fill(count + value == 0.0, 0.0)
