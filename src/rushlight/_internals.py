"""Forms of functions that PyTorch's own code and graphs of its ops call: in place, by number, or
with a name that starts with an underscore."""

from __future__ import annotations

from rushlight import _C
from rushlight._C import Tensor
from rushlight._composed import _into

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

# Methods as functions, and what the docstring of each shows.
METHODS = {
    "as_strided_": ("torch.as_strided_(torch.arange(4.0), (2,), (2,))", "tensor([0., 2.])"),
    "detach": ("torch.detach(torch.ones(1, requires_grad=True)).requires_grad", "False"),
    "detach_": ("torch.detach_(torch.ones(1) * 2)", "tensor([2.])"),
    "gcd_": ("torch.gcd_(torch.tensor([12]), torch.tensor([8]))", "tensor([4])"),
    "lcm_": ("torch.lcm_(torch.tensor([4]), torch.tensor([6]))", "tensor([12])"),
    "resize_as_": ("torch.resize_as_(torch.ones(2), torch.ones(1)).shape", "torch.Size([1])"),
    "zero_": ("torch.zero_(torch.ones(2))", "tensor([0., 0.])"),
}

_ops = _C._namespaces[""]


def _function(name: str, example: str, result: str) -> Callable[..., Any]:
    def call(input: Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(input, name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""The method ``Tensor.{name}`` as a function.

    >>> import rushlight as torch
    >>> {example}
    {result}
    """
    return call


globals().update({name: _function(name, *shown) for name, shown in METHODS.items()})


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Tensor:
    """``nn.functional.rrelu``; the slopes are drawn from the default generator.

    >>> import rushlight as torch
    >>> torch.rrelu(torch.tensor([-2.0, 1.0]), 0.5, 0.5)
    tensor([-1.,  1.])
    """
    from rushlight.nn import functional as F

    if generator is not None:
        raise NotImplementedError("rrelu: draws from the default generator only; got another one")
    return F.rrelu(input, lower, upper, training)


def rrelu_(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Tensor:
    """``rrelu`` in place.

    >>> import rushlight as torch
    >>> torch.rrelu_(torch.tensor([-2.0, 1.0]), 0.5, 0.5)
    tensor([-1.,  1.])
    """
    return input.copy_(rrelu(input, lower, upper, training, generator))


def kl_div(
    input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False
) -> Tensor:
    """``nn.functional.kl_div`` with the number of a reduction: none, mean, sum.

    >>> import rushlight as torch
    >>> torch.kl_div(torch.zeros(2), torch.ones(2), 2)
    tensor(0.)
    """
    from rushlight._operators import aten_calls

    return aten_calls.kl_div(input, target, reduction, log_target=log_target)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: int = 1,
) -> Tensor:
    """``nn.functional.binary_cross_entropy_with_logits`` with the number of a reduction.

    >>> import rushlight as torch
    >>> torch.binary_cross_entropy_with_logits(torch.zeros(2), torch.ones(2))
    tensor(0.6931)
    """
    from rushlight._operators import aten_calls

    return aten_calls.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:
    """``nn.functional.ctc_loss`` with the number of a reduction: none, mean, sum.

    >>> import rushlight as torch
    >>> log_probs = torch.zeros(2, 1, 3).log_softmax(-1)
    >>> torch.ctc_loss(log_probs, torch.tensor([[1]]), [2], [1])
    tensor(1.0986)
    """
    from rushlight.nn import functional as F

    kind = ("none", "mean", "sum")[reduction]
    return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, kind, zero_infinity)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm of each slice along a dimension, kept as dimensions of 1; of all where it is -1.

    >>> import rushlight as torch
    >>> torch.norm_except_dim(torch.tensor([[3.0, 4.0], [6.0, 8.0]]))
    tensor([[ 5.],
            [10.]])
    """
    if dim == -1:
        return v.norm(pow)
    return v.norm(pow, [d for d in range(v.dim()) if d != dim % v.dim()], keepdim=True)


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """``nn.functional.affine_grid``.

    >>> import rushlight as torch
    >>> torch.affine_grid_generator(torch.eye(2, 3).unsqueeze(0), [1, 1, 1, 2], True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    from rushlight.nn import functional as F

    return F.affine_grid(theta, list(size), align_corners)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """``channel_shuffle``.

    >>> import rushlight as torch
    >>> torch.native_channel_shuffle(torch.arange(4).reshape(1, 4, 1, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    shuffled: Tensor = _ops["channel_shuffle"](input, groups)
    return shuffled


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scales the rows that the indices name, and that are longer than ``max_norm``, to that.

    >>> import rushlight as torch
    >>> torch.embedding_renorm_(torch.tensor([[3.0, 4.0], [6.0, 8.0]]), torch.tensor([1]), 5.0, 2.0)
    tensor([[3., 4.],
            [3., 4.]])
    """
    if _C.is_grad_enabled() and input.requires_grad:
        raise RuntimeError("embedding_renorm_: has no derivative: call it under torch.no_grad()")
    _C._namespaces["nn.functional"]["embedding"](indices, input, None, max_norm, norm_type)
    return input


def embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``nn.functional.embedding_bag`` with the number of a mode: sum, mean, max.

    Next to the result: the bag of each index, the sizes of bags unless the mode is sum, and the
    indices of the largest values where it is max.

    >>> import rushlight as torch
    >>> table = torch.tensor([[1.0], [2.0], [4.0]])
    >>> torch.embedding_bag(table, torch.tensor([0, 1, 2]), torch.tensor([0, 2]), mode=1)
    (tensor([[1.5000],
            [4.0000]]), tensor([0, 0, 1]), tensor([2, 1]), tensor([2, 1]))
    """
    from rushlight.nn import _functional_composites as composites

    found = composites.embedding_bag(
        indices, weight, offsets, None, 2.0, scale_grad_by_freq, ("sum", "mean", "max")[mode],
        sparse, per_sample_weights, include_last_offset, padding_idx,
    )  # fmt: skip
    flat, bag, _, count = composites._bags(indices, offsets, None, include_last_offset)
    kept = slice(None) if padding_idx is None else flat != padding_idx % weight.size(0)
    if mode == 0:
        return found, bag, bag.new_zeros(count), bag.new_zeros(count)
    sizes = bag[kept].bincount(minlength=count)
    if mode == 1:
        return found, bag, sizes, sizes.clone()
    rows, filled = composites._largest_rows(flat[kept], weight, bag[kept], count)
    return found, bag, sizes, rows.masked_fill(~filled, 0)


# ---- with an underscore


def _embedding_bag(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``embedding_bag``, where -1 stands for no padding."""
    return embedding_bag(
        weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
        include_last_offset, None if padding_idx < 0 else padding_idx,
    )  # fmt: skip


def _shape_as_tensor(input: Tensor) -> Tensor:
    """The sizes as a tensor."""
    from rushlight import tensor

    return tensor(list(input.shape), dtype=_C.int64)


def _convert_indices_from_coo_to_csr(
    input: Tensor, size: int, *, out_int32: bool = False
) -> Tensor:
    """Where each of ``size`` rows begins among sorted row numbers, and where the last one ends."""
    ends = input.bincount(minlength=size).cumsum(0)
    begins = _ops["cat"]([ends.new_zeros(1), ends])
    return begins.to(_C.int32 if out_int32 else _C.int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """The row and the column of each element; the other way round where ``transpose`` says so."""
    lengths = crow_indices.diff()
    rows = _ops["arange"](lengths.numel(), device=lengths.device).repeat_interleave(lengths)
    pair = (col_indices, rows) if transpose else (rows, col_indices)
    dtype = _C.int32 if out_int32 else _C.int64
    found: Tensor = _ops["stack"]([each.to(dtype) for each in pair])
    return found


def _safe_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax that is 0 where all elements are minus infinity, and has no slope there."""
    masked = (input == -float("inf")).all(dim, keepdim=True)
    found = _ops["softmax"](input.masked_fill(masked, 0), dim, dtype=dtype)
    return found.masked_fill(masked, 0)


def _softmax_backward_data(
    grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any, grad_input: Any = None
) -> Tensor:
    scaled = grad_output * output
    found = (scaled - output * scaled.sum(dim, keepdim=True)).to(input_dtype)
    return _into(grad_input, found, "_softmax_backward_data", exact=True)


def _native_batch_norm_legit(input: Tensor, weight: Any, bias: Any, *rest: Any) -> Any:
    """``native_batch_norm``; without running statistics they are left out."""
    stats = rest if len(rest) == 5 else (None, None, *rest)
    return _ops["native_batch_norm"](input, weight, bias, *stats)


def _batch_norm_with_update(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """``native_batch_norm`` in training, and a reserve for other devices that is empty here."""
    found = _ops["native_batch_norm"](
        input, weight, bias, running_mean, running_var, True, momentum, eps
    )
    return (*found, _ops["empty"]((0,), dtype=_C.uint8, device=input.device))


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    return grad_output * mask * scale


def _upsample_bilinear2d_aa(
    input: Tensor, output_size: Any, align_corners: bool, *scales: Any
) -> Tensor:
    """Bilinear interpolation that averages what it makes smaller. The factors are two numbers, or
    one sequence of them or nothing."""
    factors = list((scales[0] or (None, None)) if len(scales) == 1 else scales or (None, None))
    if output_size is None:
        output_size = [int(n * f) for n, f in zip(input.shape[-2:], factors, strict=True)]
    found: Tensor = _ops["_upsample_bilinear2d_aa"](
        input, tuple(output_size), align_corners, None, *factors
    )
    return found


def max_pool2d_with_indices_backward(
    grad_output: Tensor,
    input: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """What each window gave goes to where its maximum was."""
    planes = input.new_zeros(*input.shape[:-2], input.shape[-2] * input.shape[-1])
    found = planes.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2))
    return found.reshape(input.shape)


def _chunk_cat(
    tensors: Sequence[Tensor], dim: int, num_chunks: int, *, out: Tensor | None = None
) -> Tensor:
    """Each tensor in so many chunks along a dimension, zeros behind the last; joined by chunks."""
    from rushlight.nn import functional as F

    parts = []
    for t in tensors:
        at = dim % t.dim()
        size = -(-t.shape[at] // num_chunks) * num_chunks
        filled = F.pad(t, [0, 0] * (t.dim() - 1 - at) + [0, size - t.shape[at]])
        parts.append(filled.reshape(*t.shape[:at], num_chunks, -1))
    found: Tensor = _ops["cat"](parts, parts[0].dim() - 1)
    return _into(out, found, "_chunk_cat")


def _inside(input: Tensor, indices: Sequence[Any]) -> list[Any]:
    """Indices, those that lie outside moved to the border; None stands for all of a dimension."""
    return [
        slice(None) if i is None else i.clamp(-input.shape[d], input.shape[d] - 1)
        for d, i in enumerate(indices)
    ]


def _unsafe_masked_index(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], fill: Any
) -> Tensor:
    """``input[indices]`` where the mask holds, the number elsewhere."""
    return input[tuple(_inside(input, indices))].masked_fill(~mask, fill)


def _unsafe_masked_index_put_accumulate(
    input: Tensor, mask: Tensor, indices: Sequence[Tensor | None], values: Tensor
) -> Tensor:
    """The input with the values added at the indices where the mask holds."""
    from rushlight._operators import aten_calls

    places = [i if isinstance(i, Tensor) else None for i in _inside(input, indices)]
    return aten_calls.index_put(input, places, values.masked_fill(~mask, 0), True)
