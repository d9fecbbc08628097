"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Tensor
from rushlight._ops import _dirichlet_grad, _sample_dirichlet
from rushlight.distributions import constraints
from rushlight.distributions.exp_family import ExponentialFamily
from rushlight.distributions.utils import EMPTY

__all__ = ["Dirichlet"]


def _Dirichlet_backward(x: Any, concentration: Any, grad_output: Any) -> Any:
    """The gradient of a sample with regard to the concentrations."""
    total = concentration.sum(-1, True).expand_as(concentration)
    rate = _dirichlet_grad(x, concentration, total)
    return rate * (grad_output - (x * grad_output).sum(-1, True))


class Dirichlet(ExponentialFamily):
    """The Dirichlet distribution over the simplex. Gradients of samples flow, to any order.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Dirichlet
    >>> d = Dirichlet(torch.tensor([1.0, 2.0, 1.0]))
    >>> d.mean, d.log_prob(torch.tensor([0.25, 0.5, 0.25]))
    (tensor([0.2500, 0.5000, 0.2500]), tensor(1.0986))
    >>> d.sample((4,)).sum(-1).round(decimals=5)
    tensor([1., 1., 1., 1.])
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True
    _parameters = ("concentration",)

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        shape = concentration.shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return _sample_dirichlet(self.concentration.expand(shape))

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        alpha = self.concentration
        return (
            torch.xlogy(alpha - 1.0, value).sum(-1)
            + torch.lgamma(alpha.sum(-1))
            - torch.lgamma(alpha).sum(-1)
        )

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        # Where all concentrations are below 1 the density is greatest in a corner.
        corner = (self.concentration < 1).all(-1)
        corners = torch.nn.functional.one_hot(mode[corner].argmax(-1), above.shape[-1])
        mode[corner] = corners.to(mode)
        return mode

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Any:
        k = self.concentration.size(-1)
        total = self.concentration.sum(-1)
        return (
            torch.lgamma(self.concentration).sum(-1)
            - torch.lgamma(total)
            - (k - total) * torch.digamma(total)
            - ((self.concentration - 1.0) * torch.digamma(self.concentration)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Any, ...]:
        return (self.concentration,)

    def _log_normalizer(self, x: Any) -> Any:
        return x.lgamma().sum(-1) - torch.lgamma(x.sum(-1))
