"""NumPy's answer for normalisations by channel; `references` imports it."""

import numpy as np


def by_channel(v, ndim):
    return v.reshape((1, -1) + (1,) * (ndim - 2))


def affine(y, weight, bias):
    y = y if weight is None else y * by_channel(weight, y.ndim)
    return y if bias is None else y + by_channel(bias, y.ndim)


def native_batch_norm(x, weight, bias, mean, var, training, momentum, eps):
    axes = (0, *range(2, x.ndim))
    if training:
        mean, var = x.mean(axes), x.var(axes)
    y = (x - by_channel(mean, x.ndim)) / np.sqrt(by_channel(var, x.ndim) + eps)
    kept = (mean, 1 / np.sqrt(var + eps)) if training else (np.zeros(0), np.zeros(0))
    return affine(y, weight, bias), *kept


def batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if x.size == 0:
        return x
    return native_batch_norm(x, weight, bias, mean, var, training, momentum, eps)[0]


def native_group_norm(x, weight, bias, n, c, inner, groups, eps):
    rows = x.reshape(n, groups, -1)
    mean, var = rows.mean(2, keepdims=True), rows.var(2, keepdims=True)
    y = ((rows - mean) / np.sqrt(var + eps)).reshape(x.shape)
    return affine(y, weight, bias), mean[..., 0], 1 / np.sqrt(var[..., 0] + eps)


def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    if x.size == 0:
        return x
    return native_group_norm(x, weight, bias, x.shape[0], None, None, num_groups, eps)[0]


def instance_norm(
    x, mean=None, var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    if not use_input_stats:
        return batch_norm(x, mean, var, weight, bias, False, momentum, eps)
    axes = tuple(range(2, x.ndim))
    mean, var = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return affine((x - mean) / np.sqrt(var + eps), weight, bias)


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    out = np.empty_like(x)
    for c in range(x.shape[1]):
        near = x[:, max(c - size // 2, 0) : c + (size - 1) // 2 + 1]
        out[:, c] = x[:, c] / (k + alpha * (near**2).sum(1) / size) ** beta
    return out


def normalize(x, p=2.0, dim=1, eps=1e-12):
    norm = (np.abs(x) ** p).sum(dim, keepdims=True) ** (1 / p)
    return x / np.maximum(norm, eps)


REFERENCES = {
    "nn.functional.batch_norm": batch_norm,
    "batch_norm": lambda x, w, b, m, v, *rest: native_batch_norm(x, w, b, m, v, *rest[:3])[0],
    "native_batch_norm": native_batch_norm,
    "nn.functional.group_norm": group_norm,
    "group_norm": group_norm,
    "native_group_norm": native_group_norm,
    "nn.functional.instance_norm": instance_norm,
    "instance_norm": lambda x, w, b, m, v, *rest: instance_norm(x, m, v, w, b, *rest[:3]),
    "nn.functional.local_response_norm": local_response_norm,
    "nn.functional.normalize": normalize,
}
