"""The logistic-normal distribution."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.independent import Independent
from rushlight.distributions.normal import Normal
from rushlight.distributions.transformed_distribution import TransformedDistribution
from rushlight.distributions.transforms import StickBreakingTransform

__all__ = ["LogisticNormal"]


class LogisticNormal(TransformedDistribution):
    """Normal vectors mapped onto the simplex by breaking sticks.

    >>> import rushlight as torch
    >>> from rushlight.distributions import LogisticNormal
    >>> LogisticNormal(torch.zeros(3), torch.ones(3)).sample().sum()
    tensor(1.)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex
    has_rsample = True
    base_dist: Independent[Normal]
    _parameters = ("base_dist",)

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the normal vector."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal vector."""
        return self.base_dist.base_dist.scale
