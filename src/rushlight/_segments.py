"""Reductions of segments, and the older form of arange."""

from __future__ import annotations

import builtins
import math
import warnings

from rushlight import _C
from rushlight._C import Tensor
from rushlight._composed import _dtype_for, _into

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["range", "segment_reduce"]

_ops: dict[str, Any] = _C._namespaces[""]
_KINDS = {"sum": "sum", "mean": "mean", "prod": "prod", "max": "amax", "min": "amin"}
_START = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}


def segment_reduce(
    data: Tensor,
    reduce: str,
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: int = 0,
    unsafe: bool = False,
    initial: Any = None,
) -> Tensor:
    """Sum, mean, product, maximum or minimum of each of the segments of a dimension.

    ``lengths`` has the length of each segment, or ``offsets`` where each begins and the last ends.
    ``initial`` is what each reduction starts with. ``unsafe`` leaves out the check of the lengths.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    >>> torch.segment_reduce(x, "max", lengths=torch.tensor([3, 1]))
    tensor([3., 4.])
    >>> torch.segment_reduce(x, "sum", offsets=torch.tensor([0, 1, 1, 4]), initial=10)
    tensor([11., 10., 19.])
    """
    names = {"amax": "max", "amin": "min"}
    kind = names.get(reduce, reduce)
    if kind not in _KINDS:
        raise RuntimeError(
            "segment_reduce: reduce argument must be either sum, prod, mean, amax or amin, got "
            f"{reduce}"
        )
    if lengths is None:
        if offsets is None:
            raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
        lengths, ends, first = offsets.diff(dim=-1), offsets[..., 1:], offsets[..., :1]
    else:
        ends = lengths.cumsum(-1)
        first = ends[..., :1] * 0
    if lengths.is_floating_point():
        raise NotImplementedError(
            f"segment_reduce: not implemented for lengths of {lengths.dtype}: take integers"
        )
    if lengths.dim() > data.dim() or axis not in (
        lengths.dim() - 1,
        lengths.dim() - 1 - data.dim(),
    ):
        raise IndexError(
            f"segment_reduce: Dimension out of range: axis {axis} with lengths of "
            f"{lengths.dim()} and data of {data.dim()} dimensions: axis is the last of lengths"
        )
    axis = lengths.dim() - 1
    if lengths.shape[:axis] != data.shape[:axis]:
        raise RuntimeError(
            f"segment_reduce: lengths of shape {list(lengths.shape)} do not begin as data of shape "
            f"{list(data.shape)}"
        )
    if not unsafe:
        if bool((lengths < 0).any()):
            raise RuntimeError("segment_reduce: lengths contains negative value!")
        if bool((lengths.sum(-1) != data.shape[axis]).any()):
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                f"data.size(lengths.dim()-1) when !unsafe: it is {data.shape[axis]}, they sum "
                f"to {lengths.sum(-1).tolist()}"
            )
    rest = data.shape[axis + 1 :]
    rows = data.reshape(-1, *rest)
    count = lengths.reshape(-1)
    owner, inside = _owners(ends, first, data.shape[axis])
    rows = rows[inside]
    owner = owner[inside].reshape(-1, *[1] * len(rest)).expand_as(rows)
    start = _START[kind] if initial is None else initial
    result = _ops["full"]((count.numel(), *rest), start, dtype=data.dtype, device=data.device)
    # The mean counts the elements alone; what it starts with is no further element.
    way = "sum" if kind == "mean" else _KINDS[kind]
    result = result.scatter_reduce(0, owner, rows, way, include_self=True)
    if kind == "mean":
        size = count.reshape(-1, *[1] * len(rest)).to(data.dtype)
        result = result / (size if initial is None else size.clamp(min=1))
    return result.reshape(*lengths.shape, *rest)


def _owners(ends: Tensor, first: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """The number of the segment of each element, and which elements are in one."""
    lead = ends.shape[:-1]
    place = _ops["arange"](size, device=ends.device).expand(*lead, size).contiguous()
    owner = _ops["searchsorted"](ends.contiguous().to(_C.int64), place, right=True)
    inside = (place >= first) & (owner < ends.shape[-1])
    before = _ops["arange"](lead.numel(), device=ends.device) * ends.shape[-1]
    return (owner + before.reshape(*lead, 1)).reshape(-1), inside.reshape(-1)


def range(start: Any, end: Any = None, step: Any = 1, *, out: Any = None, **options: Any) -> Tensor:
    """``arange`` with its end, of the default floating type. Use ``arange``, as Python's ``range``.

    >>> import rushlight as torch, warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     torch.range(1, 2, 0.5)
    tensor([1.0000, 1.5000, 2.0000])
    """
    warnings.warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is "
        "inconsistent with Python's range builtin. Instead, use torch.arange, which produces "
        "values in [start, end).",
        UserWarning,
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("range: step must be nonzero")
    if not math.isfinite(start) or not math.isfinite(end):
        raise RuntimeError(f"range: unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError(
            f"range: upper bound and lower bound inconsistent with step sign: {start} to {end} by "
            f"{step}"
        )
    count = builtins.int((end - start) / step) + 1
    options["dtype"] = _dtype_for(out, options.get("dtype"))
    result = _ops["arange"](count, **options) * step + start
    result = result.to(options["dtype"])
    return _into(out, result, "range")


_segment_reduce = segment_reduce
