"""Mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import EMPTY

__all__ = ["MixtureSameFamily"]


class MixtureSameFamily(Distribution):
    """A mixture: the last dimension of the components' batch is chosen from by a categorical.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Categorical, MixtureSameFamily, Normal
    >>> d = MixtureSameFamily(
    ...     Categorical(torch.tensor([0.5, 0.5])), Normal(torch.tensor([-1.0, 1.0]), 1.0))
    >>> d.mean, d.variance, d.log_prob(torch.tensor(0.0))
    (tensor(0.), tensor(2.), tensor(-1.4189))
    """

    arg_constraints: dict[str, Any] = {}
    has_rsample = False
    _parameters = ("_mixture_distribution", "_component_distribution")

    def __init__(
        self,
        mixture_distribution: Any,
        component_distribution: Any,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(
                " The Mixture distribution needs to be an  instance of "
                f"torch.distributions.Categorical, got {type(mixture_distribution).__name__}"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError(
                "The Component distribution needs to be an instance of "
                f"torch.distributions.Distribution, got {type(component_distribution).__name__}"
            )
        self._mixture_distribution = mixture_distribution
        self._component_distribution = component_distribution
        shape = mixture_distribution.batch_shape
        batch_shape = component_distribution.batch_shape[:-1]
        for ours, theirs in zip(reversed(shape), reversed(batch_shape), strict=False):
            if ours != 1 and theirs != 1 and ours != theirs:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({shape}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch_shape})"
                )
        choices = mixture_distribution.param_shape[-1]
        components = component_distribution.batch_shape[-1]
        if choices != components:
            raise ValueError(
                f"`mixture_distribution component` ({choices}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._num_component = choices
        event_shape = component_distribution.event_shape
        self._event_ndims = len(event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        components = batch_shape + (self._num_component,)
        new._component_distribution = self._component_distribution.expand(components)
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component = self._num_component
        new._event_ndims = self._event_ndims

    @constraints.dependent_property
    def support(self):
        """That of the components."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Any:
        """The distribution over the components."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Any:
        """The components."""
        return self._component_distribution

    def _mixed(self, values: Any) -> Any:
        """The mean over the components."""
        probs = self._pad_mixture_dimensions(self._mixture_distribution.probs)
        return (probs * values).sum(-1 - self._event_ndims)

    @property
    def mean(self) -> Tensor:
        return self._mixed(self._component_distribution.mean)

    @property
    def variance(self) -> Tensor:
        within = self._mixed(self._component_distribution.variance)
        apart = self._component_distribution.mean - self._pad(self.mean)
        return within + self._mixed(apart.pow(2.0))

    def cdf(self, x: Any) -> Any:
        below = self._component_distribution.cdf(self._pad(x))
        return (below * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, x: Any) -> Any:
        if self._validate_args:
            self._validate_sample(x)
        log_prob = self._component_distribution.log_prob(self._pad(x))
        weights = torch.log_softmax(self._mixture_distribution.logits, -1)
        return torch.logsumexp(log_prob + weights, -1)

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        with torch.no_grad():
            chosen = self._mixture_distribution.sample(sample_shape)
            samples = self._component_distribution.sample(sample_shape)
            dim = len(sample_shape) + len(self._batch_shape)
            index = chosen.reshape(chosen.shape + (1,) * (self._event_ndims + 1))
            index = index.expand(chosen.shape + (1,) + self._event_shape)
            return samples.gather(dim, index).squeeze(dim)

    def _pad(self, x: Any) -> Any:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Any) -> Any:
        dims = len(self._mixture_distribution.batch_shape)
        missing = 0 if dims == 1 else len(self._batch_shape) - dims
        shape = x.shape
        return x.reshape(shape[:-1] + (1,) * missing + shape[-1:] + (1,) * self._event_ndims)

    def __repr__(self) -> str:
        return (
            f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
        )
