"""A layer and the batch norm behind it as one layer."""

from __future__ import annotations

from rushlight import _C
from rushlight.nn.parameter import Parameter

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights",
]  # fmt: skip

_ops = _C._namespaces[""]


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """A convolution that does what ``bn(conv(x))`` does in evaluation mode.

    >>> import rushlight as torch
    >>> conv, bn = torch.nn.Conv2d(3, 4, 3).eval(), torch.nn.BatchNorm2d(4).eval()
    >>> fused = torch.nn.utils.fuse_conv_bn_eval(conv, bn)
    >>> x = torch.ones(1, 3, 5, 5)
    >>> torch.allclose(fused(x), bn(conv(x)), atol=1e-6)
    True
    """
    from copy import deepcopy

    _check(conv, bn)
    fused = deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias,
        transpose,
    )  # fmt: skip
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and the bias of a convolution with a batch norm in it.

    >>> import rushlight as torch
    >>> conv, bn = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
    >>> statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    >>> weight, bias = torch.nn.utils.fuse_conv_bn_weights(conv.weight, conv.bias, *statistics)
    >>> weight.shape, bias.shape
    (torch.Size([4, 3, 3, 3]), torch.Size([4]))
    """
    bias = _ops["zeros_like"](bn_rm) if conv_b is None else conv_b
    scale = (bn_rv + bn_eps).rsqrt()
    if bn_w is not None:
        scale = scale * bn_w
    shape = [1] * conv_w.dim()
    shape[1 if transpose else 0] = -1
    weight = (conv_w * scale.reshape(shape)).to(conv_w.dtype)
    shifted = (bias - bn_rm) * scale
    if bn_b is not None:
        shifted = shifted + bn_b
    shifted = shifted.to(conv_w.dtype if conv_b is None else conv_b.dtype)
    return Parameter(weight, conv_w.requires_grad), Parameter(shifted, bias.requires_grad)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """A linear layer that does what ``bn(linear(x))`` does in evaluation mode.

    >>> import rushlight as torch
    >>> linear, bn = torch.nn.Linear(3, 4).eval(), torch.nn.BatchNorm1d(4).eval()
    >>> fused = torch.nn.utils.fuse_linear_bn_eval(linear, bn)
    >>> x = torch.ones(2, 3)
    >>> torch.allclose(fused(x), bn(linear(x)), atol=1e-6)
    True
    """
    from copy import deepcopy

    _check(linear, bn)
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={linear.out_features} and bn.num_features={bn.num_features}"
        )
    fused = deepcopy(linear)
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """The weight and the bias of a linear layer with a batch norm in it.

    >>> import rushlight as torch
    >>> linear, bn = torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)
    >>> statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    >>> fuse = torch.nn.utils.fuse_linear_bn_weights
    >>> weight, bias = fuse(linear.weight, linear.bias, *statistics)
    >>> weight.shape, bias.shape
    (torch.Size([4, 3]), torch.Size([4]))
    """
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)
