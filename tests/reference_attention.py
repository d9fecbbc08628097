"""NumPy's answer for attention; `references` imports it."""

import numpy as np


def attention(
    q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False
):
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    if enable_gqa:
        k, v = (np.repeat(t, q.shape[-3] // t.shape[-3], axis=-3) for t in (k, v))
    scores = scale * q @ np.swapaxes(k, -1, -2)
    if attn_mask is not None and attn_mask.dtype == bool:
        attn_mask = np.where(attn_mask, 0.0, -np.inf)
    scores = scores if attn_mask is None else scores + attn_mask
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
    largest = scores.max(-1, keepdims=True, initial=-np.inf)
    weights = np.exp(scores - np.where(np.isinf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


REFERENCES = {"nn.functional.scaled_dot_product_attention": attention}
