"""Categories as unit vectors."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.categorical import Categorical
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import EMPTY
from rushlight.nn.functional import one_hot

__all__ = ["OneHotCategorical", "OneHotCategoricalStraightThrough"]


class OneHotCategorical(Distribution):
    """A categorical distribution whose samples are unit vectors.

    >>> import rushlight as torch
    >>> from rushlight.distributions import OneHotCategorical
    >>> d = OneHotCategorical(torch.tensor([0.0, 1.0, 0.0]))
    >>> d.sample()
    tensor([0., 1., 0.])
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.one_hot
    has_enumerate_support = True
    _parameters = ("_categorical",)

    def __init__(
        self, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        shape = self._categorical.param_shape
        super().__init__(self._categorical.batch_shape, shape[-1:], validate_args=validate_args)

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Log probabilities."""
        return self._categorical.logits

    @property
    def mean(self) -> Tensor:
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        at = self._categorical.mode
        return one_hot(at, self._event_shape[-1]).to(self._categorical.probs)

    @property
    def variance(self) -> Tensor:
        return self._categorical.probs * (1 - self._categorical.probs)

    @property
    def param_shape(self) -> Size:
        """The shape of ``probs`` and ``logits``."""
        return self._categorical.param_shape

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        drawn = self._categorical.sample(Size(sample_shape))
        return one_hot(drawn, self._event_shape[-1]).to(self._categorical.probs)

    def log_prob(self, value: Any) -> Any:
        if self._validate_args:
            self._validate_sample(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Any:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Any:
        n = self.event_shape[0]
        values = torch.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + self.batch_shape + (n,)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same, with gradients that flow into the probabilities as if samples were them.

    >>> import rushlight as torch
    >>> from rushlight.distributions import OneHotCategoricalStraightThrough
    >>> probs = torch.tensor([0.0, 1.0], requires_grad=True)
    >>> OneHotCategoricalStraightThrough(probs).rsample()
    tensor([0., 1.], grad_fn=<AddBackward0>)
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())
