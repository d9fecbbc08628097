"""Functions of the ``rushlight`` namespace and methods of tensors that are made of others."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "conv_tbc", "frexp", "gcd", "gradient", "grid_sampler", "grid_sampler_2d",
    "grid_sampler_3d", "index_reduce", "lcm", "nanmedian", "nanquantile", "nonzero_static",
    "quantile", "renorm", "unravel_index",
]  # fmt: skip

_ops = _C._namespaces[""]


def _into(out: Any, result: Any, name: str, *, exact: bool = False, records: bool = False) -> Any:
    """The result, in ``out`` if that is given.

    ``exact``: only where it has the result's dtype. ``records``: with its history, as in
    PyTorch for a few functions.
    """
    if out is None:
        return result
    if exact and out.dtype != result.dtype:
        raise RuntimeError(
            f"{name}(): Expected out tensor to have dtype {result.dtype}, "
            f"but got {out.dtype} instead"
        )
    if records and result.requires_grad and result.device == out.device:
        return out.resize_(result.shape).copy_(result)
    return _C._write_out(out, result, name)


def _dtype_for(out: Any, dtype: Any) -> Any:
    """The dtype of numbers that are made for ``out``, if that is given."""
    if out is None or dtype == out.dtype:
        return dtype or _C.get_default_dtype()
    if dtype is not None:
        raise RuntimeError(f"dtype {dtype} does not match dtype of out parameter ({out.dtype})")
    return out.dtype


# ---- order statistics


def _quantile(
    name: str, input: Tensor, q: Any, dim: Any, keepdim: bool, interpolation: str, skip: bool
) -> Any:
    x = input
    if not x.is_floating_point() or x.dtype not in (_C.float32, _C.float64):
        raise RuntimeError(
            f"{name}() input tensor must be either float or double dtype, got {x.dtype}"
        )
    if not isinstance(q, Tensor):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q}")
        q = _ops["full"]((), q, dtype=x.dtype, device=x.device)
    if q.dim() > 1:
        raise RuntimeError(
            f"{name}() q must be a scalar or 1D tensor, but got {q.dim()} dimensions"
        )
    if q.dtype is not x.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if q.device.type == "cpu" and not _C._batch_levels(q) and not ((q >= 0) & (q <= 1)).all():
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    if interpolation not in ("linear", "lower", "higher", "midpoint", "nearest"):
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, "
            f"but got {interpolation}"
        )
    if x.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    shape = list(x.shape)
    if dim is None:
        shape, x, at = [1] * len(shape), x.reshape(-1), 0
    else:
        at = _wrapped(dim, x.dim()) if x.dim() else dim
        if x.dim() == 0:
            x = x.reshape(1)
        if shape:
            shape[at] = 1
    ordered = x.movedim(at, -1).sort(-1)[0]
    n = ordered.shape[-1]
    missing = ordered.isnan()
    if skip:
        count = (~missing).sum(-1, keepdim=True)
        rank = q * (count - 1).clamp(min=0).to(x.dtype)
    else:
        rank = (q * (n - 1)).expand(*ordered.shape[:-1], max(q.numel(), 1))
        rank = rank.masked_fill(missing.any(-1, keepdim=True), n - 1)
    if interpolation == "lower":
        rank = rank.floor()
    elif interpolation == "higher":
        rank = rank.ceil()
    elif interpolation == "nearest":
        rank = rank.round()
    below = rank.detach().floor().to(_C.int64)
    low = ordered.gather(-1, below)
    if interpolation in ("linear", "midpoint"):
        above = rank.detach().ceil().to(_C.int64)
        high = ordered.gather(-1, above)
        weight = (rank - below.to(x.dtype)) if interpolation == "linear" else 0.5
        result = low.lerp(high, weight)
    else:
        result = low
    result = result.movedim(-1, 0)
    if keepdim:
        result = result.reshape(result.shape[:1] + tuple(shape))
    return result.squeeze(0) if q.dim() == 0 else result


def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Any = None,
) -> Tensor:
    """What a fraction q of the numbers lies below, along a dimension or of all.

    >>> import rushlight as torch
    >>> torch.quantile(torch.tensor([0.0, 1.0, 2.0, 4.0]), torch.tensor([0.25, 0.5]))
    tensor([0.7500, 1.5000])
    """
    found = _quantile("quantile", input, q, dim, keepdim, interpolation, False)
    return _into(out, found, "quantile", exact=True, records=True)


def nanquantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
    out: Any = None,
) -> Tensor:
    """``quantile`` of the numbers that are not NaN.

    >>> import rushlight as torch
    >>> torch.nanquantile(torch.tensor([0.0, float("nan"), 2.0]), 0.5)
    tensor(1.)
    """
    found = _quantile("nanquantile", input, q, dim, keepdim, interpolation, True)
    return _into(out, found, "nanquantile", exact=True, records=True)


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of the numbers that are not NaN; along a dimension, with its index.

    >>> import rushlight as torch
    >>> torch.nanmedian(torch.tensor([5.0, float("nan"), 1.0, 3.0]))
    tensor(3.)
    """
    x = input
    if dim is None:
        flat = x.reshape(-1)
        if x.numel() == 0 or not x.is_floating_point():
            return _ops["median"](flat)
        middle = nanmedian(flat.detach(), 0)[0]
        equal = (flat == middle) | (flat.isnan() & middle.isnan())
        return _ops["where"](equal, flat, -float("inf")).amax()  # equal numbers share the gradient
    if not x.is_floating_point():
        return _ops["median"](x, dim, keepdim)
    if x.dim() == 0:
        return _ops["median"](x, dim, keepdim)
    ordered, places = x.sort(dim)
    count = (~ordered.isnan()).sum(dim, keepdim=True)
    middle = ((count - 1).clamp(min=0) // 2).to(_C.int64)
    values, indices = ordered.gather(dim, middle), places.gather(dim, middle)
    if not keepdim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    from rushlight.return_types import nanmedian as named

    return named(values, indices)


# ---- differences


def _wrapped(dim: int, dims: int) -> int:
    """A dimension counted from the front."""
    if not -dims <= dim < dims:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got "
            f"{dim})"
        )
    return dim % dims


