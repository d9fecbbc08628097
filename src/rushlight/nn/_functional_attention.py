"""Attention with several heads as a function."""

from __future__ import annotations

import math

from rushlight import _C
from rushlight._C import Tensor

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


def _check_attn_mask(mask: Tensor, heads: int, target: int, source: int) -> Tensor:
    """The mask with three dimensions: batch and heads, or 1, come first."""
    expected = (target, source) if mask.dim() == 2 else (heads, target, source)
    if tuple(mask.shape) != expected:
        raise RuntimeError(
            f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {expected}."
        )
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _widened(mask: Tensor | None) -> Tensor | None:
    """A mask for one more key, which everyone sees."""
    return None if mask is None else _nn["pad"](mask, (0, 1))


def _static(name: str, tensor: Tensor, heads: int, head_dim: int) -> Tensor:
    if tensor.size(0) != heads or tensor.size(2) != head_dim:
        raise AssertionError(
            f"expecting {name} of sizes ({heads}, *, {head_dim}), but got {tuple(tensor.shape)}"
        )
    return tensor


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
) -> tuple[Tensor, Tensor | None]:
    """Attention with several heads of (length, batch, width); see nn.MultiheadAttention."""
    batched = _check_shapes(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = key is query, value is key
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    target, batch, width = query.shape
    head_dim, heads = width // num_heads, batch * num_heads
    _check_sizes(key, value, width, embed_dim_to_check, num_heads, use_separate_proj_weight)
    key_padding_mask = _canonical_mask(
        key_padding_mask, "key_padding_mask", _none_or_dtype(attn_mask), "attn_mask", query.dtype
    )
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask."
        )
    if is_causal and key_padding_mask is None and not need_weights:
        attn_mask = None
    else:
        is_causal = is_causal and key_padding_mask is None
        attn_mask = _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)

    if use_separate_proj_weight:
        apart = (q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _projected_apart((query, key, value), apart, in_proj_bias)
    elif in_proj_weight is None:
        raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
    else:
        q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias)
    if attn_mask is not None:
        attn_mask = _check_attn_mask(attn_mask, heads, target, key.size(0))
    if (bias_k is None) != (bias_v is None):
        raise AssertionError("bias_k and bias_v must be given together")
    if bias_k is not None and bias_v is not None:
        if static_k is not None or static_v is not None:
            raise AssertionError("bias cannot be added to static key or value.")
        k = _ops["cat"]([k, bias_k.repeat(1, batch, 1)])
        v = _ops["cat"]([v, bias_v.repeat(1, batch, 1)])
        attn_mask, key_padding_mask = _widened(attn_mask), _widened(key_padding_mask)

    def by_head(x: Tensor) -> Tensor:
        return x.reshape(x.size(0), heads, head_dim).transpose(0, 1)

    q = by_head(q)
    k = by_head(k) if static_k is None else _static("static_k", static_k, heads, head_dim)
    v = by_head(v) if static_v is None else _static("static_v", static_v, heads, head_dim)
    if add_zero_attn:
        zero = _ops["zeros"]((heads, 1, head_dim), dtype=k.dtype)
        k, v = _ops["cat"]([k, zero], 1), _ops["cat"]([v, zero], 1)
        attn_mask, key_padding_mask = _widened(attn_mask), _widened(key_padding_mask)
    source = k.size(1)
    if key_padding_mask is not None:
        attn_mask = _with_padding(attn_mask, key_padding_mask, batch, num_heads, source)

    dropout_p = dropout_p if training else 0.0
    weights = None
    if need_weights:
        attended, weights = _attend(q, k, v, attn_mask, dropout_p)
        weights = weights.view(batch, num_heads, target, source)
        weights = weights.mean(dim=1) if average_attn_weights else weights
    else:
        if attn_mask is not None and attn_mask.size(0) != 1:
            attn_mask = attn_mask.view(batch, num_heads, -1, source)
        shape = (batch, num_heads, -1, head_dim)
        attended = _nn["scaled_dot_product_attention"](
            q.unflatten(0, shape[:2]),
            k.unflatten(0, shape[:2]),
            v.unflatten(0, shape[:2]),
            attn_mask,
            dropout_p,
            is_causal,
        ).flatten(0, 1)
    joined = attended.transpose(0, 1).reshape(target, batch, width)
    output = _nn["linear"](joined, out_proj_weight, out_proj_bias)
    if batched:
        return output, weights
    return output.squeeze(1), None if weights is None else weights.squeeze(0)


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


def _with_padding(
    mask: Tensor | None, padding: Tensor, batch: int, num_heads: int, source: int
) -> Tensor:
    if tuple(padding.shape) != (batch, source):
        raise AssertionError(
            f"expecting key_padding_mask shape of {(batch, source)}, but got {tuple(padding.shape)}"
        )
    padding = padding.view(batch, 1, 1, source).expand(-1, num_heads, -1, -1)
    padding = padding.reshape(batch * num_heads, 1, source)
    return padding if mask is None else mask + padding


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """What attention finds, and the weights it gives to keys."""
    q = q * math.sqrt(1.0 / q.size(-1))
    keys = k.transpose(-2, -1)
    scores = _ops["bmm"](q, keys) if mask is None else _ops["baddbmm"](mask, q, keys)
    weights = _nn["softmax"](scores, -1)
    if dropout_p > 0.0:
        weights = _nn["dropout"](weights, dropout_p)
    return _ops["bmm"](weights, v), weights
