"""NumPy's answer for products, activations, losses and normalisations; `references` imports it."""

import math

import numpy as np

from reference_reductions import log_softmax


def added(product):
    def f(a, x, y, beta=1, alpha=1):
        out = alpha * product(x, y)
        return out + (beta * a if beta else 0 * a)

    return f


def bilinear(a, b, weight, bias=None):
    return np.einsum("...i,kij,...j->...k", a, weight, b) + (0 if bias is None else bias)


def chain(matrices):
    out = matrices[0]
    for m in matrices[1:]:
        out = out @ m
    return out


def cross(a, b, dim=None):
    dim = next(k for k, s in enumerate(a.shape) if s == 3) if dim is None else dim
    a, b = np.broadcast_arrays(a, b)
    return np.cross(a, b, axis=dim)


# Pointwise


def clamp(a, min=None, max=None):
    a = a if min is None else np.maximum(a, min)
    return a if max is None else np.minimum(a, max)


def quotient(a, b, rounding_mode=None):
    return {None: lambda q: q, "floor": np.floor, "trunc": np.trunc}[rounding_mode](a / b)


def logit(a, eps=None):
    a = a if eps is None else np.clip(a, eps, 1 - eps)
    return np.log(a / (1 - a))


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def elu(a, alpha=1.0):
    return np.where(a > 0, a, alpha * np.expm1(a))


def celu(a, alpha=1.0):
    return np.where(a > 0, a, alpha * np.expm1(a / alpha))


def selu(a):
    return 1.0507009873554805 * elu(a, 1.6732632423543772)


def gelu(a, approximate="none"):
    if approximate == "tanh":
        return a / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a**3)))
    return a / 2 * (1 + np.vectorize(math.erf, otypes=[float])(a / math.sqrt(2)))


def leaky_relu(a, negative_slope=0.01):
    return np.where(a > 0, a, negative_slope * a)


def softshrink(a, lambd=0.5):
    return np.sign(a) * np.maximum(np.abs(a) - lambd, 0)


def threshold(a, threshold, value):
    return np.where(a > threshold, a, value)


def glu(a, dim=-1):
    first, second = np.split(a, 2, dim)
    return first * sigmoid(second)


def prelu(a, weight):
    if weight.size > 1:
        weight = weight.reshape([-1 if k == 1 else 1 for k in range(a.ndim)])
    return np.where(a > 0, a, a * weight.reshape(weight.shape if a.ndim else ()))


# Losses


def reduce_loss(losses, reduction, weight=None):
    losses = losses if weight is None else losses * weight
    if reduction == "mean" and weight is not None:
        return losses.sum() / np.broadcast_to(weight, losses.shape).sum()
    return {"none": lambda: losses, "sum": losses.sum, "mean": losses.mean}[reduction]()


def mse_loss(a, b, weight=None, reduction="mean"):
    return reduce_loss((a - b) ** 2, reduction, weight)


def l1_loss(a, b, weight=None, reduction="mean"):
    return reduce_loss(np.abs(a - b), reduction, weight)


def huber_loss(a, b, reduction="mean", delta=1.0):
    d = np.abs(a - b)
    return reduce_loss(np.where(d < delta, d * d / 2, delta * (d - delta / 2)), reduction)


def smooth_l1_loss(a, b, reduction="mean", beta=1.0):
    if beta == 0:
        return l1_loss(a, b, reduction=reduction)
    return huber_loss(a, b, reduction, beta) / beta


def binary_cross_entropy(a, b, weight=None, reduction="mean"):
    losses = -(b * np.log(a) + (1 - b) * np.log(1 - a))
    return reduce_loss(losses * (1 if weight is None else weight), reduction)


def bce_with_logits(a, b, weight=None, reduction="mean", pos_weight=1):
    losses = -(pos_weight * b * np.log(sigmoid(a)) + (1 - b) * np.log(sigmoid(-a)))
    return reduce_loss(losses * (1 if weight is None else weight), reduction)


def kl_div(a, b, reduction="mean", log_target=False):
    losses = np.exp(b) * (b - a) if log_target else b * (np.log(b) - a)
    if reduction == "batchmean":
        return losses.sum() / a.shape[0]
    return reduce_loss(losses, reduction)


def nll_loss(a, target, weight=None, reduction="mean", ignore_index=-100, smoothing=0.0):
    if a.ndim == 1:
        a, target, single = a[None], target[None], True
    else:
        single = False
    weight = np.ones(a.shape[1]) if weight is None else weight
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    picked = np.take_along_axis(a, np.expand_dims(safe, 1), 1).squeeze(1)
    factor = weight[safe] * kept
    spread = np.moveaxis(a, 1, -1) @ weight * kept / a.shape[1]
    losses = -picked * factor * (1 - smoothing) - spread * smoothing
    if reduction == "mean":
        return losses.sum() / factor.sum()
    losses = losses[0] if single and reduction == "none" else losses
    return reduce_loss(losses, reduction)