def gradient(
    input: Tensor, *, spacing: Any = 1, dim: Any = None, edge_order: int = 1
) -> list[Tensor]:
    """The slope along each dimension, from neighbours on both sides.

    >>> import rushlight as torch
    >>> torch.gradient(torch.tensor([1.0, 2.0, 4.0, 7.0]))
    (tensor([1.0000, 1.5000, 2.5000, 3.0000]),)
    """
    if isinstance(spacing, Tensor) and spacing.dim() > 0:
        raise TypeError(
            "gradient(): spacing must be a number or a list of numbers or tensors, got a tensor of "
            f"shape {list(spacing.shape)}: give the coordinates of one dimension as a list of one"
        )
    dims = range(input.dim()) if dim is None else ((dim,) if isinstance(dim, int) else dim)
    dims = [_wrapped(d, input.dim()) for d in dims]
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"torch.gradient: dim {dims} appears multiple times in the list of dims")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if isinstance(spacing, (list, tuple)):
        spacings = list(spacing)
        if len(spacings) != len(dims):
            raise RuntimeError(
                f"torch.gradient expected spacing to be unspecified, a scalar or a list of length "
                f"{len(dims)}, but got a list of length {len(spacings)}"
            )
    else:
        spacings = [1 if spacing is None else spacing] * len(dims)
    return tuple(  # type: ignore[return-value]
        _slope(input, d, h, edge_order) for d, h in zip(dims, spacings, strict=True)
    )


def _slope(x: Any, dim: int, spacing: Any, edge_order: int) -> Any:
    n = x.shape[dim]
    if n < edge_order + 1:
        raise RuntimeError(
            f"torch.gradient expected each dimension size to be at least {edge_order + 1}: "
            f"dimension {dim} has size {n}"
        )

    def part(start: int, stop: int) -> Any:
        return x.narrow(dim, start, stop - start)

    if isinstance(spacing, Tensor) and spacing.dim() > 0:
        shape = [1] * x.dim()
        shape[dim] = n - 1
        if spacing.shape != (n,):
            raise RuntimeError(
                f"torch.gradient: the coordinates of dimension {dim} must be {n} numbers, got a "
                f"tensor of shape {list(spacing.shape)}"
            )
        steps = (spacing[1:] - spacing[:-1]).reshape(shape)
        a, b = steps.narrow(dim, 0, n - 2), steps.narrow(dim, 1, n - 2)
        first, last = steps.narrow(dim, 0, 1), steps.narrow(dim, n - 2, 1)
        inside = (
            -b / (a * (a + b)) * part(0, n - 2)
            + (b - a) / (a * b) * part(1, n - 1)
            + a / (b * (a + b)) * part(2, n)
        )
        a1, b1 = (steps.narrow(dim, 0, 1), steps.narrow(dim, 1, 1)) if n > 2 else (first, first)
        a2, b2 = (steps.narrow(dim, n - 3, 1), last) if n > 2 else (last, last)
    else:
        first = last = a1 = b1 = a2 = b2 = spacing
        inside = (part(2, n) - part(0, n - 2)) / (2 * spacing)
    if edge_order == 1:
        start = (part(1, 2) - part(0, 1)) / first
        end = (part(n - 1, n) - part(n - 2, n - 1)) / last
    else:
        start = (
            -(2 * a1 + b1) / (a1 * (a1 + b1)) * part(0, 1)
            + (a1 + b1) / (a1 * b1) * part(1, 2)
            - a1 / (b1 * (a1 + b1)) * part(2, 3)
        )
        end = (
            b2 / (a2 * (a2 + b2)) * part(n - 3, n - 2)
            - (a2 + b2) / (a2 * b2) * part(n - 2, n - 1)
            + (2 * b2 + a2) / (b2 * (a2 + b2)) * part(n - 1, n)
        )
    return _ops["cat"]([start, inside, end], dim)


