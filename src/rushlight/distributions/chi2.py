"""The chi-squared distribution."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.gamma import Gamma

__all__ = ["Chi2"]


class Chi2(Gamma):
    """The chi-squared distribution: the sum of the squares of ``df`` standard normal numbers.

    >>> import rushlight as torch
    >>> from rushlight.distributions import Chi2
    >>> Chi2(torch.tensor([1.0, 4.0])).variance
    tensor([2., 8.])
    """

    arg_constraints = {"df": constraints.positive}
    _parameters = ("concentration", "rate")

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2
