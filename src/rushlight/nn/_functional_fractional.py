"""Pooling over windows whose places are drawn."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._precision import in_full
from rushlight._redirect import foreign, redirect

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight import Tensor

__all__ = [
    "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
]  # fmt: skip

_ops = _C._namespaces[""]


def _spread(value: Any, n: int) -> tuple[Any, ...]:
    return tuple(value) if hasattr(value, "__iter__") else (value,) * n


def _starts(sample: Tensor, size: int, output: int, kernel: int) -> Tensor:
    """Where the windows of one dimension start, for each sample of each channel."""
    last = _ops["full"]((*sample.shape, 1), size - kernel, dtype=_C.int64, device=sample.device)
    if output == 1:
        return last
    step = (size - kernel) / (output - 1)
    steps = _ops["arange"](output - 1, dtype=sample.dtype, device=sample.device)
    at = (steps + sample.unsqueeze(-1)) * step
    return _ops["cat"]([at.long() - (sample.unsqueeze(-1) * step).long(), last], -1)


def _sizes(n: int, input: Tensor, kernel: Any, size: Any, ratio: Any) -> tuple[int, ...]:
    """The size of the output, checked."""
    name = f"fractional_max_pool{n}d"
    if size is None and ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if input.dim() not in (n + 1, n + 2):
        raise RuntimeError(
            f"{name}(): Expected {n + 1}D or {n + 2}D tensor, but got: {list(input.shape)}"
        )
    if size is None:
        ratios = _spread(ratio, n)
        if len(ratios) != n:
            raise ValueError(
                f"{name} requires output_ratio to either be a single Int or tuple of Ints."
            )
        pairs = zip(input.shape[-n:], ratios, strict=True)
        return tuple(int(length * r) for length, r in pairs)
    sizes = _spread(size, n)
    for length, k, out in zip(input.shape[-n:], kernel, sizes, strict=True):
        if out + k - 1 > length:
            raise RuntimeError(
                f"{name}(): pool size {k} too large relative to input size {length} for an output "
                f"of {out}"
            )
    return sizes


def _pool(
    n: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple[Tensor, Tensor]:
    input, kernel = in_full(input), _spread(kernel_size, n)
    outputs = _sizes(n, input, kernel, output_size, output_ratio)
    batched = input if input.dim() == n + 2 else input.unsqueeze(0)
    if samples is None:
        samples = _ops["rand"](*batched.shape[:2], n, dtype=input.dtype, device=input.device)
    if samples.size(0) < batched.size(0):
        raise RuntimeError(
            "Expect _random_samples.size(0) no less then input batch size. "
            f"fractional_max_pool{n}d got {samples.size(0)} rows for {batched.size(0)}"
        )
    if samples.size(1) != batched.size(1):
        raise RuntimeError(
            "Expect _random_samples.size(1) equals to input channel size. "
            f"fractional_max_pool{n}d got {samples.size(1)} for {batched.size(1)} channels"
        )
    samples = samples[: batched.size(0)]
    index = _ops["zeros"](
        (*batched.shape[:2], *[1] * (2 * n)), dtype=_C.int64, device=batched.device
    )
    lengths = batched.shape[2:]
    for i in range(n):  # the samples of two dimensions come in the order width, height
        sample = samples[..., n - 1 - i if n == 2 else i]
        starts = _starts(sample, lengths[i], outputs[i], kernel[i])
        places = starts.unsqueeze(-1) + _ops["arange"](kernel[i], device=starts.device)
        shape = [*batched.shape[:2], *[1] * (2 * n)]
        shape[2 + i], shape[2 + n + i] = outputs[i], kernel[i]
        index = index * lengths[i] + places.reshape(shape)
    flat = index.flatten(-n).flatten(2, -2)
    windows = batched.flatten(2).gather(2, flat.flatten(2)).view(flat.shape)
    values, at = windows.max(-1)
    places = flat.gather(-1, at.unsqueeze(-1)).squeeze(-1)
    shape = [*(batched.shape[:2] if batched is input else batched.shape[1:2]), *outputs]
    return values.view(shape), places.view(shape)


def fractional_max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`fractional_max_pool2d` with the places of the values.

    >>> import rushlight as torch
    >>> import rushlight.nn.functional as F
    >>> x, half = torch.arange(16.0).view(1, 1, 4, 4), torch.full((1, 1, 2), 0.5)
    >>> F.fractional_max_pool2d_with_indices(x, 2, output_size=2, _random_samples=half)
    (tensor([[[[ 5.,  7.],
              [13., 15.]]]]), tensor([[[[ 5,  7],
              [13, 15]]]]))
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(fractional_max_pool2d_with_indices, locals())
    return _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """:func:`fractional_max_pool3d` with the places of the values.

    >>> import rushlight as torch
    >>> values, places = torch.nn.functional.fractional_max_pool3d_with_indices(
    ...     torch.zeros(1, 1, 5, 5, 5), 2, output_size=3
    ... )
    >>> values.shape, places.dtype
    (torch.Size([1, 1, 3, 3, 3]), torch.int64)
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(fractional_max_pool3d_with_indices, locals())
    return _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Max pooling over windows whose places are drawn, to any smaller height and width.

    >>> import rushlight as torch
    >>> x = torch.zeros(1, 1, 5, 5)
    >>> torch.nn.functional.fractional_max_pool2d(x, 2, output_ratio=0.6).shape
    torch.Size([1, 1, 3, 3])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(fractional_max_pool2d, locals())
    result = _pool(2, input, kernel_size, output_size, output_ratio, _random_samples)
    return result if return_indices else result[0]


def fractional_max_pool3d(
    input: Tensor,
    kernel_size: Any,
    output_size: Any = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Tensor | None = None,
) -> Any:
    """Max pooling over windows whose places are drawn, to any smaller depth, height and width.

    >>> import rushlight as torch
    >>> x = torch.zeros(1, 1, 5, 5, 5)
    >>> torch.nn.functional.fractional_max_pool3d(x, 2, output_ratio=0.6).shape
    torch.Size([1, 1, 3, 3, 3])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(fractional_max_pool3d, locals())
    result = _pool(3, input, kernel_size, output_size, output_ratio, _random_samples)
    return result if return_indices else result[0]
