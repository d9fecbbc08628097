"""Filling tensors with initial values."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight.autograd.grad_mode import no_grad

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rushlight import Generator, Tensor

_ops = _C._namespaces[""]

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal",
    "kaiming_normal_", "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_",
    "orthogonal", "orthogonal_", "sparse", "sparse_", "trunc_normal_", "uniform", "uniform_",
    "xavier_normal", "xavier_normal_", "xavier_uniform", "xavier_uniform_", "zeros_",
]  # fmt: skip


def _warn(text: str) -> None:
    import warnings

    warnings.warn(text, stacklevel=3)


def calculate_gain(nonlinearity: str, param: Any = None) -> float:
    """The factor by which a nonlinearity's inputs should be scaled.

    >>> import rushlight as torch
    >>> torch.nn.init.calculate_gain("leaky_relu", 0.2)
    1.3867504905630728
    """
    linear = ("linear", "conv1d", "conv2d", "conv3d")
    transposed = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
    if nonlinearity in (*linear, *transposed, "sigmoid"):
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity == "selu":
        return 3.0 / 4
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform numbers between ``a`` and ``b``.

    >>> import rushlight as torch
    >>> w = torch.nn.init.uniform_(torch.empty(1000), 2.0, 3.0)
    >>> 2 <= w.min().item() <= w.max().item() <= 3
    True
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Normal numbers of a mean and a standard deviation.

    >>> import rushlight as torch
    >>> w = torch.nn.init.normal_(torch.empty(1000), mean=5.0, std=0.1)
    >>> round(w.mean().item(), 1)
    5.0
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def _normal_share(x: float) -> float:
    """The share of a standard normal distribution below x."""
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal numbers of which those outside of [a, b] are drawn again.

    >>> import rushlight as torch
    >>> w = torch.nn.init.trunc_normal_(torch.empty(1000), a=-0.5, b=0.5)
    >>> w.abs().max().item() <= 0.5
    True
    """
    if mean < a - 2 * std or mean > b + 2 * std:
        _warn(
            "mean is more than 2 std from [a, b] in nn.init.trunc_normal_. "
            "The distribution of values may be incorrect."
        )
    share = _normal_share((b - mean) / std) - _normal_share((a - mean) / std)
    with no_grad():
        if share > 0.3:
            return _redraw_outside(tensor, mean, std, a, b, generator)
        return _reject_uniform(tensor, mean, std, a, b, generator)


def _redraw_outside(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None
) -> Tensor:
    low, high = tensor.new_tensor(a).item(), tensor.new_tensor(b).item()
    tensor.normal_(mean, std, generator=generator)
    while True:
        outside = (tensor < low) | (tensor > high)
        if not outside.any():
            return tensor
        again = _ops["empty_like"](tensor).normal_(mean, std, generator=generator)
        tensor.copy_(_ops["where"](outside, again, tensor))


