"""Ops of aten whose arguments are not those of the function of that name."""

from __future__ import annotations

import rushlight as torch
from rushlight import _C
from rushlight.nn import functional as F

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rushlight._C import Tensor

_REDUCTIONS = ("none", "mean", "sum")
_ops = _C._namespaces[""]


def _or_none(size: Any) -> Any:
    """An empty list stands for nothing given."""
    return None if isinstance(size, (list, tuple)) and not size else size


# --- views and copies ------------------------------------------------------------------------


def alias(self: Tensor) -> Tensor:
    return _ops["_alias"](self)


def lift_fresh(self: Tensor) -> Tensor:
    return self


def detach(self: Tensor) -> Tensor:
    return self.detach()


def slice(
    self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    import builtins

    # What starts before the first element starts there; Python would count from the end.
    every: Any = builtins.slice(start, end, step)
    return self[(builtins.slice(None),) * (dim % self.dim()) + (every,)]


def index(self: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    import builtins

    return self[tuple(builtins.slice(None) if i is None else i for i in indices)]


def index_put_(
    self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False
) -> Tensor:
    if all(i is not None for i in indices):
        return self.index_put_(tuple(indices), values, accumulate)
    import builtins

    key = tuple(builtins.slice(None) if i is None else i for i in indices)
    self[key] = self[key] + values if accumulate else values
    return self


def index_put(
    self: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Tensor:
    return index_put_(self.clone(), indices, values, accumulate)


def _unsafe_view(self: Tensor, size: Any) -> Tensor:
    return self.reshape(size)


def _reshape_alias(self: Tensor, size: Any, stride: Any) -> Tensor:
    return self.as_strided(size, stride, self.storage_offset())


def _to_copy(self: Tensor, **options: Any) -> Tensor:
    named = {k: v for k, v in options.items() if k in ("dtype", "device", "memory_format")}
    return self.to(**named, copy=True)


def copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return self.clone().copy_(src)


def zero(self: Tensor) -> Tensor:
    return torch.zeros_like(self)


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    return self.clone()


def lift_fresh_copy(self: Tensor) -> Tensor:
    return self.clone()


def split_with_sizes(self: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
    return torch.split(self, list(split_sizes), dim)


def _local_scalar_dense(self: Tensor) -> Any:
    return self.item()


def constant_pad_nd(self: Tensor, pad: Sequence[int], value: Any = 0) -> Tensor:
    return F.pad(self, tuple(pad), "constant", value)


def reflection_pad1d(self: Tensor, padding: Sequence[int]) -> Tensor:
    return F.pad(self, tuple(padding), "reflect")


def replication_pad1d(self: Tensor, padding: Sequence[int]) -> Tensor:
    return F.pad(self, tuple(padding), "replicate")


reflection_pad2d = reflection_pad3d = reflection_pad1d
replication_pad2d = replication_pad3d = replication_pad1d


# --- layers ----------------------------------------------------------------------------------


def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return F.softmax(self, dim, dtype=torch.float32 if half_to_float else None)


def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return F.log_softmax(self, dim, dtype=torch.float32 if half_to_float else None)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    kind = f"{weight.dim() - 2}d"
    options = [s[0] if len(s) == 1 else tuple(s) for s in (stride, padding, dilation)]
    if transposed:
        extra = output_padding[0] if len(output_padding) == 1 else tuple(output_padding)
        function = getattr(F, f"conv_transpose{kind}")
        found: Tensor = function(
            input, weight, bias, options[0], options[1], extra, groups, options[2]
        )
        return found
    found = getattr(F, f"conv{kind}")(input, weight, bias, *options, groups)
    return found


def _convolution(*args: Any) -> Tensor:
    return convolution(*args[:9])


def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    return F.embedding(
        indices,
        weight,
        None if padding_idx < 0 else padding_idx,
        scale_grad_by_freq=scale_grad_by_freq,
        sparse=sparse,
    )


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    return F.dropout(input, p, train)


def elu(self: Tensor, alpha: float = 1, scale: float = 1, input_scale: float = 1) -> Tensor:
    return scale * F.elu(self * input_scale, alpha)


def max_pool2d_with_indices(
    self: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    return F.max_pool2d(
        self, kernel_size, _or_none(stride), padding, dilation, ceil_mode, return_indices=True
    )


def max_pool3d_with_indices(
    self: Tensor,
    kernel_size: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Any:
    return F.max_pool3d(
        self, kernel_size, _or_none(stride), padding, dilation, ceil_mode, return_indices=True
    )


def avg_pool2d(self: Tensor, kernel_size: Any, stride: Any = (), *rest: Any) -> Tensor:
    return F.avg_pool2d(self, kernel_size, _or_none(stride), *rest)


def avg_pool3d(self: Tensor, kernel_size: Any, stride: Any = (), *rest: Any) -> Tensor:
    return F.avg_pool3d(self, kernel_size, _or_none(stride), *rest)


def _adaptive_avg_pool2d(self: Tensor, output_size: Any) -> Tensor:
    return F.adaptive_avg_pool2d(self, output_size)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def _scaled_dot_product_flash_attention_for_cpu(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    out = F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale
    )
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query @ key.transpose(-2, -1)).detach() * factor
    if is_causal:
        scores = scores.masked_fill(
            ~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), -torch.inf
        )
    elif attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attn_mask, -torch.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask.detach()
    return out, scores.logsumexp(-1)


def im2col(self: Tensor, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Tensor:
    return F.unfold(self, kernel_size, dilation, padding, stride)


def col2im(
    self: Tensor, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any
) -> Tensor:
    return F.fold(self, output_size, kernel_size, dilation, padding, stride)


# --- losses: reductions are numbers ------------------------------------------------------------


def mse_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return F.mse_loss(self, target, reduction=_REDUCTIONS[reduction])


def l1_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return F.l1_loss(self, target, reduction=_REDUCTIONS[reduction])


def smooth_l1_loss(self: Tensor, target: Tensor, reduction: int = 1, beta: float = 1.0) -> Tensor:
    return F.smooth_l1_loss(self, target, reduction=_REDUCTIONS[reduction], beta=beta)


def huber_loss(self: Tensor, target: Tensor, reduction: int = 1, delta: float = 1.0) -> Tensor:
    return F.huber_loss(self, target, reduction=_REDUCTIONS[reduction], delta=delta)


def soft_margin_loss(self: Tensor, target: Tensor, reduction: int = 1) -> Tensor:
    return F.soft_margin_loss(self, target, reduction=_REDUCTIONS[reduction])


def kl_div(self: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    if reduction == 1:  # of all elements, where F.kl_div's "mean" warns
        return F.kl_div(self, target, reduction="none", log_target=log_target).mean()
    return F.kl_div(self, target, reduction=_REDUCTIONS[reduction], log_target=log_target)


def binary_cross_entropy(
    self: Tensor, target: Tensor, weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    return F.binary_cross_entropy(self, target, weight, reduction=_REDUCTIONS[reduction])


def binary_cross_entropy_with_logits(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    return F.binary_cross_entropy_with_logits(
        self, target, weight, reduction=_REDUCTIONS[reduction], pos_weight=pos_weight
    )


def nll_loss(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
) -> Tensor:
    return F.nll_loss(
        self, target, weight, ignore_index=ignore_index, reduction=_REDUCTIONS[reduction]
    )


nll_loss2d = nll_loss_nd = nll_loss


def nll_loss_forward(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> tuple[Tensor, Tensor]:
    loss = nll_loss(self, target, weight, reduction, ignore_index)
    if reduction == 0:
        return loss, loss.new_zeros(())
    counts = (target != ignore_index).to(self.dtype)
    if weight is not None:
        counts = counts * weight[torch.where(target == ignore_index, 0, target)]
    return loss, counts.sum()


nll_loss2d_forward = nll_loss_forward


def cross_entropy_loss(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = 1,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Tensor:
    return F.cross_entropy(
        self,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=_REDUCTIONS[reduction],
        label_smoothing=label_smoothing,
    )


def _unique2(
    self: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False
) -> Any:
    return torch.unique(self, sorted, True, True)


def _sparse_addmm(
    self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1
) -> Tensor:
    return torch.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def _sparse_mm_reduce_impl(self: Any, other: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
    counts, columns = self.crow_indices().diff(), self.col_indices()
    row = torch.repeat_interleave(torch.arange(len(counts)), counts).unsqueeze(-1)
    products = self.values().unsqueeze(-1) * other[columns]
    out = products.new_zeros(len(counts), other.shape[1])
    result = out.scatter_reduce(0, row.expand_as(products), products, reduce, include_self=False)
    return result, torch.empty(0, dtype=torch.int64)  # it differentiates itself: no places kept
