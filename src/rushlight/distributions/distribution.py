"""The base class of distributions."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight as torch
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.utils import EMPTY, lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A probability distribution: a batch of independent ones, each over events of one shape.

    A subclass names its parameters and their constraints in ``arg_constraints``, says where samples
    lie (``support``) and defines ``log_prob``, and ``sample`` or ``rsample``.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Distribution, constraints
    >>> class Rademacher(Distribution):
    ...     arg_constraints = {}
    ...     support = constraints.real
    ...     def log_prob(self, value):
    ...         return torch.full_like(value, -0.6931)
    >>> Rademacher().log_prob(torch.tensor([1.0, -1.0]))
    tensor([-0.6931, -0.6931])
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    # The attributes that have the batch's shape in front: tensors and other distributions.
    _parameters: tuple[str, ...] | None = None

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked where ``validate_args`` is not given; on at first."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(
        self,
        batch_shape: Size = EMPTY,
        event_shape: Size = EMPTY,
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    def _validate_parameters(self) -> None:
        try:
            regions = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `arg_constraints`. Please set "
                "`arg_constraints = {}` or initialize the distribution with "
                "`validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        given = self.__dict__
        for name, region in regions.items():
            value = given.get(name)
            if value is None:
                if isinstance(getattr(type(self), name, None), lazy_property):
                    continue  # it follows from those that were given
                value = getattr(self, name)
            if not isinstance(region, constraints._Dependent) and not region._holds(value):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape "
                    f"{tuple(value.shape)}) of distribution {self!r} to satisfy the constraint "
                    f"{region!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """The same distribution with parameters expanded to a larger batch; memory is shared."""
        for owner in type(self).__mro__:
            if owner.__dict__.get("_parameters") is not None:
                break
        else:
            raise NotImplementedError(f"{type(self).__name__} does not implement expand")
        new = self._get_checked_instance(owner, _instance)
        batch_shape = Size(batch_shape)
        self._expand_into(new, batch_shape)
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        batch_dims = len(self._batch_shape)
        assert self._parameters is not None
        for name in self._parameters:
            value = self.__dict__.get(name)
            if isinstance(value, Distribution):
                shape = batch_shape + value._batch_shape[batch_dims:]
                setattr(new, name, value.expand(shape))
            elif value is not None:
                setattr(new, name, value.expand(batch_shape + value.shape[batch_dims:]))

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of independent distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample of one distribution of the batch."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """What each parameter must satisfy."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """Where samples lie, as a constraint."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean of the distribution."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """Where the density or probability is greatest."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance of the distribution."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The square root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        """Samples: ``sample_shape`` of them for each distribution of the batch, without history."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = EMPTY) -> Tensor:
        """Samples whose gradients flow into the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Deprecated: ``sample((n,))``."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.",
            FutureWarning,
            stacklevel=2,
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density, or of the probability, at a value."""
        raise NotImplementedError

    def cdf(self, value: Any) -> Any:
        """The probability of a sample that is not above the value."""
        raise NotImplementedError

    def icdf(self, value: Any) -> Any:
        """The inverse of the distribution function: a quantile."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Any:
        """All values of a discrete distribution along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy in nats."""
        raise NotImplementedError

    def perplexity(self) -> Any:
        """The exponential of the entropy."""
        return torch.exp(self.entropy())

    def _extended_shape(self, sample_shape: Any = EMPTY) -> Size:
        if not sample_shape:
            return self._batch_shape + self._event_shape
        return Size(sample_shape) + self._batch_shape + self._event_shape

    def _validate_sample(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        shape = value.shape
        if self._event_shape or (self._batch_shape and shape != self._batch_shape):
            self._validate_shape(shape, self._batch_shape + self._event_shape)
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{self.__class__} does not define `support` to enable sample validation. Please "
                "initialize the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not support._holds(value):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be "
                f"within the support ({support!r}) of the distribution {self!r}, but found "
                f"invalid values:\n{value}"
            )

    def _validate_shape(self, shape: Size, expected: Size) -> None:
        events = len(self._event_shape)
        if shape[len(shape) - events :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {shape} vs "
                f"{self._event_shape}."
            )
        for ours, wanted in zip(reversed(shape), reversed(expected), strict=False):
            if ours != wanted and ours != 1 and wanted != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {shape} vs "
                    f"{expected}."
                )

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:
            raise NotImplementedError(
                f"Subclass {self.__class__.__name__} of {cls.__name__} that defines a custom "
                "__init__ method must also define a custom .expand() method."
            )
        return self.__new__(type(self))

    def __repr__(self) -> str:
        given = [(k, self.__dict__[k]) for k in self.arg_constraints if k in self.__dict__]
        shown = [f"{k}: {v if v.numel() == 1 else v.size()}" for k, v in given]
        return self.__class__.__name__ + "(" + ", ".join(shown) + ")"