def _reject_uniform(
    tensor: Tensor, mean: float, std: float, a: float, b: float, generator: Generator | None
) -> Tensor:
    """For intervals far from the mean: uniform numbers, kept in proportion to their density."""
    peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
    pending = None
    while True:
        drawn = _ops["empty_like"](tensor).uniform_(a, b, generator=generator)
        tensor.copy_(drawn if pending is None else _ops["where"](pending, drawn, tensor))
        density = ((drawn - mean) / std) ** 2 * -0.5 - peak
        rejected = _ops["empty_like"](tensor).uniform_(generator=generator).log_() > density
        pending = rejected if pending is None else pending & rejected
        if not pending.any():
            return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One number everywhere.

    >>> import rushlight as torch
    >>> torch.nn.init.constant_(torch.empty(2), 0.5)
    tensor([0.5000, 0.5000])
    """
    with no_grad():
        return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Ones everywhere.

    >>> import rushlight as torch
    >>> torch.nn.init.ones_(torch.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Zeros everywhere.

    >>> import rushlight as torch
    >>> torch.nn.init.zeros_(torch.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """The identity matrix.

    >>> import rushlight as torch
    >>> torch.nn.init.eye_(torch.empty(2, 3))
    tensor([[1., 0., 0.],
            [0., 1., 0.]])
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    with no_grad():
        return tensor.copy_(_ops["eye"](*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Convolution weights that give the input channels back, as many as there are.

    >>> import rushlight as torch
    >>> torch.nn.init.dirac_(torch.empty(2, 2, 3))[0]
    tensor([[0., 1., 0.],
            [0., 0., 0.]])
    """
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    per_group = tensor.size(0) // groups
    middle = tuple(n // 2 for n in tensor.shape[2:])
    with no_grad():
        tensor.zero_()
        for group in range(groups):
            for d in range(min(per_group, tensor.size(1))):
                tensor[(group * per_group + d, d, *middle)] = 1
    return tensor


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    if tensor.dim() < 2:
        raise ValueError(
            "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor: Tensor, mode: str) -> int:
    mode = mode.lower()
    valid = ["fan_in", "fan_out"]
    if mode not in valid:
        raise ValueError(f"Mode {mode} not supported, please use one of {valid}")
    return _calculate_fan_in_and_fan_out(tensor)[valid.index(mode)]


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Glorot's uniform numbers: within gain * sqrt(6 / (fan_in + fan_out)).

    >>> import rushlight as torch
    >>> w = torch.nn.init.xavier_uniform_(torch.empty(3, 3))
    >>> w.abs().max().item() <= 1.0
    True
    """
    bound = math.sqrt(3.0) * gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Glorot's normal numbers: of deviation gain * sqrt(2 / (fan_in + fan_out)).

    >>> import rushlight as torch
    >>> w = torch.nn.init.xavier_normal_(torch.empty(400, 400))
    >>> round(w.std().item() * 20, 1)  # sqrt(2 / 800) is 1 / 20
    1.0
    """
    std = gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return normal_(tensor, 0.0, std, generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """He's uniform numbers: within gain * sqrt(3 / fan).

    >>> import rushlight as torch
    >>> w = torch.nn.init.kaiming_uniform_(torch.empty(64, 100), a=5**0.5)
    >>> w.abs().max().item() <= 0.1
    True
    """
    if 0 in tensor.shape:
        _warn("Initializing zero-element tensors is a no-op")
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    bound = math.sqrt(3.0) * std
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """He's normal numbers: of deviation gain / sqrt(fan).

    >>> import rushlight as torch
    >>> w = torch.nn.init.kaiming_normal_(torch.empty(256, 512), nonlinearity="relu")
    >>> round(w.std().item() * 16, 1)  # sqrt(2 / 512) is 1 / 16
    1.0
    """
    if 0 in tensor.shape:
        _warn("Initializing zero-element tensors is a no-op")
        return tensor
    std = calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return normal_(tensor, 0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A matrix of orthonormal rows or columns; further dimensions are seen as one.

    >>> import rushlight as torch
    >>> w = torch.nn.init.orthogonal_(torch.empty(3, 5))
    >>> torch.allclose(w @ w.T, torch.eye(3), atol=1e-5)
    True
    """
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    from rushlight.nn._householder import orthonormal

    rows, cols = tensor.size(0), tensor.numel() // tensor.size(0)
    with no_grad():
        drawn = tensor.new_empty((rows, cols)).normal_(0, 1, generator=generator)
        wide = drawn.double()
        q = orthonormal(wide.t()).t() if rows < cols else orthonormal(wide)
        return tensor.copy_(q.reshape(tensor.shape)).mul_(gain)


def sparse_(
    tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None
) -> Tensor:
    """Normal numbers with a share of zeros in each column.

    >>> import rushlight as torch
    >>> w = torch.nn.init.sparse_(torch.empty(10, 4), sparsity=0.3)
    >>> (w == 0).sum(dim=0)
    tensor([3, 3, 3, 3])
    """
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, cols = tensor.shape
    zeros = math.ceil(sparsity * rows)
    with no_grad():
        tensor.normal_(0, std, generator=generator)
        for col in range(cols):
            tensor[_ops["randperm"](rows)[:zeros], col] = 0
    return tensor


def _deprecated(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    new = function.__name__
    old = new[:-1]

    def call(*args: Any, **kwargs: Any) -> Tensor:
        import warnings

        warnings.warn(
            f"`nn.init.{old}` is now deprecated in favor of `nn.init.{new}`.",
            FutureWarning,
            stacklevel=2,
        )
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Deprecated: use :func:`{new}`."
    return call


uniform = _deprecated(uniform_)
normal = _deprecated(normal_)
constant = _deprecated(constant_)
eye = _deprecated(eye_)
dirac = _deprecated(dirac_)
xavier_uniform = _deprecated(xavier_uniform_)
xavier_normal = _deprecated(xavier_normal_)
kaiming_uniform = _deprecated(kaiming_uniform_)
kaiming_normal = _deprecated(kaiming_normal_)
orthogonal = _deprecated(orthogonal_)
sparse = _deprecated(sparse_)

# By the names of what they call in PyTorch.
_no_grad_uniform_, _no_grad_normal_, _no_grad_fill_ = uniform_, normal_, constant_
_no_grad_zero_ = zeros_
