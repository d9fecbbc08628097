"""Functions of ``nn.functional`` that are made of ops in Python."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor
from rushlight._redirect import foreign, redirect

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "embedding_bag", "grouped_mm", "gumbel_softmax", "linear_cross_entropy", "rrelu", "rrelu_",
]  # fmt: skip

_ops = _C._namespaces[""]
_nn = _C._namespaces["nn.functional"]


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """``x`` where positive, else ``x`` times a slope drawn from [lower, upper].

    Outside of training the slope is the middle of the two.

    >>> import rushlight as torch
    >>> torch.nn.functional.rrelu(torch.tensor([-1.0, 2.0]), 0.1, 0.3)
    tensor([-0.2000,  2.0000])
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(rrelu, locals())
    if lower > upper:
        raise RuntimeError(
            f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}"
        )
    if not training:
        return _nn["leaky_relu"](input, (lower + upper) / 2, inplace)
    input = input if inplace else _ops["_bound"](input, [])
    below = input.detach() <= 0
    if _C._batch_levels(input):
        drawn = _ops["empty_like"](input.detach()).uniform_(lower, upper)
        slope = _ops["where"](below, drawn, 1.0)
        return input.mul_(slope) if inplace else input * slope
    count = int(below.sum())
    drawn = _ops["empty"](count, dtype=_C.float64).uniform_(lower, upper).to(input.dtype)
    slope = _ops["ones_like"](input.detach()).masked_scatter(below, drawn)
    return input.mul_(slope) if inplace else input * slope


def rrelu_(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False
) -> Tensor:
    """:func:`rrelu` in place.

    >>> import rushlight as torch
    >>> x = torch.tensor([-4.0, 1.0])
    >>> _ = torch.nn.functional.rrelu_(x, 0.25, 0.25)
    >>> x
    tensor([-1.,  1.])
    """
    return rrelu(input, lower, upper, training, True)


