"""The geometric distribution."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions._odds import Odds, one_of
from rushlight.distributions.utils import EMPTY, batch_shape_of, broadcast_all
from rushlight.nn.functional import binary_cross_entropy_with_logits

__all__ = ["Geometric"]


class Geometric(Odds):
    """The number of failures before the first success.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Geometric
    >>> Geometric(torch.tensor(0.5)).log_prob(torch.tensor([0.0, 2.0])).exp()
    tensor([0.5000, 0.1250])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer
    _parameters = ("probs", "logits")

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        given = one_of(probs, logits)
        (param,) = broadcast_all(given)
        setattr(self, "logits" if probs is None else "probs", param)
        super().__init__(batch_shape_of(param, given), validate_args=validate_args)
        if self._validate_args and probs is not None and not (param > 0).all():
            found = param.data[~(param > 0)]
            raise ValueError(
                f"Expected parameter probs ({type(param).__name__} of shape {tuple(param.shape)}) "
                f"of distribution {self!r} to be positive but found invalid values:\n{found}"
            )

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return torch.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            u = self.probs.new_empty(shape).uniform_(torch.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        # 0 times log(0) at once: certain success without failures.
        probs = probs.masked_fill((probs == 1) & (value == 0), 0)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Any:
        binary = binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")
        return binary / self.probs
