"""Attention with several heads as a function."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor
from rushlight._redirect import foreign, redirect

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["multi_head_attention_forward"]

_ops = _C._namespaces[""]
_nn = _C._namespaces["nn.functional"]


def _none_or_dtype(input: Tensor | None) -> Any:
    """The dtype of a tensor that may not be there."""
    return None if input is None else input.dtype


def _canonical_mask(
    mask: Tensor | None,
    mask_name: str,
    other_type: Any,
    other_name: str,
    target_type: Any,
    check_other: bool = True,
) -> Tensor | None:
    """A mask that is added to scores: minus infinity where a boolean mask is True."""
    if mask is None:
        return None
    if mask.dtype != _C.bool and not mask.is_floating_point():
        raise AssertionError(
            f"only bool and floating types of {mask_name} are supported, got {mask.dtype}"
        )
    if check_other and other_type is not None and mask.dtype != other_type:
        import warnings

        warnings.warn(
            f"Support for mismatched {mask_name} and {other_name} is deprecated. "
            "Use same type for both instead.",
            stacklevel=3,
        )
    if mask.is_floating_point():
        return mask
    return _ops["zeros_like"](mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _check_dims(name: str, tensor: Tensor, allowed: tuple[int, ...], query: str) -> None:
    if tensor.dim() not in allowed:
        wanted = " or ".join(f"{d}-D" for d in allowed)
        raise AssertionError(
            f"For {query} `query`, expected `{name}` to be {wanted} but found "
            f"{tensor.dim()}-D tensor instead"
        )


def _check_shapes(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_padding_mask: Tensor | None,
    attn_mask: Tensor | None,
    num_heads: int,
) -> bool:
    """Whether there is a batch dimension; raises where the tensors do not fit together."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            "query should be unbatched 2D or batched 3D tensor but received "
            f"{query.dim()}-D query tensor"
        )
    batched = query.dim() == 3
    text = "batched (3-D)" if batched else "unbatched (2-D)"
    for name, tensor in (("key", key), ("value", value)):
        _check_dims(name, tensor, (query.dim(),), text)
    if key_padding_mask is not None:
        _check_dims("key_padding_mask", key_padding_mask, (query.dim() - 1,), text)
    if attn_mask is not None:
        _check_dims("attn_mask", attn_mask, (2, 3), text)
        expected = (num_heads, query.shape[0], key.shape[0])
        if not batched and attn_mask.dim() == 3 and tuple(attn_mask.shape) != expected:
            raise AssertionError(
                f"Expected `attn_mask` shape to be {expected} but got {tuple(attn_mask.shape)}"
            )
    return batched