def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """Samples from the softmax, through which gradients flow; ``hard`` gives one-hot vectors.

    >>> import rushlight as torch
    >>> y = torch.nn.functional.gumbel_softmax(torch.zeros(4, 3), hard=True)
    >>> y.sum(dim=1)
    tensor([1., 1., 1., 1.])
    """
    if type(logits) is not Tensor and foreign(logits):
        return redirect(gumbel_softmax, locals())
    if eps != 1e-10:
        import warnings

        warnings.warn("`eps` parameter is deprecated and has no effect.", stacklevel=2)
    gumbels = -_ops["empty_like"](logits.detach()).exponential_().log()
    soft = ((logits + gumbels) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.argmax(dim, keepdim=True)
    one_hot = _ops["zeros_like"](logits.detach()).scatter_(dim, index, 1.0)
    return one_hot - soft.detach() + soft


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:
    """The cross entropy of a linear layer's output; ``options`` are accepted.

    >>> import rushlight as torch
    >>> F = torch.nn.functional
    >>> x, weight, target = torch.zeros(2, 4), torch.ones(3, 4), torch.tensor([0, 2])
    >>> round(F.linear_cross_entropy(x, weight, target).item(), 4)
    1.0986
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(linear_cross_entropy, locals())
    if input.dim() not in (1, 2):
        raise RuntimeError(f"expected input with dimensionality 1 or 2, got {input.dim()}")
    if linear_weight.dim() < 2:
        raise RuntimeError(
            f"expected linear_weight with dimensionality at least 2, got {linear_weight.dim()}"
        )
    classes, *extra, features = linear_weight.shape
    if input.size(-1) != features:
        raise RuntimeError(
            "expected equal input and linear_weight last dimensions (in_features), got "
            f"{input.size(-1)} and {features}, respectively"
        )
    shape = (classes, *extra)
    if linear_bias is not None and tuple(linear_bias.shape) != shape:
        raise RuntimeError(f"expected linear_bias shape {shape}, got {tuple(linear_bias.shape)}")
    if extra and input.dim() == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {tuple(linear_weight.shape)} "
            f"requires batched input, (N, {features}), got unbatched input with shape "
            f"{tuple(input.shape)}"
        )
    logits = _nn["linear"](
        input,
        linear_weight.reshape(math.prod(shape), features),
        None if linear_bias is None else linear_bias.reshape(-1),
    ).reshape((*input.shape[:-1], *shape))
    if ignore_index is not None and target.shape == logits.shape:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    return _nn["cross_entropy"](
        logits,
        target,
        weight=weight,
        reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )


def _bags(
    input: Tensor, offsets: Tensor | None, weights: Tensor | None, include_last: bool
) -> tuple[Tensor, Tensor, Tensor | None, int]:
    """The indices in one row, the bag of each, their weights, and how many bags there are."""
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch "
                f"of fixed length sequences. However, found offsets of type {type(offsets)}"
            )
        count = input.size(0)
        bag = _ops["arange"](count, device=input.device).repeat_interleave(input.size(1))
        return input.reshape(-1), bag, None if weights is None else weights.reshape(-1), count
    if input.dim() != 1:
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}"
        )
    if offsets is None:
        raise ValueError("offsets has to be a 1D Tensor but got None")
    if offsets.dim() != 1:
        raise ValueError(f"offsets has to be a 1D Tensor, got {offsets.dim()} dimensions")
    if include_last and offsets.numel() == 0:
        raise RuntimeError("include_last_offset: number of offsets should be at least 1")
    if offsets.numel() > 0 and not offsets.is_meta:
        if int(offsets[0]) != 0:
            raise RuntimeError(
                f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start "
                f"from position 0. However, got {int(offsets[0])}"
            )
        if int(offsets[-1]) > input.numel():
            raise RuntimeError(
                "offsets[-1] can not be greater than input's length, but got offsets[-1] of "
                f"{int(offsets[-1])} for an input of {input.numel()}"
            )
    starts = offsets[:-1] if include_last else offsets
    if input.is_meta:
        return input, input.long(), weights, starts.numel()
    positions = _ops["arange"](input.numel(), device=input.device)
    bag = _ops["searchsorted"](starts.contiguous().long(), positions, right=True) - 1
    if include_last:
        inside = positions < int(offsets[-1])
        input, bag = input[inside], bag[inside]
        weights = None if weights is None else weights[inside]
    return input, bag, weights, starts.numel()


def _largest_rows(input: Tensor, weight: Tensor, bag: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The first row with the largest value of each bag in each column, and where there is one.

    A NaN counts where it opens its bag, and then stays: nothing is larger.
    """
    size = (count, weight.size(1))
    rows = weight.detach()[input]
    at = bag.unsqueeze(1).expand_as(rows)
    opens = (bag.diff(prepend=bag[:1] - 1) != 0).unsqueeze(1)
    instead = _ops["where"](opens, float("inf"), float("-inf"))
    rows = _ops["where"](rows.isnan(), instead, rows)
    lowest = _ops["full"](size, float("-inf"), dtype=weight.dtype, device=weight.device)
    best = lowest.scatter_reduce(0, at, rows, "amax")
    places = _ops["arange"](input.numel(), device=input.device).unsqueeze(1).expand_as(rows)
    places = _ops["where"](rows == best[bag], places, input.numel())
    first = _ops["full"](size, input.numel(), dtype=_C.int64, device=input.device)
    first = first.scatter_reduce(0, at, places, "amin")
    return input.long()[first.clamp(max=max(input.numel() - 1, 0))], first < input.numel()


def _largest(input: Tensor, weight: Tensor, bag: Tensor, count: int) -> Tensor:
    """The largest value of each bag in each column."""
    rows, filled = _largest_rows(input, weight, bag, count)
    return _ops["where"](filled, weight.gather(0, rows), 0.0)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or largest values of bags of embeddings.

    >>> import rushlight as torch
    >>> table = torch.tensor([[1.0], [2.0], [4.0]])
    >>> bags = torch.tensor([0, 2])  # where each bag starts
    >>> torch.nn.functional.embedding_bag(torch.tensor([0, 1, 2]), table, bags).flatten().tolist()
    [1.5, 4.0]
    """
    if type(input) is not Tensor and foreign(input):
        return redirect(embedding_bag, locals())
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"mode has to be one of sum, mean or max, got {mode!r}")
    if weight.dim() != 2:
        raise ValueError(
            f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}"
        )
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then "
            f"it must have the same shape as the input ({input.shape})"
        )
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ValueError(f"max mode does not support {what}")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')."
        )
    if _C._batch_levels(offsets) or (padding_idx is not None and _C._batch_levels(input)):
        from rushlight.func._function import by_sample

        given = (input, weight, offsets, max_norm, norm_type, scale_grad_by_freq, mode, sparse)
        return by_sample(
            embedding_bag, (*given, per_sample_weights, include_last_offset, padding_idx)
        )
    flat, bag, weights, count = _bags(input, offsets, per_sample_weights, include_last_offset)
    if padding_idx is not None and not flat.is_meta:
        kept = flat != padding_idx % weight.size(0)
        flat, bag = flat[kept], bag[kept]
        weights = None if weights is None else weights[kept]
    rows = _nn["embedding"](flat, weight, None, max_norm, norm_type, scale_grad_by_freq, sparse)
    if count == 0 or flat.numel() == 0:
        return rows.new_zeros((count, weight.size(1))) + rows.sum()
    if mode == "max":
        return _largest(flat, weight, bag, count)
    if weights is not None:
        rows = rows * weights.unsqueeze(1)
    total = rows.new_zeros((count, weight.size(1))).index_add(0, bag, rows)
    if mode == "sum":
        return total
    if total.is_meta:
        return total / count
    sizes = bag.bincount(minlength=count).clamp(min=1).to(total.dtype)
    return total / sizes.unsqueeze(1)


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Any = None,
) -> Tensor:
    """A product of matrices for each group; ``offs`` says where groups end in what has two
    dimensions: the rows of ``mat_a``, the columns of ``mat_b``, or what both are summed over.

    Rows (or columns) behind the last group are 0.

    >>> import rushlight as torch
    >>> tokens, experts = torch.ones(3, 2), torch.stack([torch.ones(2, 1), torch.full((2, 1), 5.0)])
    >>> ends = torch.tensor([1, 3], dtype=torch.int32)
    >>> torch.nn.functional.grouped_mm(tokens, experts, offs=ends).flatten()
    tensor([ 2., 10., 10.])
    """
    a, b = mat_a, mat_b
    if a.dim() not in (2, 3) or b.dim() not in (2, 3):
        raise RuntimeError(f"grouped_mm: matrices have 2 or 3 dimensions, got {a.dim()}, {b.dim()}")
    if (offs is None) != (a.dim() == 3 and b.dim() == 3):
        raise RuntimeError(
            "grouped_mm: offs belongs to matrices of two dimensions, and only to them: got "
            f"{a.dim()} and {b.dim()} dimensions and {'no ' if offs is None else ''}offs"
        )
    if bias is not None:
        raise RuntimeError("grouped_mm: a bias is not supported: add it to the result")
    if out_dtype not in (None, a.dtype):
        raise RuntimeError(f"grouped_mm: the result is {a.dtype}, as mat_a; got {out_dtype}")
    if offs is None:
        return a @ b
    if offs.dtype != _C.int32:
        raise RuntimeError(f"grouped_mm: offs has to be int32, got {offs.dtype}")
    ends = offs.tolist()
    groups = list(zip([0, *ends], ends, strict=False))
    matrices = b.shape[0] if b.dim() == 3 else a.shape[0] if a.dim() == 3 else len(ends)
    if matrices != len(ends):
        raise RuntimeError(f"grouped_mm: offs ends {len(ends)} groups, and there are {matrices}")
    if a.dim() == 2 and b.dim() == 2:
        return _ops["stack"]([a[:, i:j] @ b[i:j] for i, j in groups])
    if a.dim() == 2:
        parts = [a[i:j] @ b[n] for n, (i, j) in enumerate(groups)]
        rest = a.new_zeros(a.shape[0] - groups[-1][1], b.shape[2])
        return _ops["cat"]([*parts, rest], 0)
    parts = [a[n] @ b[:, i:j] for n, (i, j) in enumerate(groups)]
    rest = a.new_zeros(a.shape[1], b.shape[1] - groups[-1][1])
    return _ops["cat"]([*parts, rest], 1)


_grouped_mm = grouped_mm  # what it was called before
