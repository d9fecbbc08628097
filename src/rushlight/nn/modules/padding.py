"""Padding: wider inputs."""

from __future__ import annotations

from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _ntuple

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from rushlight import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d",
    "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    """Pads ``dims`` dimensions; ``padding`` is one width or two per dimension, last one first."""

    dims: int
    mode: str

    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self.dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _CircularPadNd(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (self.dims + 1, self.dims + 2):
            raise ValueError(
                f"expected {self.dims + 1}D or {self.dims + 2}D input (got {input.dim()}D input)"
            )
        return F.pad(input, self.padding, self.mode)


class CircularPad1d(_CircularPadNd):
    """Continues the last dimension with its other end.

    >>> import rushlight as torch
    >>> torch.nn.CircularPad1d(1)(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3., 1., 2., 3., 1.]]])
    """

    dims = 1


class CircularPad2d(_CircularPadNd):
    """Continues the last two dimensions with their other ends.

    >>> import rushlight as torch
    >>> torch.nn.CircularPad2d((1, 1, 0, 0))(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[3., 1., 2., 3., 1.]]]])
    """

    dims = 2


class CircularPad3d(_CircularPadNd):
    """Continues the last three dimensions with their other ends.

    >>> import rushlight as torch
    >>> torch.nn.CircularPad3d(1)(torch.zeros(1, 1, 2, 3, 4)).shape
    torch.Size([1, 1, 4, 5, 6])
    """

    dims = 3


class _ConstantPadNd(_Pad):
    mode = "constant"

    def __init__(self, padding: int | tuple[int, ...], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPadNd):
    """Continues the last dimension with one value.

    >>> import rushlight as torch
    >>> torch.nn.ConstantPad1d((1, 2), 7.0)(torch.zeros(1, 1)).tolist()
    [[7.0, 0.0, 7.0, 7.0]]
    """

    dims = 1


class ConstantPad2d(_ConstantPadNd):
    """Continues the last two dimensions with one value.

    >>> import rushlight as torch
    >>> torch.nn.ConstantPad2d((1, 0, 0, 0), 5.0)(torch.ones(1, 1, 1, 2))
    tensor([[[[5., 1., 1.]]]])
    """

    dims = 2


class ConstantPad3d(_ConstantPadNd):
    """Continues the last three dimensions with one value.

    >>> import rushlight as torch
    >>> torch.nn.ConstantPad3d(1, 5.0)(torch.zeros(1, 1, 2, 3, 4)).shape
    torch.Size([1, 1, 4, 5, 6])
    """

    dims = 3


class _ZeroPad(_ConstantPadNd):
    def __init__(self, padding: int | tuple[int, ...]) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Continues the last dimension with zeros.

    >>> import rushlight as torch
    >>> torch.nn.ZeroPad1d((0, 2))(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[1., 2., 3., 0., 0.]]])
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Continues the last two dimensions with zeros.

    >>> import rushlight as torch
    >>> torch.nn.ZeroPad2d((1, 1, 0, 0))(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[0., 1., 2., 3., 0.]]]])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Continues the last three dimensions with zeros.

    >>> import rushlight as torch
    >>> torch.nn.ZeroPad3d(1)(torch.zeros(1, 1, 2, 3, 4)).shape
    torch.Size([1, 1, 4, 5, 6])
    """


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class ReflectionPad1d(_ReflectionPadNd):
    """Continues the last dimension with its mirror image.

    >>> import rushlight as torch
    >>> torch.nn.ReflectionPad1d(2)(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[3., 2., 1., 2., 3., 2., 1.]]])
    """

    dims = 1


class ReflectionPad2d(_ReflectionPadNd):
    """Continues the last two dimensions with their mirror image.

    >>> import rushlight as torch
    >>> torch.nn.ReflectionPad2d((1, 1, 0, 0))(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[2., 1., 2., 3., 2.]]]])
    """

    dims = 2


class ReflectionPad3d(_ReflectionPadNd):
    """Continues the last three dimensions with their mirror image.

    >>> import rushlight as torch
    >>> torch.nn.ReflectionPad3d(1)(torch.zeros(1, 1, 2, 3, 4)).shape
    torch.Size([1, 1, 4, 5, 6])
    """

    dims = 3


class ReplicationPad1d(_ReplicationPadNd):
    """Continues the last dimension with its end values.

    >>> import rushlight as torch
    >>> torch.nn.ReplicationPad1d(2)(torch.tensor([[[1.0, 2.0, 3.0]]]))
    tensor([[[1., 1., 1., 2., 3., 3., 3.]]])
    """

    dims = 1


class ReplicationPad2d(_ReplicationPadNd):
    """Continues the last two dimensions with their end values.

    >>> import rushlight as torch
    >>> torch.nn.ReplicationPad2d((1, 1, 0, 0))(torch.tensor([[[[1.0, 2.0, 3.0]]]]))
    tensor([[[[1., 1., 2., 3., 3.]]]])
    """

    dims = 2


class ReplicationPad3d(_ReplicationPadNd):
    """Continues the last three dimensions with their end values.

    >>> import rushlight as torch
    >>> torch.nn.ReplicationPad3d(1)(torch.zeros(1, 1, 2, 3, 4)).shape
    torch.Size([1, 1, 4, 5, 6])
    """

    dims = 3
