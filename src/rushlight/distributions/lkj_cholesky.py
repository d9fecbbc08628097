"""Random correlation matrices."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight import Size, Tensor
from rushlight.distributions import constraints
from rushlight.distributions.beta import Beta
from rushlight.distributions.distribution import Distribution
from rushlight.distributions.utils import EMPTY, broadcast_all

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices with density |M|^(concentration - 1).

    (Lewandowski, Kurowicka and Joe, 2009.) With a concentration of 1 all correlation matrices are
    equally likely.

    >>> import rushlight as torch
    >>> from rushlight.distributions import LKJCholesky
    >>> factor = LKJCholesky(3, 0.5).sample()
    >>> bool(((factor @ factor.mT).diagonal() - 1).abs().max() < 1e-6)
    True
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _parameters = ("concentration", "_beta")

    def __init__(
        self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None
    ) -> None:
        if dim < 2:
            raise ValueError(
                f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}."
            )
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        dtype, device = self.concentration.dtype, self.concentration.device
        # The squared length of row k beside its diagonal element is a beta number.
        order = torch.arange(dim - 1, dtype=dtype, device=device)
        order = torch.cat([order.new_zeros((1,)), order])
        rest = (self.concentration + 0.5 * (dim - 2)).unsqueeze(-1)
        self._beta = Beta(order + 0.5, rest - 0.5 * order)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args)

    def _expand_into(self, new: Any, batch_shape: Size) -> None:
        super()._expand_into(new, batch_shape)
        new.dim = self.dim

    def sample(self, sample_shape: Any = EMPTY) -> Tensor:
        """The onion method: rows are random directions of a random length."""
        with torch.no_grad():
            square = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            normal = torch.randn(shape, dtype=square.dtype, device=square.device).tril(-1)
            direction = normal / normal.norm(dim=-1, keepdim=True)
            direction[..., 0, :].fill_(0.0)  # the first row has no direction: 0 / 0
            rows = torch.sqrt(square) * direction
            left = 1 - torch.sum(rows**2, -1)
            diagonal = left.clamp(min=torch.finfo(rows.dtype).tiny).sqrt()
            return rows + torch.diag_embed(diagonal)

    def log_prob(self, value: Any) -> Any:
        # The determinant is the squared product of the diagonal; the Jacobian of the factor adds
        # D - k for row k.
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = torch.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        density = torch.sum(order * diagonal.log(), -1)
        rows = self.dim - 1
        alpha = self.concentration + 0.5 * rows
        constant = 0.5 * rows * math.log(math.pi)
        normalizer = constant + torch.mvlgamma(alpha - 0.5, rows) - torch.lgamma(alpha) * rows
        return density - normalizer
