"""Activations."""

from __future__ import annotations

from rushlight import _C, _ops
from rushlight.nn import functional as F
from rushlight.nn import init as _init
from rushlight.nn.modules._multihead import MultiheadAttention
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh",
    "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU",
    "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink",
    "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip


class _Activation(Module):
    """What activations share: printing of ``inplace``."""

    inplace: bool

    def _with_inplace(self, text: str) -> str:
        return f"{text}, inplace=True" if self.inplace else text


class _InplaceActivation(_Activation):
    """An activation whose only argument is ``inplace``."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class ReLU(_InplaceActivation):
    """``max(x, 0)``.

    >>> import rushlight as torch
    >>> torch.nn.ReLU()(torch.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class SiLU(_InplaceActivation):
    """``x * sigmoid(x)``.

    >>> import rushlight as torch
    >>> torch.nn.SiLU()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-0.2384,  0.0000,  2.8577])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InplaceActivation):
    """``x * tanh(softplus(x))``.

    >>> import rushlight as torch
    >>> torch.nn.Mish()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-0.2525,  0.0000,  2.9865])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class SELU(_InplaceActivation):
    """The scaled exponential unit that keeps mean and variance.

    >>> import rushlight as torch
    >>> torch.nn.SELU()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-1.5202,  0.0000,  3.1521])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class Hardsigmoid(_InplaceActivation):
    """``relu6(x + 3) / 6``.

    >>> import rushlight as torch
    >>> torch.nn.Hardsigmoid()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([0.1667, 0.5000, 1.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Hardswish(_InplaceActivation):
    """``x * relu6(x + 3) / 6``.

    >>> import rushlight as torch
    >>> torch.nn.Hardswish()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-0.3333,  0.0000,  3.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)

    def extra_repr(self) -> str:
        return ""


class Threshold(_Activation):
    """``x`` where it exceeds ``threshold``, else ``value``.

    >>> import rushlight as torch
    >>> torch.nn.Threshold(1.0, 20.0)(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([20., 20.,  3.])
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"threshold={self.threshold}, value={self.value}")


class RReLU(_Activation):
    """A leaky ReLU whose slope is drawn from [lower, upper] while training.

    >>> import rushlight as torch
    >>> torch.nn.RReLU(0.1, 0.3).eval()(torch.tensor([-1.0, 2.0]))
    tensor([-0.2000,  2.0000])
    """

    def __init__(
        self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False
    ) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"lower={self.lower}, upper={self.upper}")


class Hardtanh(_Activation):
    """``x`` held between ``min_val`` and ``max_val``.

    >>> import rushlight as torch
    >>> torch.nn.Hardtanh(-1.0, 1.0)(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-1.,  0.,  1.])
    """

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        for old, new, given in (
            ("min_value", "min_val", min_value),
            ("max_value", "max_val", max_value),
        ):
            if given is not None:
                import warnings

                warnings.warn(
                    f"keyword argument `{old}` is deprecated and renamed to `{new}`",
                    FutureWarning,
                    stacklevel=2,
                )
        self.min_val = min_val if min_value is None else min_value
        self.max_val = max_val if max_value is None else max_value
        self.inplace = inplace
        if self.max_val <= self.min_val:
            raise AssertionError(
                f"max_val ({self.max_val}) must be greater than min_val ({self.min_val})"
            )

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"min_val={self.min_val}, max_val={self.max_val}")


class ReLU6(Hardtanh):
    """``min(max(x, 0), 6)``.

    >>> import rushlight as torch
    >>> torch.nn.ReLU6()(torch.tensor([-2.0, 3.0, 8.0]))
    tensor([0., 3., 6.])
    """

    def __init__(self, inplace: bool = False) -> None:
        super().__init__(0.0, 6.0, inplace)

    def extra_repr(self) -> str:
        return "inplace=True" if self.inplace else ""


class _ExponentialUnit(_Activation):
    """An activation with a factor ``alpha``."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def extra_repr(self) -> str:
        return self._with_inplace(f"alpha={self.alpha}")


class ELU(_ExponentialUnit):
    """``x`` where positive, else ``alpha * (exp(x) - 1)``.

    >>> import rushlight as torch
    >>> torch.nn.ELU()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-0.8647,  0.0000,  3.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)


