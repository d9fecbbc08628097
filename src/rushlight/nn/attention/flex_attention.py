"""Attention whose scores a function of yours changes, and whose mask is a function too.

``score_mod(score, batch, head, query, key)`` gives the new score of a pair of places, ``mask_mod``
says whether the pair counts. Both are written for one pair, with plain tensor operations. A
``BlockMask`` knows which blocks of the scores hold pairs that count: the others are not computed.

>>> import rushlight as torch
>>> from rushlight.nn.attention.flex_attention import create_block_mask, flex_attention
>>> q = k = v = torch.eye(3)[None, None]
>>> causal = create_block_mask(lambda b, h, i, j: i >= j, None, None, 3, 3)
>>> flex_attention(q, k, v, lambda score, b, h, i, j: score - 100.0 * (i - j), causal).round()
tensor([[[[1., 0., 0.],
          [0., 1., 0.],
          [0., 0., 1.]]]])
"""

from __future__ import annotations

import inspect
import math
from typing import Any, NamedTuple, TypedDict

import rushlight as torch
from rushlight.func import vmap
from rushlight.nn.attention._blocks import (
    BlockMask,
    _convert_mask_to_block_mask,
    _create_sparse_block_from_block_mask,
    noop_mask,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight._C import Tensor

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask",
    "create_mask", "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_DEFAULT_SPARSE_BLOCK_SIZE = 128
_LARGE_SPARSE_BLOCK_SIZE = 1 << 30
_score_mod_signature = _mask_mod_signature = Any


class AuxRequest(NamedTuple):
    """What ``flex_attention`` shall return besides the output."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for: the logarithm of the sum of exp(scores), the largest score."""

    lse: Any = None
    max_scores: Any = None


class FlexKernelOptions(TypedDict, total=False):
    """Hints for kernels on GPUs; on the CPU they have no effect.

    >>> from rushlight.nn.attention.flex_attention import FlexKernelOptions
    >>> FlexKernelOptions(BLOCK_M=64)
    {'BLOCK_M': 64}
    """

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    BACKEND: str


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """A pair counts where one of the masks says so.

    >>> from rushlight.nn.attention.flex_attention import create_mask, or_masks
    >>> first, own = lambda b, h, i, j: j == 0, lambda b, h, i, j: i == j
    >>> create_mask(or_masks(first, own), None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    _check_callable(mask_mods)

    def any_of(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        found = b.new_zeros((), dtype=torch.bool)
        for mask in mask_mods:
            found = found | mask(b, h, q_idx, kv_idx)
        return found

    return any_of


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """A pair counts where all of the masks say so.

    >>> from rushlight.nn.attention.flex_attention import and_masks, create_mask
    >>> causal, near = lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 1
    >>> create_mask(and_masks(causal, near), None, None, 2, 2)
    tensor([[[[ True, False],
              [False,  True]]]])
    """
    _check_callable(mask_mods)

    def all_of(b: Any, h: Any, q_idx: Any, kv_idx: Any) -> Any:
        found = b.new_ones((), dtype=torch.bool)
        for mask in mask_mods:
            found = found & mask(b, h, q_idx, kv_idx)
        return found

    return all_of


def _check_callable(mask_mods: tuple[Any, ...]) -> None:
    if not all(callable(mask) for mask in mask_mods):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")


def _over_all_pairs(mod: Callable[..., Any], scores: bool) -> Callable[..., Any]:
    """The function of one pair as one of all: of scores (b, h, q, k) and the places' numbers."""
    prefix = (0,) if scores else ()
    for dims in (
        (None, None, None, 0),
        (None, None, 0, None),
        (None, 0, None, None),
        (0, None, None, None),
    ):
        mod = vmap(mod, in_dims=prefix + dims, out_dims=0)
    return mod


def create_mask(
    mod_fn: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
) -> Tensor:
    """What a mask or score function says of every pair, as a tensor (B, H, Q_LEN, KV_LEN).

    >>> from rushlight.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, i, j: i >= j, None, None, 2, 3)
    tensor([[[[ True, False, False],
              [ True,  True, False]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = [torch.arange(size, device=device) for size in sizes]
    required = [
        p
        for p in inspect.signature(mod_fn).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if len(required) == 5:
        scores = torch.zeros(sizes, device=device)
        masked = _over_all_pairs(mod_fn, True)(scores, *places)
        return torch.where(torch.isneginf(masked), False, True)
    if len(required) not in (0, 4):
        raise AssertionError(
            f"create_mask: expected a score_mod of 5 arguments or a mask_mod of 4, got {mod_fn}"
        )
    return _over_all_pairs(mod_fn, False)(*places)


def create_block_mask(
    mask_mod: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = _DEFAULT_SPARSE_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """Which blocks of the scores a mask leaves something of; None for B or H: the same for all.

    >>> from rushlight.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 256, 256)
    >>> mask.shape, mask.sparsity()
    ((1, 1, 256, 256), 25.0)
    """
    block = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    partial, full = _convert_mask_to_block_mask(mask, block[0], block[1], separate_full_blocks)
    return _create_sparse_block_from_block_mask(
        (partial, full), mask_mod, (Q_LEN, KV_LEN), block[0], block[1]
    )


def flex_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: FlexKernelOptions | None = None,
    *,
    return_aux: AuxRequest | None = None,
) -> Any:
    """Attention with changed scores and a mask, differentiable, also by what ``score_mod`` uses.

    Rows of blocks are computed one after the other, with the blocks that the mask leaves. A row
    without any pair gives zeros.

    >>> import rushlight as torch
    >>> from rushlight.nn.attention.flex_attention import flex_attention
    >>> q = k = torch.zeros(1, 1, 2, 4)
    >>> v = torch.tensor([[[[1.0], [3.0]]]])
    >>> slope = torch.tensor(0.0, requires_grad=True)
    >>> out = flex_attention(q, k, v, lambda score, b, h, i, j: score + slope * j)
    >>> out
    tensor([[[[2.],
              [2.]]]], grad_fn=<CatBackward0>)
    """
    _check_inputs(query, key, value, enable_gqa)
    batch, heads, rows, width = query.shape
    columns = key.shape[2]
    if block_mask is not None:
        block_mask = _fitting(block_mask, query, columns)
    groups = heads // key.shape[1]
    if groups > 1:
        key = key.repeat_interleave(groups, 1)
        value = value.repeat_interleave(groups, 1)
    if key.shape[0] != batch:
        key = key.expand(batch, -1, -1, -1)
        value = value.expand(batch, -1, -1, -1)
    factor = 1.0 / math.sqrt(width) if scale is None else scale
    change = None if score_mod is None else _over_all_pairs(score_mod, True)
    parts = [
        _attend(query, key, value, factor, change, *row)
        for row in _rows(block_mask, batch, heads, rows, columns, query.device)
    ]
    outputs, sums, largest = (torch.cat(column, 2) for column in zip(*parts, strict=True))
    if return_aux is not None:
        lse = sums if return_aux.lse else None
        return outputs, AuxOutput(lse, largest if return_aux.max_scores else None)
    return (outputs, sums) if return_lse else outputs


def _check_inputs(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> None:
    shapes = f"query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}"
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        raise NotImplementedError(f"NYI: query, key, and value must be 4D tensors, got {shapes}")
    if not query.dtype == key.dtype == value.dtype:
        raise ValueError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{query.dtype}, key.dtype: {key.dtype}, and value.dtype: {value.dtype} instead."
        )
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(
            f"Expect query and key/value to have the same embedding dimension but got {shapes}"
        )
    if key.shape[:3] != value.shape[:3]:
        raise ValueError(f"flex_attention: key and value differ in more than width: {shapes}")
    if key.shape[0] not in (1, query.shape[0]):
        raise ValueError(
            f"Expect query and key/value to have the same batch size, or key/value 1: {shapes}"
        )
    if not enable_gqa and query.shape[1] != key.shape[1]:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got {shapes}. Try "
            "setting enable_gqa=True for GQA."
        )
    if enable_gqa and (key.shape[1] == 0 or query.shape[1] % key.shape[1] != 0):
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got {shapes}"
        )


def _fitting(mask: BlockMask, query: Tensor, columns: int) -> BlockMask:
    """The mask, cut to the lengths of a call that are shorter than its own."""
    batch, heads, rows = query.shape[:3]
    for name, has, given in (
        ("batch size", mask.shape[0], batch),
        ("number of heads", mask.shape[1], heads),
    ):
        if has not in (1, given):
            raise ValueError(
                f"block_mask was created for {name} {has}, which does not broadcast to {given}"
            )
    longest = mask.seq_lengths
    if rows > longest[0] or columns > longest[1]:
        raise ValueError(
            f"block_mask was created for block_mask.shape={mask.shape} but got q_len={rows} and "
            f"kv_len={columns}. As the block mask was created for a smaller length than you're "
            "using it for, you likely need to create a new block mask."
        )
    return mask if (rows, columns) == longest else mask._adjust(rows, columns)


def _rows(
    mask: BlockMask | None, batch: int, heads: int, rows: int, columns: int, device: Any
) -> Any:
    """(rows, columns, which pairs count) for what is computed at once; None: all columns, all."""
    if mask is None:
        yield slice(0, rows), None, None
        return
    dense = mask._blocks()  # (B, H, row of blocks, column of blocks): 0 none, 1 some, 2 all
    high, wide = mask.BLOCK_SIZE
    by_pairs = _over_all_pairs(mask.mask_mod, False)
    b, h = (torch.arange(n, device=device) for n in (mask.shape[0], mask.shape[1]))
    for number in range(dense.shape[2]):
        row = slice(number * high, min((number + 1) * high, rows))
        kinds = dense[:, :, number]
        used = (kinds > 0).any(0).any(0).nonzero().flatten()
        if len(used) == dense.shape[3]:
            chosen, places = None, torch.arange(columns, device=device)
        else:
            chosen = (used[:, None] * wide + torch.arange(wide, device=device)).flatten()
            chosen = places = chosen[chosen < columns]
        kind = kinds[:, :, places // wide][:, :, None, :]
        if bool((kind == 2).all()):
            yield row, chosen, None
            continue
        i = torch.arange(row.start, row.stop, device=device)
        yield row, chosen, (kind == 2) | ((kind == 1) & by_pairs(b, h, i, places))


def _attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    factor: float,
    change: Callable[..., Any] | None,
    row: slice,
    chosen: Tensor | None,
    counts: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The output, the logarithm of the sum and the largest score of some rows."""
    device = query.device
    if chosen is not None:
        key, value = key[:, :, chosen], value[:, :, chosen]
    # Scores of halves are float32, as sums of many of them need.
    exact = torch.float64 if query.dtype is torch.float64 else torch.float32
    scores = (query[:, :, row] @ key.transpose(-2, -1)).to(exact) * factor
    if change is not None:
        places = torch.arange(key.shape[2], device=device) if chosen is None else chosen
        b, h = (torch.arange(n, device=device) for n in query.shape[:2])
        found = change(scores, b, h, torch.arange(row.start, row.stop, device=device), places)
        if found.shape != scores.shape:
            raise RuntimeError(
                "flex_attention: score_mod must give one number for each score, got a tensor of "
                f"shape {list(found.shape[4:])}"
            )
        scores = found
    if counts is not None:
        scores = torch.where(counts, scores, -math.inf)
    if scores.shape[-1] == 0:
        none = scores.new_full(scores.shape[:-1], -math.inf)
        return scores.to(query.dtype) @ value, none, none
    largest = scores.detach().amax(-1)
    sums = torch.logsumexp(scores, -1)
    # A row of -inf alone has no softmax: its pairs count nothing.
    empty = torch.isneginf(largest)[..., None]
    if bool(empty.any()):
        weights = torch.where(
            empty, scores.new_zeros(()), torch.where(empty, 0, scores).softmax(-1)
        )
    else:
        weights = scores.softmax(-1)
    return weights.to(query.dtype) @ value, sums, largest
