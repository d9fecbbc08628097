"""Dropout: random zeros while training."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from rushlight import Tensor

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
]  # fmt: skip


class _DropoutNd(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Sets elements to zero with probability ``p`` and scales the others up.

    >>> import rushlight as torch
    >>> torch.nn.Dropout(0.5).eval()(torch.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Sets whole channels of (batch, channels, length) to zero.

    >>> import rushlight as torch
    >>> y = torch.nn.Dropout1d(0.5)(torch.ones(8, 16, 4))
    >>> sorted({float(v) for v in y.sum(dim=2).flatten()})
    [0.0, 8.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_DropoutNd):
    """Sets whole channels of (batch, channels, height, width) to zero.

    >>> import rushlight as torch
    >>> y = torch.nn.Dropout2d(0.5)(torch.ones(8, 16, 2, 2))
    >>> sorted({float(v) for v in y.sum(dim=(2, 3)).flatten()})
    [0.0, 8.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_DropoutNd):
    """Sets whole channels of (batch, channels, depth, height, width) to zero.

    >>> import rushlight as torch
    >>> y = torch.nn.Dropout3d(0.5)(torch.ones(8, 16, 1, 2, 2))
    >>> sorted({float(v) for v in y.sum(dim=(2, 3, 4)).flatten()})
    [0.0, 8.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance, for SELU networks.

    >>> import rushlight as torch
    >>> torch.nn.AlphaDropout(0.2)(torch.zeros(2, 3)).shape
    torch.Size([2, 3])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_DropoutNd):
    """AlphaDropout of whole channels.

    >>> import rushlight as torch
    >>> torch.nn.FeatureAlphaDropout(0.2).eval()(torch.ones(1, 2))
    tensor([[1., 1.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