def _projected(
    query: Tensor, key: Tensor, value: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Query, key and value through the packed weights, with as few products as possible."""
    width = query.size(-1)
    if key is value and query is key:
        return _nn["linear"](query, weight, bias).split(width, -1)
    if key is value:
        own, other = weight.split([width, 2 * width])
        own_bias, other_bias = (None, None) if bias is None else bias.split([width, 2 * width])
        both = _nn["linear"](key, other, other_bias).split(width, -1)
        return (_nn["linear"](query, own, own_bias), *both)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    inputs = zip((query, key, value), weight.chunk(3), biases, strict=True)
    return tuple(_nn["linear"](x, w, b) for x, w, b in inputs)


def _projected_apart(
    inputs: tuple[Tensor, ...], weights: tuple[Any, ...], bias: Tensor | None
) -> tuple[Tensor, ...]:
    """Query, key and value through weights of their own."""
    width = inputs[0].size(-1)
    biases = (None, None, None) if bias is None else bias.chunk(3)
    results = []
    for name, x, w, b in zip("qkv", inputs, weights, biases, strict=True):
        if w is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
        if tuple(w.shape) != (width, x.size(-1)):
            raise AssertionError(
                f"expecting {name} weights shape of {(width, x.size(-1))}, but got {tuple(w.shape)}"
            )
        results.append(_nn["linear"](x, w, b))
    return tuple(results)


def _check_attn_mask(mask: Tensor, batch: int, heads: int, target: int, source: int) -> Tensor:
    """The mask as it is added to scores of (batch, heads, target, source)."""
    expected = (target, source) if mask.dim() == 2 else (batch * heads, target, source)
    if tuple(mask.shape) != expected:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}."
        )
    return mask if mask.dim() == 2 else mask.view(batch, heads, target, source)


def _check_sizes(
    key: Tensor, value: Tensor, width: int, expected: int, num_heads: int, apart: bool
) -> None:
    if width != expected:
        raise AssertionError(f"was expecting embedding dimension of {expected}, but got {width}")
    if width % num_heads != 0:
        raise AssertionError(f"embed_dim {width} not divisible by num_heads {num_heads}")
    if apart and key.shape[:2] != value.shape[:2]:
        raise AssertionError(
            f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
        )
    if not apart and key.shape != value.shape:
        raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")


def _static(name: str, tensor: Tensor, batch: int, num_heads: int, head_dim: int) -> Tensor:
    """Keys or values that are given by head."""
    if tensor.size(0) != batch * num_heads or tensor.size(2) != head_dim:
        raise AssertionError(
            f"expecting {name} of sizes ({batch * num_heads}, *, {head_dim}), but got "
            f"{tuple(tensor.shape)}"
        )
    return tensor.unflatten(0, (batch, num_heads))


def _extra_keys(
    bias_k: Tensor | None, bias_v: Tensor | None, zero: bool, like: Tensor, static: bool
) -> list[tuple[Tensor, Tensor]]:
    """Keys and values that every sequence gets: learned ones, and zeros."""
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must be given together")
    if bias_k is not None and static:
        raise AssertionError("bias cannot be added to static key or value.")
    batch, num_heads, _, head_dim = like.shape
    pairs = []
    if bias_k is not None and bias_v is not None:
        pairs.append((bias_k, bias_v))
    if zero:
        nothing = like.new_zeros(num_heads * head_dim)
        pairs.append((nothing, nothing))
    shape = (1, num_heads, 1, head_dim)
    return [
        (k.view(shape).expand(batch, -1, -1, -1), v.view(shape).expand(batch, -1, -1, -1))
        for k, v in pairs
    ]


def _widened(mask: Tensor | None) -> Tensor | None:
    """A mask for one more key, which everyone sees."""
    return None if mask is None else _nn["pad"](mask, (0, 1))


def _with_padding(mask: Tensor | None, padding: Tensor, batch: int, source: int) -> Tensor:
    if tuple(padding.shape) != (batch, source):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, source)}, but got {tuple(padding.shape)}"
        )
    padding = padding.view(batch, 1, 1, source)
    return padding if mask is None else mask + padding


def _with_weights(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """What attention finds, and the weights it gives to keys."""
    scores = (q * math.sqrt(1.0 / q.size(-1))) @ k.transpose(-2, -1)
    weights = _nn["softmax"](scores if mask is None else scores + mask, -1)
    if dropout_p > 0.0:
        weights = _nn["dropout"](weights, dropout_p)
    return weights @ v, weights


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
    _batch_first: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Attention with several heads of (length, batch, width); see nn.MultiheadAttention.

    >>> import rushlight as torch
    >>> x, eye = torch.ones(3, 1, 2), torch.eye(2)
    >>> output, weights = torch.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 2, 1, eye.repeat(3, 1), None, None, None, False, 0.0, eye, None
    ... )
    >>> output.flatten().tolist(), weights.shape
    ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0], torch.Size([1, 3, 3]))
    """
    if type(query) is not Tensor and foreign(query):
        given = locals()
        if not given.pop("_batch_first"):  # which is our own
            for name in list(given)[17:24]:  # is_causal goes before these
                given[name] = given.pop(name)
            return redirect(multi_head_attention_forward, given)
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    batch_dim = 0 if _batch_first and batched else 1
    if not batched:
        same = key is query, value is key
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    batch, target, width = query.size(batch_dim), query.size(1 - batch_dim), query.size(2)
    _check_sizes(key, value, width, embed_dim_to_check, num_heads, use_separate_proj_weight)
    if key.size(batch_dim) != batch and (static_k is None or static_v is None):
        raise RuntimeError(
            f"the batch sizes of query and key must match, got query of shape {list(query.shape)} "
            f"and key of shape {list(key.shape)} with the batch in dimension {batch_dim}"
        )
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    is_causal = is_causal and key_padding_mask is None and not need_weights
    mask = None
    if attn_mask is not None and not is_causal:
        mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
        assert mask is not None
        mask = _check_attn_mask(mask, batch, num_heads, target, key.size(1 - batch_dim))

    if use_separate_proj_weight:
        apart = (q_proj_weight, k_proj_weight, v_proj_weight)
        projected = _projected_apart((query, key, value), apart, in_proj_bias)
    elif in_proj_weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    else:
        projected = _projected(query, key, value, in_proj_weight, in_proj_bias)
    head_dim = width // num_heads

    def by_head(x: Tensor) -> Tensor:
        return x.unflatten(-1, (num_heads, head_dim)).movedim((batch_dim, 2), (0, 1))

    q, k, v = map(by_head, projected)
    static = static_k is not None or static_v is not None
    if static_k is not None:
        k = _static("static_k", static_k, batch, num_heads, head_dim)
    if static_v is not None:
        v = _static("static_v", static_v, batch, num_heads, head_dim)
    for more_k, more_v in _extra_keys(bias_k, bias_v, add_zero_attn, k, static):
        k = _ops["cat"]([k, more_k], 2)
        v = _ops["cat"]([v, more_v], 2)
        mask, key_padding_mask = _widened(mask), _widened(key_padding_mask)
    if key_padding_mask is not None:
        mask = _with_padding(mask, key_padding_mask, batch, k.size(2))

    dropout_p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        attended, weights = _with_weights(q, k, v, mask, dropout_p)
        weights = weights.mean(dim=1) if average_attn_weights else weights
    else:
        attended = _nn["scaled_dot_product_attention"](q, k, v, mask, dropout_p, is_causal)
    joined = attended.movedim((0, 1), (batch_dim, 2)).flatten(2)
    output = _nn["linear"](joined, out_proj_weight, out_proj_bias)
    if batch_dim == 0 and training and _C.default_generator._torch:
        # PyTorch's layout: dropout that follows draws its numbers in the order of memory.
        output = output.transpose(0, 1).contiguous().transpose(0, 1)
    if batched:
        return output, weights
    return output.squeeze(1), None if weights is None else weights.squeeze(0)
