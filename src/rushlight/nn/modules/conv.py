"""Convolutions."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _ntuple, _reverse_repeat_tuple
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = ["Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d"]

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """What all convolutions share; the kernel moves over ``dims`` dimensions."""

    dims: int
    op: str  # the function's name in nn.functional
    padding: Any
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be a positive integer, got {groups}")
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if channels % groups != 0:
                raise ValueError(f"{name} must be divisible by groups, got {channels} and {groups}")
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(
                    f"Invalid padding string {padding!r}, should be one of {{'same', 'valid'}}"
                )
            if padding == "same" and any(s != 1 for s in stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        if padding_mode not in _PADDING_MODES:
            raise ValueError(
                f"padding_mode must be one of {set(_PADDING_MODES)}, but got "
                f"padding_mode='{padding_mode}'"
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        self._reversed_padding_repeated_twice = self._pad_widths()
        first, second = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        empty = _C._namespaces[""]["empty"]
        shape = (first, second // groups, *kernel_size)
        self.weight = Parameter(empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _pad_widths(self) -> tuple[int, ...]:
        """The widths that ``pad`` takes where the padding is not of zeros."""
        if not isinstance(self.padding, str):
            return _reverse_repeat_tuple(self.padding, 2)
        if self.padding == "valid":
            return (0, 0) * len(self.kernel_size)
        widths: list[int] = []  # the convolution itself refuses lengths that do not fit
        for d, k in zip(reversed(self.dilation), reversed(self.kernel_size), strict=False):
            total = d * (k - 1)
            widths += [total // 2, total - total // 2]
        return tuple(widths)

    def reset_parameters(self) -> None:
        """Draws weight and bias uniformly within 1 / sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            bound = 1 / math.sqrt(fan_in) if fan_in > 0 else 0
            init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        text = (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
        )
        if isinstance(self.padding, str) or any(self.padding):
            text += f", padding={self.padding}"
        if any(d != 1 for d in self.dilation):
            text += f", dilation={self.dilation}"
        if any(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        if self.padding_mode != "zeros":
            text += f", padding_mode={self.padding_mode}"
        return text


class _Conv(_ConvNd):
    """A convolution over ``dims`` dimensions."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: str | int | tuple[int, ...] = 0,
        dilation: int | tuple[int, ...] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        spread = _ntuple(self.dims)
        super().__init__(
            in_channels,
            out_channels,
            spread(kernel_size),
            spread(stride),
            padding if isinstance(padding, str) else spread(padding),
            spread(dilation),
            False,
            spread(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            widths = self._reversed_padding_repeated_twice
            input = F.pad(input, widths, mode=self.padding_mode)
            padding = 0
        return getattr(F, self.op)(
            input, weight, bias, self.stride, padding, self.dilation, self.groups
        )

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """A kernel that moves along one dimension of (batch, channels, length).

    >>> import rushlight as torch
    >>> torch.nn.Conv1d(2, 3, kernel_size=3)(torch.zeros(4, 2, 10)).shape
    torch.Size([4, 3, 8])
    """

    dims = 1
    op = "conv1d"


class Conv2d(_Conv):
    """A kernel that moves over the height and width of (batch, channels, height, width).

    >>> import rushlight as torch
    >>> torch.nn.Conv2d(3, 8, kernel_size=3, padding=1)(torch.zeros(4, 3, 10, 10)).shape
    torch.Size([4, 8, 10, 10])
    """

    dims = 2
    op = "conv2d"


class Conv3d(_Conv):
    """A kernel that moves over depth, height and width.

    >>> import rushlight as torch
    >>> torch.nn.Conv3d(2, 3, kernel_size=3)(torch.zeros(1, 2, 4, 6, 6)).shape
    torch.Size([1, 3, 2, 4, 4])
    """

    dims = 3
    op = "conv3d"


class _ConvTransposeNd(_ConvNd):
    """The gradient of a convolution as a layer: it enlarges its input."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, ...],
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] = 0,
        output_padding: int | tuple[int, ...] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | tuple[int, ...] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        spread = _ntuple(self.dims)
        super().__init__(
            in_channels,
            out_channels,
            spread(kernel_size),
            spread(stride),
            spread(padding),
            spread(dilation),
            True,
            spread(output_padding),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _output_padding(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """What must be added to get the size that is asked for."""
        if output_size is None:
            return self.output_padding
        dims, before = self.dims, input.dim() - self.dims
        output_size = list(output_size)
        if len(output_size) == before + dims:
            output_size = output_size[before:]
        if len(output_size) != dims:
            raise ValueError(
                f"ConvTranspose{dims}D: for {input.dim()}D input, output_size must have {dims} or "
                f"{before + dims} elements (got {len(output_size)})"
            )
        smallest = [
            (input.size(i + before) - 1) * self.stride[i]
            - 2 * self.padding[i]
            + self.dilation[i] * (self.kernel_size[i] - 1)
            + 1
            for i in range(dims)
        ]
        largest = [low + s - 1 for low, s in zip(smallest, self.stride, strict=True)]
        for size, low, high in zip(output_size, smallest, largest, strict=True):
            if not low <= size <= high:
                raise ValueError(
                    f"requested an output size of {output_size}, but valid sizes range from "
                    f"{smallest} to {largest} (for an input of {input.size()[before:]})"
                )
        return tuple(size - low for size, low in zip(output_size, smallest, strict=True))

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        return getattr(F, self.op)(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            self._output_padding(input, output_size),
            self.groups,
            self.dilation,
        )


class ConvTranspose1d(_ConvTransposeNd):
    """The transposed convolution of (batch, channels, length).

    >>> import rushlight as torch
    >>> torch.nn.ConvTranspose1d(2, 3, kernel_size=4, stride=2)(torch.zeros(1, 2, 5)).shape
    torch.Size([1, 3, 12])
    """

    dims = 1
    op = "conv_transpose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """The transposed convolution of (batch, channels, height, width).

    >>> import rushlight as torch
    >>> torch.nn.ConvTranspose2d(8, 3, kernel_size=2, stride=2)(torch.zeros(4, 8, 5, 5)).shape
    torch.Size([4, 3, 10, 10])
    """

    dims = 2
    op = "conv_transpose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """The transposed convolution of (batch, channels, depth, height, width).

    >>> import rushlight as torch
    >>> torch.nn.ConvTranspose3d(2, 3, kernel_size=2, stride=2)(torch.zeros(1, 2, 3, 3, 3)).shape
    torch.Size([1, 3, 6, 6, 6])
    """

    dims = 3
    op = "conv_transpose3d"
