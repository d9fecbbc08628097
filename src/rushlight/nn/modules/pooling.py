"""Pooling: one value for each window."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _ntuple, _single

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
]  # fmt: skip


class _Pool(Module):
    """What pooling modules share: the name of their function."""

    op: str


class _MaxPoolNd(_Pool):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.op)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The largest value of each window of (batch, channels, length).

    >>> import rushlight as torch
    >>> torch.nn.MaxPool1d(2)(torch.arange(4.0).reshape(1, 1, 4))
    tensor([[[1., 3.]]])
    """

    op = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The largest value of each window of (batch, channels, height, width).

    >>> import rushlight as torch
    >>> torch.nn.MaxPool2d(2)(torch.arange(4.0).reshape(1, 1, 2, 2)).item()
    3.0
    """

    op = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The largest value of each window of (batch, channels, depth, height, width).

    >>> import rushlight as torch
    >>> torch.nn.MaxPool3d(2)(torch.zeros(1, 3, 4, 6, 6)).shape
    torch.Size([1, 3, 2, 3, 3])
    """

    op = "max_pool3d"


class _MaxUnpoolNd(_Pool):
    dims: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        spread = _ntuple(self.dims)
        self.kernel_size = spread(kernel_size)
        self.stride = spread(kernel_size if stride is None else stride)
        self.padding = spread(padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return getattr(F, self.op)(
            input, indices, self.kernel_size, self.stride, self.padding, output_size
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Puts values back where max_pool1d found them, among zeros.

    >>> import rushlight as torch
    >>> x = torch.tensor([[[1.0, 5.0, 2.0, 3.0]]])
    >>> pooled, indices = torch.nn.MaxPool1d(2, return_indices=True)(x)
    >>> torch.nn.MaxUnpool1d(2)(pooled, indices)
    tensor([[[0., 5., 0., 3.]]])
    """

    dims, op = 1, "max_unpool1d"


class MaxUnpool2d(_MaxUnpoolNd):
    """Puts values back where max_pool2d found them, among zeros.

    >>> import rushlight as torch
    >>> x = torch.arange(4.0).reshape(1, 1, 2, 2)
    >>> pooled, indices = torch.nn.MaxPool2d(2, return_indices=True)(x)
    >>> torch.nn.MaxUnpool2d(2)(pooled, indices).flatten()
    tensor([0., 0., 0., 3.])
    """

    dims, op = 2, "max_unpool2d"


class MaxUnpool3d(_MaxUnpoolNd):
    """Puts values back where max_pool3d found them, among zeros.

    >>> import rushlight as torch
    >>> x = torch.arange(8.0).reshape(1, 1, 2, 2, 2)
    >>> pooled, indices = torch.nn.MaxPool3d(2, return_indices=True)(x)
    >>> torch.nn.MaxUnpool3d(2)(pooled, indices).flatten()
    tensor([0., 0., 0., 0., 0., 0., 0., 7.])
    """

    dims, op = 3, "max_unpool3d"


class _AvgPoolNd(_Pool):
    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of (batch, channels, length).

    >>> import rushlight as torch
    >>> torch.nn.AvgPool1d(2)(torch.arange(4.0).reshape(1, 1, 4))
    tensor([[[0.5000, 2.5000]]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = _single(kernel_size if stride is None else stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )


class _AvgPoolOfAreas(_AvgPoolNd):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.op)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPoolOfAreas):
    """The mean of each window of (batch, channels, height, width).

    >>> import rushlight as torch
    >>> torch.nn.AvgPool2d(2)(torch.arange(4.0).reshape(1, 1, 2, 2)).item()
    1.5
    """

    op = "avg_pool2d"


class AvgPool3d(_AvgPoolOfAreas):
    """The mean of each window of (batch, channels, depth, height, width).

    >>> import rushlight as torch
    >>> torch.nn.AvgPool3d(2)(torch.zeros(1, 3, 4, 6, 6)).shape
    torch.Size([1, 3, 2, 3, 3])
    """

    op = "avg_pool3d"


class _FractionalMaxPool(_Pool):
    dims: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        spread = _ntuple(self.dims)
        self.kernel_size = spread(kernel_size)
        if any(k <= 0 for k in self.kernel_size):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else spread(output_size)
        self.output_ratio = None if output_ratio is None else spread(output_ratio)
        if output_size is None and output_ratio is None:
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, or a pooling "
                "ratio"
            )
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        if self.output_ratio is not None and not all(0 < r < 1 for r in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.op)(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Max pooling over windows whose places are drawn, to any smaller height and width.

    >>> import rushlight as torch
    >>> torch.nn.FractionalMaxPool2d(2, output_ratio=0.7)(torch.zeros(1, 3, 10, 10)).shape
    torch.Size([1, 3, 7, 7])
    """

    dims, op = 2, "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPool):
    """Max pooling over windows whose places are drawn, to any smaller depth, height and width.

    >>> import rushlight as torch
    >>> torch.nn.FractionalMaxPool3d(2, output_size=5)(torch.zeros(1, 3, 8, 8, 8)).shape
    torch.Size([1, 3, 5, 5, 5])
    """

    dims, op = 3, "fractional_max_pool3d"


class _LPPoolNd(_Pool):
    def __init__(
        self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self.op)(
            input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode
        )

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPoolNd):
    """The power sum of each window of (batch, channels, length).

    >>> import rushlight as torch
    >>> torch.nn.LPPool1d(2, kernel_size=2)(torch.tensor([[3.0, 4.0, 5.0, 12.0]]))
    tensor([[ 5., 13.]])
    """

    op = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """The power sum of each window of (batch, channels, height, width).

    >>> import rushlight as torch
    >>> torch.nn.LPPool2d(1, kernel_size=2)(torch.ones(1, 1, 2, 4))
    tensor([[[[4., 4.]]]])
    """

    op = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """The power sum of each window of (batch, channels, depth, height, width).

    >>> import rushlight as torch
    >>> torch.nn.LPPool3d(1, kernel_size=2)(torch.ones(1, 1, 2, 2, 2)).item()
    8.0
    """

    op = "lp_pool3d"


class _AdaptivePool(_Pool):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPoolNd(_AdaptivePool):
    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.op)(input, self.output_size)


class _AdaptiveMaxPoolNd(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self.op)(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max pooling to a length of ``output_size``.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveMaxPool1d(2)(torch.arange(4.0).reshape(1, 1, 4))
    tensor([[[1., 3.]]])
    """

    op = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling to a height and width of ``output_size``; None keeps a dimension.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveMaxPool2d(1)(torch.arange(4.0).reshape(1, 1, 2, 2)).item()
    3.0
    """

    op = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling to a depth, height and width of ``output_size``.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveMaxPool3d((1, 2, 2))(torch.zeros(1, 3, 4, 6, 6)).shape
    torch.Size([1, 3, 1, 2, 2])
    """

    op = "adaptive_max_pool3d"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Mean pooling to a length of ``output_size``.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveAvgPool1d(2)(torch.arange(4.0).reshape(1, 1, 4))
    tensor([[[0.5000, 2.5000]]])
    """

    op = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Mean pooling to a height and width of ``output_size``; None keeps a dimension.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveAvgPool2d(1)(torch.arange(4.0).reshape(1, 1, 2, 2)).item()
    1.5
    """

    op = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Mean pooling to a depth, height and width of ``output_size``.

    >>> import rushlight as torch
    >>> torch.nn.AdaptiveAvgPool3d((1, 2, 2))(torch.zeros(1, 3, 4, 6, 6)).shape
    torch.Size([1, 3, 1, 2, 2])
    """

    op = "adaptive_avg_pool3d"
