"""Counts of values in bins, along one dimension and along several."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._composed import _into

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["histogram", "histogramdd"]

_ops = _C._namespaces[""]


def histogram(
    input: Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
    out: Any = None,
) -> Any:
    """How many numbers, or what weight, each bin holds; with the edges of the bins.

    >>> import rushlight as torch
    >>> torch.histogram(torch.tensor([1.0, 2.0, 1.0]), bins=4, range=(0.0, 3.0)).hist
    tensor([0., 2., 1., 0.])
    """
    from math import isfinite

    from rushlight.return_types import histogram as named

    x = input.detach().reshape(-1)
    if not x.is_floating_point():
        raise NotImplementedError(f'"histogram" not implemented for {x.dtype}: take floats')
    if isinstance(bins, Tensor):
        edges = bins.detach()
    else:
        if range is not None:
            low, high = range
        elif x.is_meta:
            low, high = 0.0, 1.0
        else:
            low, high = (float(x.min()), float(x.max())) if x.numel() else (0.0, 1.0)
        if not (isfinite(low) and isfinite(high)):
            raise RuntimeError(f"torch.histogram(): the range [{low}, {high}] is not finite")
        if low > high:
            raise RuntimeError(
                f"torch.histogram(): min should not exceed max, but got min {low} max {high}"
            )
        if low == high:
            low, high = low - 0.5, high + 0.5
        if bins <= 0:
            raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins}")
        edges = _ops["linspace"](low, high, bins + 1, dtype=x.dtype, device=x.device)
    if weight is not None and weight.numel() != x.numel():
        raise RuntimeError(
            "torch.histogram(): if weight tensor is provided it should have the same shape as the "
            f"input tensor, but got input with shape {list(input.shape)} and weight with shape "
            f"{list(weight.shape)}"
        )
    count = edges.shape[0] - 1
    hist = _ops["zeros"](count, dtype=x.dtype, device=x.device)
    if not x.is_meta:
        inside = (x >= edges[0]) & (x <= edges[-1])
        x = x[inside]
        place = _ops["searchsorted"](edges.contiguous(), x.contiguous(), right=True) - 1
        amounts = _ops["ones_like"](x) if weight is None else weight.detach().reshape(-1)[inside]
        hist = hist.index_add(0, place.clamp(max=count - 1), amounts.to(x.dtype))
    if density:
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    if out is not None:
        both = zip(out, (hist, edges), strict=True)
        return named(*(_into(into, part, "histogram", exact=True) for into, part in both))
    return named(hist, edges)


def histogramdd(
    input: Tensor,
    bins: Any,
    *,
    range: Any = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Any:
    """How many of the points [..., dimensions] each cell of a grid holds; with the grid's edges.

    >>> import rushlight as torch
    >>> points = torch.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 0.0], [2.0, 2.0]])
    >>> torch.histogramdd(points, bins=[3, 3]).hist
    tensor([[0., 1., 0.],
            [1., 0., 0.],
            [1., 0., 1.]])
    """
    from rushlight.return_types import histogramdd as named

    x = input.detach()
    if x.dim() < 2:
        raise RuntimeError(
            f"torch.histogramdd: input tensor should have at least 2 dimensions, but got {x.dim()}"
        )
    x = x.reshape(-1, x.shape[-1])
    dims = x.shape[1]
    each = [bins] * dims if isinstance(bins, int) else list(bins)
    if len(each) != dims:
        raise RuntimeError(
            "histogramdd: The size of bins must be equal to the innermost dimension of the input: "
            f"got {len(each)} for {dims}"
        )
    edges: list[Tensor] = []
    shape: list[int] = []
    place: Any = None
    inside: Any = None
    for d, count in enumerate(each):
        column = x[:, d].contiguous()
        limits = None if range is None else (range[2 * d], range[2 * d + 1])
        edge = histogram(column[:0] if limits else column, count, range=limits).bin_edges
        size = edge.shape[0] - 1
        cell = (_ops["searchsorted"](edge.contiguous(), column, right=True) - 1).clamp(0, size - 1)
        within = (column >= edge[0]) & (column <= edge[-1])
        inside = within if inside is None else inside & within
        place = cell if place is None else place * size + cell
        edges.append(edge)
        shape.append(size)
    total = 1
    for size in shape:
        total *= size
    amounts = _ops["ones_like"](x[:, 0]) if weight is None else weight.detach().reshape(-1)
    hist = _ops["zeros"](total, dtype=x.dtype, device=x.device)
    if not x.is_meta:
        hist = hist.index_add(0, place[inside], amounts[inside].to(x.dtype))
    hist = hist.reshape(shape)
    if density:
        hist = hist / hist.sum()
        for d, edge in enumerate(edges):
            sizes = [1] * dims
            sizes[d] = shape[d]
            hist = hist / (edge[1:] - edge[:-1]).reshape(sizes)
    return named(hist, tuple(edges))
