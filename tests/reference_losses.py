"""NumPy's answer for margin losses and distances; `references` imports it."""

import numpy as np


def reduced(each, reduction):
    return each if reduction == "none" else each.sum() if reduction == "sum" else each.mean()


def norm(x, p=2.0, axis=-1, keepdims=False):
    return (np.abs(x) ** p).sum(axis, keepdims=keepdims) ** (1 / p)


def cosine_embedding_loss(a, b, target, margin=0, reduction="mean"):
    cosine = (a * b).sum(-1) / np.sqrt(((a * a).sum(-1) + 1e-12) * ((b * b).sum(-1) + 1e-12))
    return reduced(np.where(target == 1, 1 - cosine, np.maximum(cosine - margin, 0)), reduction)


def hinge_embedding_loss(x, target, margin=1.0, reduction="mean"):
    return reduced(np.where(target == 1, x, np.maximum(margin - x, 0)), reduction)


def soft_margin_loss(x, target, reduction="mean"):
    return reduced(np.log1p(np.exp(-target * x)), reduction)


def margin_ranking_loss(a, b, target, margin=0, reduction="mean"):
    return reduced(np.maximum(margin - target * (a - b), 0), reduction)


def triplet(a, b, c, margin, swap, reduction, distance):
    far = np.minimum(distance(a, c), distance(b, c)) if swap else distance(a, c)
    return reduced(np.maximum(margin + distance(a, b) - far, 0), reduction)


def triplet_margin_loss(a, b, c, margin=1.0, p=2, eps=1e-6, swap=False, reduction="mean"):
    return triplet(a, b, c, margin, swap, reduction, lambda x, y: norm(x - y + eps, p))


def triplet_with_distance(
    a, b, c, distance_function=lambda x, y: norm(x - y + 1e-6), margin=1.0, swap=False,
    reduction="mean",
):  # fmt: skip
    return triplet(a, b, c, margin, swap, reduction, distance_function)


def gaussian_nll_loss(x, target, var, full=False, eps=1e-6, reduction="mean"):
    var = var[..., None] if np.ndim(var) and np.ndim(var) < x.ndim else var
    each = 0.5 * (np.log(var) + (x - target) ** 2 / var) + full * 0.5 * np.log(2 * np.pi)
    return reduced(each, reduction)


def poisson_nll_loss(x, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    each = np.exp(x) - target * x if log_input else x - target * np.log(x + eps)
    if full:
        stirling = target * np.log(target) - target + 0.5 * np.log(2 * np.pi * target)
        each = each + np.where(target <= 1, 0, stirling)
    return reduced(each, reduction)


def multi_margin_loss(x, target, p=1, margin=1.0, weight=None, reduction="mean"):
    rows, target = np.atleast_2d(x), np.atleast_1d(target)
    each = np.zeros(len(rows))
    for i, t in enumerate(target):
        over = np.maximum(margin - rows[i, t] + np.delete(rows[i], t), 0) ** p
        each[i] = over.sum() / rows.shape[1] * (1 if weight is None else weight[t])
    return reduced(each if x.ndim > 1 else each[0], reduction)


def multilabel_margin_loss(x, target, reduction="mean"):
    rows, target = np.atleast_2d(x), np.atleast_2d(target)
    each = np.zeros(len(rows))
    for i, row in enumerate(rows):
        wanted = target[i, : np.argmax(target[i] == -1)] if -1 in target[i] else target[i]
        others = np.delete(row, wanted)
        each[i] = sum(np.maximum(1 - row[t] + others, 0).sum() for t in wanted) / len(row)
    return reduced(each if x.ndim > 1 else each[0], reduction)


def multilabel_soft_margin_loss(x, target, weight=None, reduction="mean"):
    each = target * np.log1p(np.exp(-x)) + (1 - target) * np.log1p(np.exp(x))
    return reduced((each if weight is None else each * weight).mean(-1), reduction)


def cosine_similarity(a, b, dim=1, eps=1e-8):
    a, b = np.broadcast_arrays(a, b)
    sizes = [np.maximum(norm(t, axis=dim), eps) for t in (a, b)]
    return (a * b).sum(dim) / (sizes[0] * sizes[1])


def pairwise_distance(a, b, p=2.0, eps=1e-6, keepdim=False):
    return norm(a - b + eps, p, keepdims=keepdim)


def pdist(x, p=2.0):
    return np.array([norm(x[i] - x[j], p) for i in range(len(x)) for j in range(i + 1, len(x))])


def cdist(a, b, p=2.0, compute_mode=None):
    return norm(a[..., :, None, :] - b[..., None, :, :], p)


REFERENCES = {
    "nn.functional.cosine_embedding_loss": cosine_embedding_loss,
    "nn.functional.hinge_embedding_loss": hinge_embedding_loss,
    "nn.functional.soft_margin_loss": soft_margin_loss,
    "nn.functional.margin_ranking_loss": margin_ranking_loss,
    "nn.functional.triplet_margin_loss": triplet_margin_loss,
    "nn.functional.triplet_margin_with_distance_loss": triplet_with_distance,
    "nn.functional.gaussian_nll_loss": gaussian_nll_loss,
    "nn.functional.poisson_nll_loss": poisson_nll_loss,
    "nn.functional.multi_margin_loss": multi_margin_loss,
    "nn.functional.multilabel_margin_loss": multilabel_margin_loss,
    "nn.functional.multilabel_soft_margin_loss": multilabel_soft_margin_loss,
    "nn.functional.cosine_similarity": cosine_similarity,
    "cosine_similarity": cosine_similarity,
    "nn.functional.pairwise_distance": pairwise_distance,
    "pairwise_distance": pairwise_distance,
    "nn.functional.pdist": pdist,
    "pdist": pdist,
    "cdist": cdist,
}


def numbered(f):
    return lambda *args, reduction=1, **kwargs: f(
        *args, reduction=("none", "mean", "sum")[reduction], **kwargs
    )


NUMBERED = (
    "cosine_embedding_loss",
    "hinge_embedding_loss",
    "margin_ranking_loss",
    "triplet_margin_loss",
)
REFERENCES.update({n: numbered(REFERENCES[f"nn.functional.{n}"]) for n in NUMBERED})
REFERENCES["poisson_nll_loss"] = lambda x, t, log_input, full, eps, reduction: poisson_nll_loss(
    x, t, log_input, full, eps, ("none", "mean", "sum")[reduction]
)