# ---- integers and places


def gcd(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The greatest common divisor, element by element.

    >>> import rushlight as torch
    >>> torch.gcd(torch.tensor([12, 18, 0]), torch.tensor([8, 27, 5]))
    tensor([4, 9, 5])
    """
    if input.is_floating_point() or other.is_floating_point():
        raise NotImplementedError('"gcd_cpu" not implemented for floating point: take integers')
    a, b = _ops["broadcast_tensors"](input, other)
    dtype = _C.promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype).abs(), b.to(dtype).abs()
    while bool((b != 0).any()):
        safe = b.masked_fill(b == 0, 1)
        a, b = _ops["where"](b != 0, b, a), _ops["where"](b != 0, a % safe, b)
    return _into(out, a, "gcd")


def lcm(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The least common multiple, element by element.

    >>> import rushlight as torch
    >>> torch.lcm(torch.tensor([4, 6, 0]), torch.tensor([6, 8, 5]))
    tensor([12, 24,  0])
    """
    divisor = gcd(input, other)
    quotient = input.to(divisor.dtype) // divisor.masked_fill(divisor == 0, 1)
    return _into(out, (quotient * other).abs(), "lcm")


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """Positions in a flat tensor as indices of each dimension.

    >>> import rushlight as torch
    >>> torch.unravel_index(torch.tensor([5, 7]), (3, 4))
    (tensor([1, 1]), tensor([1, 3]))
    """
    if indices.is_floating_point() or indices.is_complex() or indices.dtype is _C.bool:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(s < 0 for s in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    indices, total = indices.to(_C.int64), 1
    for s in sizes:
        total *= s
    if indices.numel() and not bool(((indices < total) & (indices >= -total)).all()):
        raise ValueError(f"indices must lie in [0, {total}) for shape {sizes}")
    rest, found = indices % max(total, 1), []
    for size in reversed(sizes):
        found.append(rest % size)
        rest = rest // size
    return tuple(reversed(found))


def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Any = None) -> Tensor:
    """``nonzero`` with a given number of rows: cut, or filled up.

    >>> import rushlight as torch
    >>> torch.nonzero_static(torch.tensor([0, 3, 4]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    found = _ops["nonzero"](input)[:size]
    rest = _ops["full"]((size - found.shape[0], input.dim()), fill_value, dtype=_C.int64)
    return _into(out, _ops["cat"]([found, rest], 0), "nonzero_static", exact=True)


def frexp(input: Tensor) -> Any:
    """Mantissas in [0.5, 1) with the sign, and exponents of 2: their products are the numbers.

    >>> import rushlight as torch
    >>> torch.frexp(torch.tensor([3.0, -0.25])).mantissa
    tensor([ 0.7500, -0.5000])
    """
    from rushlight.return_types import frexp as named

    if not input.is_floating_point():
        raise RuntimeError(f"torch.frexp() only supports floating-point dtypes, got {input.dtype}")
    wide = input.detach().to(_C.float64)
    plain = (wide != 0) & wide.isfinite()
    size = _ops["where"](plain, wide.abs(), 1.0)
    power = size.log2().floor() + 1

    def scaled(x: Any, exponent: Any) -> Any:  # in two steps, which do not overflow
        half = (exponent / 2).floor()
        return x * _ops["exp2"](-half) * _ops["exp2"](half - exponent)

    share = scaled(size, power)
    power = power + (share >= 1).to(power.dtype) - (share < 0.5).to(power.dtype)
    power = _ops["where"](plain, power, 0.0)
    mantissa = scaled(input.to(_C.float64), power).to(input.dtype)
    return named(mantissa, power.to(_C.int32))


def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    *,
    include_self: bool = True,
    out: Any = None,
) -> Tensor:
    """Slices of source joined to those that the index names, by a product, mean or extreme.

    >>> import rushlight as torch
    >>> x, index = torch.ones(3), torch.tensor([0, 2, 0])
    >>> torch.index_reduce(x, 0, index, torch.tensor([2.0, 3.0, 4.0]), "prod")
    tensor([8., 1., 3.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    if index.dim() > 1:
        raise RuntimeError(f"index_reduce(): Index is supposed to be a vector, got {index.dim()}D")
    if input.dim() == 0:
        found = index_reduce(
            input.reshape(1), 0, index.reshape(-1), source.reshape(-1), reduce,
            include_self=include_self,
        ).reshape(())  # fmt: skip
        return _into(out, found, "index_reduce", exact=True)
    shape = [1] * source.dim()
    shape[dim] = index.numel()
    if index.numel() and not bool(((index >= 0) & (index < input.shape[dim])).all()):
        raise IndexError(
            f"index_reduce(): index out of range in self: dimension {dim} has size "
            f"{input.shape[dim]}, got indices from {int(index.min())} to {int(index.max())}"
        )
    places = index.reshape(shape).expand(source.shape)
    found = input.scatter_reduce(dim, places, source, reduce, include_self=include_self)
    return _into(out, found, "index_reduce", exact=True)


def renorm(input: Tensor, p: float, dim: int, maxnorm: float, *, out: Any = None) -> Tensor:
    """Slices along a dimension, those with a p-norm above maxnorm scaled down to it.

    >>> import rushlight as torch
    >>> torch.renorm(torch.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if p <= 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got p={p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.dim() < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.dim()} dimensions"
        )
    at = _wrapped(dim, input.dim())
    rest = [d for d in range(input.dim()) if d != at]
    norms = _C._namespaces["linalg"]["vector_norm"](input, p, rest, True)
    factor = _ops["where"](norms > maxnorm, maxnorm / (norms + 1e-7), _ops["ones_like"](norms))
    return _into(out, input * factor, "renorm", exact=True)


# ---- layers under other names


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """A convolution of [time, batch, channels] with a weight [width, inputs, outputs].

    >>> import rushlight as torch
    >>> torch.conv_tbc(torch.ones(3, 1, 2), torch.ones(2, 2, 1), torch.zeros(1)).shape
    torch.Size([2, 1, 1])
    """
    lines, kernel = input.permute(1, 2, 0), weight.permute(2, 1, 0)
    return _ops["conv1d"](lines, kernel, bias, padding=pad).permute(2, 0, 1)


def _mode(argument: str, names: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(names):
        meanings = ", ".join(f"{i} ({name})" for i, name in enumerate(names))
        raise ValueError(f"grid_sampler(): {argument} must be one of {meanings}, got {number}")
    return names[number]


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """``nn.functional.grid_sample`` with its modes as numbers.

    >>> import rushlight as torch
    >>> torch.grid_sampler(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 1, 2), 0, 0, False)
    tensor([[[[1.]]]])
    """
    from rushlight.nn.functional import grid_sample

    return grid_sample(
        input,
        grid,
        _mode("interpolation_mode", ("bilinear", "nearest", "bicubic"), interpolation_mode),
        _mode("padding_mode", ("zeros", "border", "reflection"), padding_mode),
        align_corners,
    )


def _sampler_of(rank: int) -> Any:
    def sampler(
        input: Tensor,
        grid: Tensor,
        interpolation_mode: int,
        padding_mode: int,
        align_corners: bool,
    ) -> Tensor:
        if input.dim() != rank or grid.dim() != rank:
            raise RuntimeError(
                f"grid_sampler(): expected {rank}D input and grid with same number of dimensions, "
                f"but got input with sizes {list(input.shape)} and grid with sizes "
                f"{list(grid.shape)}"
            )
        return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)

    name = f"grid_sampler_{rank - 2}d"
    shape = ", ".join(["1"] * (rank - 1))
    sampler.__name__ = sampler.__qualname__ = name
    sampler.__doc__ = f"""``grid_sampler`` of tensors with {rank} dimensions.

    >>> import rushlight as torch
    >>> x, grid = torch.ones(1, {shape}), torch.zeros({shape}, {rank - 2})
    >>> torch.{name}(x, grid, 0, 0, False).item()
    1.0
    """
    return sampler


grid_sampler_2d, grid_sampler_3d = _sampler_of(4), _sampler_of(5)