def cross_entropy(a, target, weight=None, reduction="mean", label_smoothing=0.0, **kwargs):
    a = log_softmax(a, 0 if a.ndim == 1 else 1)
    if target.shape != a.shape:
        return nll_loss(a, target, weight, reduction, smoothing=label_smoothing, **kwargs)
    target = (1 - label_smoothing) * target + label_smoothing / a.shape[1]
    losses = -(a * target * (1 if weight is None else weight)).sum(axis=1)
    return losses.sum() / a.shape[0] if reduction == "mean" else reduce_loss(losses, reduction)


# Normalisations


def native_layer_norm(a, shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(shape), 0))
    mean = a.mean(axis=dims, keepdims=True)
    scale = 1 / np.sqrt(((a - mean) ** 2).mean(axis=dims, keepdims=True) + eps)
    out = (a - mean) * scale
    out = out if weight is None else out * weight
    return (out if bias is None else out + bias), mean, scale


def layer_norm(*args):
    return native_layer_norm(*args)[0]


def rms_norm(a, shape, weight=None, eps=None):
    dims = tuple(range(-len(shape), 0))
    eps = np.finfo(np.float64).eps if eps is None else eps
    out = a / np.sqrt((a * a).mean(axis=dims, keepdims=True) + eps)
    return out if weight is None else out * weight


def linear(a, weight, bias=None):
    return a @ weight.T + (0 if bias is None else bias)


REFERENCES = {
    "mm": np.matmul,
    "bmm": np.matmul,
    "matmul": np.matmul,
    "mv": np.matmul,
    "dot": np.dot,
    "vdot": np.dot,
    "outer": np.outer,
    "ger": np.outer,
    "inner": np.inner,
    "kron": np.kron,
    "einsum": np.einsum,
    "tensordot": lambda a, b, dims=2: np.tensordot(a, b, dims),
    "addmm": added(np.matmul),
    "addmv": added(np.matmul),
    "addr": added(np.outer),
    "baddbmm": added(np.matmul),
    "addbmm": added(lambda x, y: np.matmul(x, y).sum(axis=0)),
    "bilinear": bilinear,
    "nn.functional.bilinear": bilinear,
    "nn.functional.linear": linear,
    "chain_matmul": lambda *matrices: chain(matrices),
    "linalg.multi_dot": chain,
    "cross": cross,
    "linalg.cross": lambda a, b, dim=-1: np.cross(a, b, axis=dim),
    "clamp": clamp,
    "clip": clamp,
    "clamp_min": np.maximum,
    "clamp_max": np.minimum,
    "pow": np.power,
    "square": np.square,
    "copysign": np.copysign,
    "div": quotient,
    "divide": quotient,
    "heaviside": np.heaviside,
    "logit": logit,
    "nan_to_num": lambda a, *args, **kwargs: a,
    "nextafter": lambda a, b: a,  # to the precision of the comparison
    "round": lambda a, decimals: np.round(a, decimals),
    "xlogy": lambda a, b: a * np.log(b),
    "celu": celu,
    "nn.functional.celu": celu,
    "nn.functional.elu": elu,
    "nn.functional.gelu": gelu,
    "nn.functional.glu": glu,
    "nn.functional.hardshrink": lambda a, lambd=0.5: np.where(np.abs(a) > lambd, a, 0),
    "nn.functional.hardsigmoid": lambda a: np.clip(a / 6 + 0.5, 0, 1),
    "nn.functional.hardswish": lambda a: a * np.clip(a / 6 + 0.5, 0, 1),
    "nn.functional.hardtanh": lambda a, min_val=-1, max_val=1: np.clip(a, min_val, max_val),
    "nn.functional.leaky_relu": leaky_relu,
    "nn.functional.mish": lambda a: a * np.tanh(np.log1p(np.exp(a))),
    "nn.functional.prelu": prelu,
    "prelu": prelu,
    "nn.functional.relu": lambda a: np.maximum(a, 0),
    "nn.functional.relu6": lambda a: np.clip(a, 0, 6),
    "nn.functional.selu": selu,
    "selu": selu,
    "nn.functional.sigmoid": sigmoid,
    "nn.functional.silu": lambda a: a * sigmoid(a),
    "nn.functional.softshrink": softshrink,
    "nn.functional.softsign": lambda a: a / (1 + np.abs(a)),
    "nn.functional.tanh": np.tanh,
    "nn.functional.threshold": threshold,
    "threshold": threshold,
    "nn.functional.mse_loss": mse_loss,
    "nn.functional.l1_loss": l1_loss,
    "nn.functional.huber_loss": huber_loss,
    "nn.functional.smooth_l1_loss": smooth_l1_loss,
    "nn.functional.binary_cross_entropy": binary_cross_entropy,
    "nn.functional.binary_cross_entropy_with_logits": bce_with_logits,
    "nn.functional.kl_div": kl_div,
    "nn.functional.cross_entropy": cross_entropy,
    "nn.functional.nll_loss": nll_loss,
    "layer_norm": layer_norm,
    "native_layer_norm": native_layer_norm,
    "nn.functional.layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "nn.functional.rms_norm": rms_norm,
}
