"""Pooling, resampling and folding: arguments of ``nn.functional`` that choose among ops."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._redirect import foreign, redirect

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    Ints = int | Sequence[int]

__all__ = [
    "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "fold", "interpolate", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d", "max_unpool2d", "max_unpool3d",
    "unfold", "upsample", "upsample_bilinear", "upsample_nearest",
]  # fmt: skip

_ops = _C._namespaces[""]
_functional = _C._namespaces["nn.functional"]
_max_pools = [_ops[f"max_pool{n}d"] for n in (1, 2, 3)]
_max_pools_with_indices = [_functional[f"max_pool{n}d_with_indices"] for n in (1, 2, 3)]
_max_pool1d, _max_pool2d, _max_pool3d = _max_pools


def _tuple(value: Any, n: int) -> list[int]:
    """One int for all dimensions, or a sequence as it is."""
    return list(value) if isinstance(value, (tuple, list)) else [value] * n


# -- maxima ---------------------------------------------------------------------------------------


def max_pool1d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window over the last dimension, and where it is if asked for.

    >>> import rushlight as torch
    >>> torch.nn.functional.max_pool1d(torch.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
    tensor([[3., 4.]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(max_pool1d, locals())
    if return_indices:
        return _max_pools_with_indices[0](input, kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window over the last two dimensions, and where it is if asked for.

    >>> import rushlight as torch
    >>> x = torch.arange(16.0).reshape(1, 4, 4)
    >>> torch.nn.functional.max_pool2d(x, 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(max_pool2d, locals())
    if return_indices:
        return _max_pools_with_indices[1](input, kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(
    input: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    dilation: Ints = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The maximum of each window over the last three dimensions, and where it is if asked for.

    >>> import rushlight as torch
    >>> torch.nn.functional.max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 2)
    tensor([[[[7.]]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(max_pool3d, locals())
    if return_indices:
        return _max_pools_with_indices[2](input, kernel_size, stride, padding, dilation, ceil_mode)
    return _max_pool3d(input, kernel_size, stride, padding, dilation, ceil_mode)


def _output_sizes(input: Tensor, output_size: Any, n: int) -> Any:
    """``output_size`` with the input's own sizes for None."""
    if isinstance(output_size, (tuple, list)) and None in output_size:
        if input.dim() <= len(output_size):
            raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
        own = input.shape[-len(output_size) :]
        return [o if o is not None else s for o, s in zip(output_size, own, strict=True)]
    return _tuple(output_size, n)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of ``output_size`` windows that cover the last dimension.

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_max_pool1d(torch.tensor([[1.0, 5.0, 2.0, 4.0]]), 2)
    tensor([[5., 4.]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(adaptive_max_pool1d, locals())
    op = _functional["adaptive_max_pool1d_with_indices"]
    values, indices = op(input, _output_sizes(input, output_size, 1))
    return (values, indices) if return_indices else values


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of a grid of windows that covers the last two dimensions; None keeps a size.

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_max_pool2d(torch.arange(4.0).reshape(1, 2, 2), (None, 1))
    tensor([[[1.],
             [3.]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(adaptive_max_pool2d, locals())
    op = _functional["adaptive_max_pool2d_with_indices"]
    values, indices = op(input, _output_sizes(input, output_size, 2))
    return (values, indices) if return_indices else values


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """The maxima of a grid of windows that covers the last three dimensions; None keeps a size.

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_max_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[7.]]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(adaptive_max_pool3d, locals())
    op = _functional["adaptive_max_pool3d_with_indices"]
    values, indices = op(input, _output_sizes(input, output_size, 3))
    return (values, indices) if return_indices else values


def _unpooled_size(
    input: Tensor, kernel: list[int], stride: list[int], padding: list[int], output_size: Any
) -> list[int]:
    n = len(kernel)
    own = input.shape[-n:]
    usual = [(own[d] - 1) * stride[d] + kernel[d] - 2 * padding[d] for d in range(n)]
    if output_size is None:
        return usual
    sizes = list(output_size)
    if len(sizes) == n + 2:
        sizes = sizes[2:]
    if len(sizes) != n:
        raise ValueError(
            f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a "
            f"length of '{len(sizes)}'"
        )
    for d in range(n):
        low, high = usual[d] - stride[d], usual[d] + stride[d]
        if not low < sizes[d] < high:
            raise ValueError(
                f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})'
            )
    return sizes


def _max_unpool(
    n: int, input: Tensor, indices: Tensor, kernel: Any, stride: Any, padding: Any, size: Any
) -> Tensor:
    kernel = _tuple(kernel, n)
    stride = kernel if stride is None or stride == () else _tuple(stride, n)
    sizes = _unpooled_size(input, kernel, stride, _tuple(padding, n), size)
    if n == 1:
        flat = _ops["_max_unpool2d"](input.unsqueeze(-1), indices.unsqueeze(-1), [sizes[0], 1])
        return flat.squeeze(-1)
    return _ops[f"_max_unpool{n}d"](input, indices, sizes)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts the maxima of ``max_pool1d`` back where they were, among zeros.

    >>> import rushlight as torch
    >>> F = torch.nn.functional
    >>> values, indices = F.max_pool1d(torch.tensor([[1.0, 3.0, 4.0, 2.0]]), 2, return_indices=True)
    >>> F.max_unpool1d(values, indices, 2)
    tensor([[0., 3., 4., 0.]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(max_unpool1d, locals())
    return _max_unpool(1, input, indices, kernel_size, stride, padding, output_size)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts the maxima of ``max_pool2d`` back where they were, among zeros.

    >>> import rushlight as torch
    >>> F = torch.nn.functional
    >>> values, indices = F.max_pool2d(torch.arange(4.0).view(1, 2, 2), 2, return_indices=True)
    >>> F.max_unpool2d(values, indices, 2)
    tensor([[[0., 0.],
             [0., 3.]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(max_unpool2d, locals())
    return _max_unpool(2, input, indices, kernel_size, stride, padding, output_size)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Ints,
    stride: Ints | None = None,
    padding: Ints = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts the maxima of ``max_pool3d`` back where they were, among zeros.

    >>> import rushlight as torch
    >>> F = torch.nn.functional
    >>> values, indices = F.max_pool3d(torch.arange(8.0).view(1, 2, 2, 2), 2, return_indices=True)
    >>> F.max_unpool3d(values, indices, 2).flatten()
    tensor([0., 0., 0., 0., 0., 0., 0., 7.])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(max_unpool3d, locals())
    return _max_unpool(3, input, indices, kernel_size, stride, padding, output_size)


# -- means ----------------------------------------------------------------------------------------

_adaptive_avg_pool2d = _functional["adaptive_avg_pool2d"]
_adaptive_avg_pool3d = _functional["adaptive_avg_pool3d"]


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """The means of a grid of windows that covers the last two dimensions; None keeps a size.

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_avg_pool2d(torch.arange(4.0).reshape(1, 2, 2), 1)
    tensor([[[1.5000]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(adaptive_avg_pool2d, locals())
    return _adaptive_avg_pool2d(input, _output_sizes(input, output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """The means of a grid of windows that covers the last three dimensions; None keeps a size.

    >>> import rushlight as torch
    >>> torch.nn.functional.adaptive_avg_pool3d(torch.arange(8.0).reshape(1, 2, 2, 2), 1)
    tensor([[[[3.5000]]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(adaptive_avg_pool3d, locals())
    return _adaptive_avg_pool3d(input, _output_sizes(input, output_size, 3))


def _lp_pool(n: int, input: Tensor, p: float, kernel: Any, stride: Any, ceil_mode: bool) -> Tensor:
    """The p-norm of each window: the mean of the p-th powers, times their number."""
    infinite = float("inf")
    if p == infinite:
        return _max_pools[n - 1](input.abs(), kernel, stride, 0, 1, ceil_mode)
    if p == -infinite:
        return -_max_pools[n - 1](-input.abs(), kernel, stride, 0, 1, ceil_mode)
    mean = _functional[f"avg_pool{n}d"](input.pow(p), kernel, stride, 0, ceil_mode)
    count = 1
    for size in _tuple(kernel, n):
        count *= size
    return (mean.sign() * mean.abs().relu()).mul(count).pow(1.0 / p)


def lp_pool1d(
    input: Tensor,
    norm_type: float,
    kernel_size: int,
    stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm of each window over the last dimension.

    >>> import rushlight as torch
    >>> torch.nn.functional.lp_pool1d(torch.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(lp_pool1d, locals())
    return _lp_pool(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor,
    norm_type: float,
    kernel_size: Ints,
    stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm of each window over the last two dimensions.

    >>> import rushlight as torch
    >>> torch.nn.functional.lp_pool2d(torch.ones(1, 2, 2), 2, 2)
    tensor([[[2.]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(lp_pool2d, locals())
    return _lp_pool(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor,
    norm_type: float,
    kernel_size: Ints,
    stride: Ints | None = None,
    ceil_mode: bool = False,
) -> Tensor:
    """The norm of each window over the last three dimensions.

    >>> import rushlight as torch
    >>> torch.nn.functional.lp_pool3d(torch.ones(1, 2, 2, 2), 1, 2)
    tensor([[[[8.]]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(lp_pool3d, locals())
    return _lp_pool(3, input, norm_type, kernel_size, stride, ceil_mode)


# -- resampling -----------------------------------------------------------------------------------

# As messages list them.
_MODES = "nearest | linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact"
_DIMS = {"linear": 3, "bilinear": 4, "trilinear": 5}
_RESAMPLERS = {
    ("nearest", 3): "nearest1d",
    ("nearest", 4): "nearest2d",
    ("nearest", 5): "nearest3d",
    ("nearest-exact", 3): "nearest_exact1d",
    ("nearest-exact", 4): "nearest_exact2d",
    ("nearest-exact", 5): "nearest_exact3d",
    ("linear", 3): "linear1d",
    ("bilinear", 4): "bilinear2d",
    ("trilinear", 5): "trilinear3d",
    ("bicubic", 4): "bicubic2d",
    ("lanczos", 4): "lanczos2d",
}


def _spatial(input: Tensor, given: Any, name: str, text: str) -> list[Any]:
    """One value for each spatial dimension."""
    n = input.dim() - 2
    if not isinstance(given, (tuple, list)):
        return [given] * n
    if len(given) != n:
        other = "output" if name == "size" else "scale_factor"
        raise ValueError(
            f"Input and {other} must have the same number of spatial dimensions, but got input "
            f"with spatial dimensions of {list(input.shape[2:])} and {text} of "
            f"{'' if name == 'size' else 'shape '}{given}. Please provide input tensor in "
            "(N, C, d1, d2, ...,dK) format and "
            + ("output size in (o1, o2, ...,oK) format." if name == "size" else
               "scale_factor in (s1, s2, ...,sK) format.")
        )  # fmt: skip
    return list(given)


def _target(
    input: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[list[int], list[float | None]]:
    """The spatial sizes of the result, and the factors that positions are computed with."""
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        sizes = _spatial(input, size, "size", "output size")
        if not all(hasattr(s, "__index__") for s in sizes):
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or "
                f"Tuple[int, int, int], but got size with types {[type(s) for s in sizes]}"
            )
        return sizes, [None] * len(sizes)
    factors = _spatial(input, scale_factor, "scale_factor", "scale_factor")
    if not all(isinstance(f, (int, float)) for f in factors):
        raise TypeError(f"interpolate: scale_factor must be numbers, but got {scale_factor!r}")
    sizes = [int(s * f) for s, f in zip(input.shape[2:], factors, strict=True)]
    return sizes, [None] * len(sizes) if recompute else [float(f) for f in factors]


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """The input ``[batch, channels, *spatial]`` resampled to a size or by a factor.

    >>> import rushlight as torch
    >>> x = torch.tensor([[[1.0, 2.0]]])
    >>> torch.nn.functional.interpolate(x, scale_factor=2)
    tensor([[[1., 1., 2., 2.]]])
    >>> torch.nn.functional.interpolate(x, size=3, mode="linear", align_corners=True)
    tensor([[[1.0000, 1.5000, 2.0000]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(interpolate, locals())
    dims = input.dim()
    if align_corners is not None and mode in ("nearest", "area", "nearest-exact"):
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: "
            "linear | bilinear | bicubic | trilinear"
        )
    if 3 <= dims <= 5 and mode in _DIMS and _DIMS[mode] != dims:
        raise NotImplementedError(f"Got {dims}D input, but {mode} mode needs {_DIMS[mode]}D input")
    sizes, factors = _target(input, size, scale_factor, recompute_scale_factor)
    if antialias and not (mode in ("bilinear", "bicubic", "lanczos") and dims == 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires "
            "a 4-D tensor as input"
        )
    if mode == "area" and 3 <= dims <= 5:
        return _functional[f"adaptive_avg_pool{dims - 2}d"](input, sizes)
    if (mode, dims) not in _RESAMPLERS:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {dims}D) for the modes: "
            f"{_MODES} (got {mode})"
        )
    if mode == "lanczos":
        if align_corners:
            raise ValueError("Lanczos mode does not support align_corners=True")
        if not antialias:
            raise ValueError("Lanczos mode requires antialias=True")
    name = "_upsample_" + _RESAMPLERS[mode, dims] + ("_aa" if antialias else "")
    padded = [None] * (5 - dims) + factors
    return _ops[name](input, sizes, bool(align_corners), *padded)


def _deprecated(name: str) -> None:
    import warnings

    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=3,
    )


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Deprecated: ``interpolate`` by its older name."""
    _deprecated("upsample")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: ``interpolate`` with ``mode="nearest"``."""
    _deprecated("upsample_nearest")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Deprecated: ``interpolate`` with ``mode="bilinear", align_corners=True``."""
    _deprecated("upsample_bilinear")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# -- windows as columns ---------------------------------------------------------------------------


def unfold(
    input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints = 0, stride: Ints = 1
) -> Tensor:
    """The windows of ``[batch, channels, height, width]`` as the columns of a matrix.

    >>> import rushlight as torch
    >>> torch.nn.functional.unfold(torch.arange(4.0).reshape(1, 2, 2), (1, 2))
    tensor([[0., 2.],
            [1., 3.]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(unfold, locals())
    given = [_tuple(value, 2) for value in (kernel_size, dilation, padding, stride)]
    return _ops["_im2col"](input, *given)


def fold(
    input: Tensor,
    output_size: Ints,
    kernel_size: Ints,
    dilation: Ints = 1,
    padding: Ints = 0,
    stride: Ints = 1,
) -> Tensor:
    """The sum of the columns of ``unfold`` where they came from.

    >>> import rushlight as torch
    >>> F = torch.nn.functional
    >>> F.fold(F.unfold(torch.ones(1, 1, 3, 3), 2), 3, 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(fold, locals())
    values = (output_size, kernel_size, dilation, padding, stride)
    return _ops["_col2im"](input, *(_tuple(value, 2) for value in values))
