"""Families that are given by probabilities or by logits: each follows from the other."""

from __future__ import annotations

from typing import Any

from rushlight import Size, Tensor
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import lazy_property, logits_to_probs, probs_to_logits


def one_of(probs: Any, logits: Any) -> Any:
    """The one that is given."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return logits if probs is None else probs


class Odds(Distribution):
    """``probs`` or ``logits``, the one that was given, is an attribute; the other is lazy."""

    _binary = True

    @lazy_property
    def logits(self) -> Tensor:
        """Log odds, or log probabilities up to a constant."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        """Probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def _param(self) -> Tensor:
        given = self.__dict__
        return given["probs"] if "probs" in given else given["logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of ``probs`` and ``logits``."""
        return self._param.shape

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)
