"""Gradients of convolutions by themselves, as functions of the gradient of the output.

>>> import rushlight as torch
>>> weight, grad = torch.ones(1, 1, 2), torch.tensor([[[1.0, 10.0]]])
>>> torch.nn.grad.conv1d_input((1, 1, 3), weight, grad)
tensor([[[ 1., 11., 10.]]])
"""

from __future__ import annotations

from rushlight import _C
from rushlight.nn import functional as F

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight._C import Tensor

__all__ = [
    "conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input",
    "conv3d_weight",
]  # fmt: skip

_ops = _C._namespaces[""]


def _gradient(
    of: Tensor, output: Callable[[Tensor], Tensor], grad_output: Tensor, other: Tensor
) -> Tensor:
    """The gradient of a linear function at any point, with a graph where one is wanted."""
    from rushlight.autograd import enable_grad, grad

    with enable_grad():
        result = output(of.requires_grad_())
    wanted = _C.is_grad_enabled() and (grad_output.requires_grad or other.requires_grad)
    found: Tensor = grad(result, of, grad_output, create_graph=wanted)[0]
    return found


def _of_input(conv: Any, size: Any, weight: Tensor, grad_output: Tensor, *options: Any) -> Tensor:
    zeros = _ops["zeros"](tuple(size), dtype=weight.dtype, device=weight.device)
    return _gradient(zeros, lambda x: conv(x, weight, None, *options), grad_output, weight)


def _of_weight(conv: Any, input: Tensor, size: Any, grad_output: Tensor, *options: Any) -> Tensor:
    zeros = _ops["zeros"](tuple(size), dtype=input.dtype, device=input.device)
    return _gradient(zeros, lambda w: conv(input, w, None, *options), grad_output, input)


def conv1d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv1d`` with respect to an input of this size.

    >>> import rushlight as torch
    >>> weight, grad = torch.full((1, 1, 1), 3.0), torch.full((1, 1, 1), 2.0)
    >>> torch.nn.grad.conv1d_input((1, 1, 1), weight, grad).item()
    6.0
    """
    options = (stride, padding, dilation, groups)
    return _of_input(F.conv1d, input_size, weight, grad_output, *options)


def conv1d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv1d`` with respect to a weight of this size.

    >>> import rushlight as torch
    >>> input, grad = torch.full((1, 1, 1), 5.0), torch.full((1, 1, 1), 2.0)
    >>> torch.nn.grad.conv1d_weight(input, (1, 1, 1), grad).item()
    10.0
    """
    options = (stride, padding, dilation, groups)
    return _of_weight(F.conv1d, input, weight_size, grad_output, *options)


def conv2d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv2d`` with respect to an input of this size.

    >>> import rushlight as torch
    >>> weight, grad = torch.full((1, 1, 1, 1), 3.0), torch.full((1, 1, 1, 1), 2.0)
    >>> torch.nn.grad.conv2d_input((1, 1, 1, 1), weight, grad).item()
    6.0
    """
    options = (stride, padding, dilation, groups)
    return _of_input(F.conv2d, input_size, weight, grad_output, *options)


def conv2d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv2d`` with respect to a weight of this size.

    >>> import rushlight as torch
    >>> input, grad = torch.full((1, 1, 1, 1), 5.0), torch.full((1, 1, 1, 1), 2.0)
    >>> torch.nn.grad.conv2d_weight(input, (1, 1, 1, 1), grad).item()
    10.0
    """
    options = (stride, padding, dilation, groups)
    return _of_weight(F.conv2d, input, weight_size, grad_output, *options)


def conv3d_input(
    input_size: Any,
    weight: Tensor,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv3d`` with respect to an input of this size.

    >>> import rushlight as torch
    >>> weight, grad = torch.full((1, 1, 1, 1, 1), 3.0), torch.full((1, 1, 1, 1, 1), 2.0)
    >>> torch.nn.grad.conv3d_input((1, 1, 1, 1, 1), weight, grad).item()
    6.0
    """
    options = (stride, padding, dilation, groups)
    return _of_input(F.conv3d, input_size, weight, grad_output, *options)


def conv3d_weight(
    input: Tensor,
    weight_size: Any,
    grad_output: Tensor,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of ``conv3d`` with respect to a weight of this size.

    >>> import rushlight as torch
    >>> input, grad = torch.full((1, 1, 1, 1, 1), 5.0), torch.full((1, 1, 1, 1, 1), 2.0)
    >>> torch.nn.grad.conv3d_weight(input, (1, 1, 1, 1, 1), grad).item()
    10.0
    """
    options = (stride, padding, dilation, groups)
    return _of_weight(F.conv3d, input, weight_size, grad_output, *options)
