"""Normalisation of each sample by itself."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.modules.batchnorm import _LazyNormBase, _NormBase

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d",
]  # fmt: skip


class _InstanceNorm(_NormBase):
    """Normalises each channel of each sample over its positions."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _normalise(self, input: Tensor) -> Tensor:
        return F.instance_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        found = [prefix + name for name in ("running_mean", "running_var")]
        found = [key for key in found if key in state_dict]
        if local_metadata.get("version") is None and not self.track_running_stats and found:
            name, keys = type(self).__name__, " and ".join(f'"{k}"' for k in found)
            rest[-1].append(
                f"Unexpected running stats buffer(s) {keys} for {name} with "
                "track_running_stats=False. Remove these keys from state_dict, or set "
                f"track_running_stats=True in {name} to use them."
            )
            for key in found:
                state_dict.pop(key)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = self.dims[0]
        dim = input.dim() - unbatched
        if input.size(dim) != self.num_features:
            if self.affine:
                raise ValueError(
                    f"expected input's size at dim={dim} to match num_features "
                    f"({self.num_features}), but got: {input.size(dim)}."
                )
            import warnings

            warnings.warn(
                f"input's size at dim={dim} does not match num_features. You can silence this "
                "warning by not passing in num_features, which is not used because affine=False",
                stacklevel=2,
            )
        if input.dim() == unbatched:
            return self._normalise(input.unsqueeze(0)).squeeze(0)
        return self._normalise(input)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalisation of (batch, channels, length).

    >>> import rushlight as torch
    >>> torch.nn.InstanceNorm1d(1)(torch.tensor([[[1.0, 3.0]]])).round()
    tensor([[[-1.,  1.]]])
    """

    dims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalisation of (batch, channels, height, width).

    >>> import rushlight as torch
    >>> torch.nn.InstanceNorm2d(3)(torch.ones(1, 3, 2, 2)).abs().max().item()
    0.0
    """

    dims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalisation of (batch, channels, depth, height, width).

    >>> import rushlight as torch
    >>> torch.nn.InstanceNorm3d(3)(torch.zeros(1, 3, 2, 4, 4)).shape
    torch.Size([1, 3, 2, 4, 4])
    """

    dims = (4, 5)


class LazyInstanceNorm1d(_LazyNormBase, InstanceNorm1d):
    """An InstanceNorm1d whose ``num_features`` come from the first input.

    >>> import rushlight as torch
    >>> norm = torch.nn.LazyInstanceNorm1d()
    >>> norm(torch.zeros(4, 3, 5)).shape, norm.num_features
    (torch.Size([4, 3, 5]), 3)
    """

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, InstanceNorm2d):
    """An InstanceNorm2d whose ``num_features`` come from the first input.

    >>> import rushlight as torch
    >>> norm = torch.nn.LazyInstanceNorm2d()
    >>> norm(torch.zeros(4, 3, 5, 5)).shape, norm.num_features
    (torch.Size([4, 3, 5, 5]), 3)
    """

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, InstanceNorm3d):
    """An InstanceNorm3d whose ``num_features`` come from the first input.

    >>> import rushlight as torch
    >>> norm = torch.nn.LazyInstanceNorm3d()
    >>> norm(torch.zeros(4, 3, 2, 5, 5)).shape, norm.num_features
    (torch.Size([4, 3, 2, 5, 5]), 3)
    """

    cls_to_become = InstanceNorm3d
