"""Convolutions that take their input channels from the first input."""

from __future__ import annotations

from rushlight.nn.modules.conv import (
    Conv1d,
    Conv2d,
    Conv3d,
    ConvTranspose1d,
    ConvTranspose2d,
    ConvTranspose3d,
)
from rushlight.nn.modules.lazy import LazyModuleMixin
from rushlight.nn.parameter import UninitializedParameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "LazyConv1d", "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d",
    "LazyConvTranspose3d",
]  # fmt: skip


class _LazyConv(LazyModuleMixin):
    """What lazy convolutions share; the constructor leaves out ``in_channels``."""

    def __init__(self, out_channels: int, kernel_size: Any, *args: Any, **kwargs: Any) -> None:
        transposed = isinstance(self, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d))
        middle = ("output_padding", "groups", "bias", "dilation")
        if not transposed:
            middle = ("dilation", "groups", "bias")  # type: ignore[assignment]
        names = ("stride", "padding", *middle, "padding_mode", "device", "dtype")
        if len(args) > len(names):
            raise TypeError(f"{type(self).__name__} takes at most {len(names) + 2} arguments")
        options = {**dict(zip(names, args, strict=False)), **kwargs}
        bias = options.pop("bias", True)
        super().__init__(0, 0, kernel_size, bias=False, **options)
        made: dict[str, Any] = {key: options.get(key) for key in ("device", "dtype")}
        self.weight = UninitializedParameter(**made)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(**made)

    def reset_parameters(self) -> None:
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        if not self.has_uninitialized_params():
            return
        dims = self.dims
        if input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        self.in_channels = input.shape[-dims - 1]
        if self.in_channels % self.groups != 0:
            raise ValueError(
                f"in_channels must be divisible by groups, got {self.in_channels} and {self.groups}"
            )
        first, second = self.out_channels, self.in_channels
        if self.transposed:
            first, second = second, first
        self.weight.materialize((first, second // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()


class LazyConv1d(_LazyConv, Conv1d):  # type: ignore[misc]
    """A Conv1d whose ``in_channels`` come from the first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyConv1d(4, 3)
    >>> layer(torch.zeros(1, 2, 5)).shape, layer.in_channels
    (torch.Size([1, 4, 3]), 2)
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):  # type: ignore[misc]
    """A Conv2d whose ``in_channels`` come from the first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyConv2d(4, 3)
    >>> layer(torch.zeros(1, 2, 5, 5)).shape, layer.in_channels
    (torch.Size([1, 4, 3, 3]), 2)
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):  # type: ignore[misc]
    """A Conv3d whose ``in_channels`` come from the first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyConv3d(4, 3)
    >>> layer(torch.zeros(1, 2, 5, 5, 5)).shape, layer.in_channels
    (torch.Size([1, 4, 3, 3, 3]), 2)
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConv, ConvTranspose1d):  # type: ignore[misc]
    """A ConvTranspose1d whose ``in_channels`` come from the first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyConvTranspose1d(4, 3)
    >>> layer(torch.zeros(1, 2, 5)).shape, layer.in_channels
    (torch.Size([1, 4, 7]), 2)
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConv, ConvTranspose2d):  # type: ignore[misc]
    """A ConvTranspose2d whose ``in_channels`` come from the first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyConvTranspose2d(4, 3)
    >>> layer(torch.zeros(1, 2, 5, 5)).shape, layer.in_channels
    (torch.Size([1, 4, 7, 7]), 2)
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConv, ConvTranspose3d):  # type: ignore[misc]
    """A ConvTranspose3d whose ``in_channels`` come from the first input.

    >>> import rushlight as torch
    >>> layer = torch.nn.LazyConvTranspose3d(4, 3)
    >>> layer(torch.zeros(1, 2, 5, 5, 5)).shape, layer.in_channels
    (torch.Size([1, 4, 7, 7, 7]), 2)
    """

    cls_to_become = ConvTranspose3d