class CELU(_ExponentialUnit):
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``.

    >>> import rushlight as torch
    >>> torch.nn.CELU()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-0.8647,  0.0000,  3.0000])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class LeakyReLU(_Activation):
    """``x`` where positive, else ``negative_slope * x``.

    >>> import rushlight as torch
    >>> torch.nn.LeakyReLU(0.1)(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-0.2000,  0.0000,  3.0000])
    """

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return self._with_inplace(f"negative_slope={self.negative_slope}")


class Sigmoid(Module):
    """``1 / (1 + exp(-x))``.

    >>> import rushlight as torch
    >>> torch.nn.Sigmoid()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([0.1192, 0.5000, 0.9526])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _ops.sigmoid(input)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> import rushlight as torch
    >>> torch.nn.Tanh()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-0.9640,  0.0000,  0.9951])
    """

    def forward(self, input: Tensor) -> Tensor:
        return _ops.tanh(input)


class LogSigmoid(Module):
    """``log(sigmoid(x))``.

    >>> import rushlight as torch
    >>> torch.nn.LogSigmoid()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-2.1269, -0.6931, -0.0486])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Softsign(Module):
    """``x / (1 + |x|)``.

    >>> import rushlight as torch
    >>> torch.nn.Softsign()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-0.6667,  0.0000,  0.7500])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """``x - tanh(x)``.

    >>> import rushlight as torch
    >>> torch.nn.Tanhshrink()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-1.0360,  0.0000,  2.0049])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class GLU(Module):
    """The first half of a dimension times the sigmoid of the second.

    >>> import rushlight as torch
    >>> torch.nn.GLU()(torch.tensor([3.0, 4.0, 0.0, 100.0]))
    tensor([1.5000, 4.0000])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class GELU(Module):
    """``x`` times the share of a normal distribution below it; ``approximate`` may be "tanh".

    >>> import rushlight as torch
    >>> torch.nn.GELU()(torch.tensor([-2.0, 0.0, 1.0]))
    tensor([-0.0455,  0.0000,  0.8413])
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class _Shrink(Module):
    """An activation that is zero near zero."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(_Shrink):
    """``x`` where its magnitude exceeds ``lambd``, else 0.

    >>> import rushlight as torch
    >>> torch.nn.Hardshrink(1.0)(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-2.,  0.,  3.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softshrink(_Shrink):
    """``x`` moved towards 0 by ``lambd``, and 0 where it is nearer.

    >>> import rushlight as torch
    >>> torch.nn.Softshrink(1.0)(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-1.,  0.,  2.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)


class Softplus(Module):
    """``log(1 + exp(beta * x)) / beta``, and ``x`` where ``beta * x`` exceeds ``threshold``.

    >>> import rushlight as torch
    >>> torch.nn.Softplus()(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([0.1269, 0.6931, 3.0486])
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return f"beta={self.beta}, threshold={self.threshold}"


class PReLU(Module):
    """A leaky ReLU whose slope is learned, for all channels or each.

    >>> import rushlight as torch
    >>> torch.nn.PReLU()(torch.tensor([-4.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        empty = _C._namespaces[""]["empty"]
        self.weight = Parameter(empty(num_parameters, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sets the slope to its initial value."""
        _init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class _AlongDim(Module):
    """A function along one dimension."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Softmax(_AlongDim):
    """``exp(x)`` over its sum along ``dim``.

    >>> import rushlight as torch
    >>> torch.nn.Softmax(dim=0)(torch.zeros(2)).tolist()
    [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmax(input, self.dim, 5)


class Softmin(_AlongDim):
    """The softmax of ``-x`` along ``dim``.

    >>> import rushlight as torch
    >>> torch.nn.Softmin(dim=0)(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([0.8756, 0.1185, 0.0059])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.softmin(input, self.dim, 5)


class LogSoftmax(_AlongDim):
    """The logarithm of the softmax along ``dim``.

    >>> import rushlight as torch
    >>> torch.nn.LogSoftmax(dim=0)(torch.tensor([-2.0, 0.0, 3.0]))
    tensor([-5.0550, -3.0550, -0.0550])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.log_softmax(input, self.dim, 5)


class Softmax2d(Module):
    """The softmax over the channels of each pixel.

    >>> import rushlight as torch
    >>> torch.nn.Softmax2d()(torch.zeros(1, 4, 1, 1)).flatten()
    tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(
                f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead"
            )
        return F.softmax(input, -3, 5)
