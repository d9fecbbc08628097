"""NumPy's answer for reductions, scans and sorting; `references` imports this module."""

import numpy as np


def axes(dim):
    return tuple(dim) if isinstance(dim, list) else dim


def reduction(f):
    return lambda a, dim=None, keepdim=False: f(a, axis=axes(dim), keepdims=keepdim)


def spread(root, with_mean):
    def f(a, dim=None, unbiased=True, keepdim=False, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        ddof = correction if correction is not None else int(unbiased)
        options = {"axis": axes(dim), "keepdims": keepdim}
        with np.errstate(all="ignore"):
            v = np.var(a, ddof=ddof, **options)
            v = np.sqrt(v) if root else v
            return (v, np.mean(a, **options)) if with_mean else v

    return f


def extreme(pick, arg, pair):
    def f(a, dim=None, keepdim=False):
        if isinstance(dim, np.ndarray):
            return pair(a, dim)
        if dim is None:
            return pick(a)
        picked = pick(a, axis=dim, keepdims=keepdim)
        return picked, arg(a, axis=dim, keepdims=keepdim)

    return f


def aminmax(a, dim=None, keepdim=False):
    return np.min(a, axis=dim, keepdims=keepdim), np.max(a, axis=dim, keepdims=keepdim)


def norm(a, p=2, dim=None, keepdim=False):
    options = {"axis": dim, "keepdims": keepdim}
    a = np.abs(a)
    if np.isinf(p):
        return a.max(**options) if p > 0 else a.min(**options)
    return np.count_nonzero(a, **options) if p == 0 else (a**p).sum(**options) ** (1 / p)


def kthvalue(a, k, dim=-1, keepdim=False):
    values, places = sort(a, dim)
    if a.ndim == 0:
        return values, places
    kept = [k - 1] if keepdim else k - 1
    return np.take(values, kept, dim), np.take(places, kept, dim)


def median(a, dim=None, keepdim=False):
    if dim is None:
        return np.sort(a, axis=None)[(a.size - 1) // 2]
    return kthvalue(a, (a.shape[dim] + 1) // 2, dim, keepdim)


def logsumexp(a, dim):
    a = np.asarray(a, np.float64)
    if a.size == 0:
        return np.log(np.exp(a).sum(axis=dim))
    top = a.max(axis=dim, keepdims=True)
    return np.log(np.exp(a - top).sum(axis=dim)) + top.squeeze(dim if a.ndim else None)


def log_softmax(a, dim, dtype=None):
    if a.ndim == 0:
        return np.zeros(())
    return a - np.expand_dims(logsumexp(a, dim), dim) if a.size else a


def softmax(a, dim, dtype=None):
    return np.exp(log_softmax(a, dim))


def scan(f):
    return lambda a, dim: f(a, axis=dim) if a.ndim else f(a[None], axis=0)[0]


def running_extreme(a, dim, newer):
    if a.ndim == 0:
        return a, np.zeros((), np.int64)
    rows = np.moveaxis(a, dim, -1)
    best, place = rows.copy(), np.zeros(rows.shape, np.int64)
    for spot in np.ndindex(rows.shape[:-1]):
        at = 0
        for k in range(rows.shape[-1]):
            at = k if newer(rows[spot][k], rows[spot][at]) else at
            best[spot][k], place[spot][k] = rows[spot][at], at
    return np.moveaxis(best, -1, dim), np.moveaxis(place, -1, dim)


def sort(a, dim=-1, descending=False, stable=True):
    if a.ndim == 0:
        return a, np.zeros((), np.int64)
    key = a.astype(np.int64) if a.dtype == bool else a
    order = np.argsort(-key if descending else key, axis=dim, kind="stable")
    return np.take_along_axis(a, order, dim), order


def topk(a, k, dim=-1, largest=True):
    ordered, order = sort(a, dim, largest)
    first = np.arange(k)
    return np.take(ordered, first, dim), np.take(order, first, dim)


def diff(a, n=1, dim=-1, prepend=None, append=None):
    parts = [p for p in (prepend, a, append) if p is not None]
    return np.diff(np.concatenate(parts, dim), n, axis=dim)


def pieces(y, x=None, dx=1.0, dim=-1):
    if x is not None and x.ndim == 1 and y.ndim > 1:
        x = x.reshape([-1 if k == dim % y.ndim else 1 for k in range(y.ndim)])
    width = dx if x is None else np.diff(x, axis=dim)
    y = np.moveaxis(y, dim, -1)
    return np.moveaxis((y[..., 1:] + y[..., :-1]) / 2, -1, dim) * width


def trapezoid(y, x=None, dx=1.0, dim=-1):
    return pieces(y, x, dx, dim).sum(axis=dim)


def cumulative_trapezoid(y, x=None, dx=1.0, dim=-1):
    return np.cumsum(pieces(y, x, dx, dim), axis=dim)


def bincount(a, weights=None, minlength=0):
    weights = weights if weights is None else weights.astype(np.float64)
    return np.bincount(a, weights, minlength)


def histc(a, bins=100, min=0, max=0):
    ends = (a.min(), a.max()) if min == max else (min, max)
    return np.histogram(a, bins, ends)[0]


def searchsorted(rows, wanted, right=False, side=None, out_int32=False):
    side = side or ("right" if right else "left")
    if rows.ndim == 1:
        return np.searchsorted(rows, wanted, side)
    pairs = zip(rows, wanted, strict=True)
    return np.stack([searchsorted(r, w, side=side) for r, w in pairs])


def unique(a, return_inverse=False, return_counts=False, dim=None):
    answer = np.unique(a, False, return_inverse, return_counts, axis=dim)
    if return_inverse:
        shape = a.shape if dim is None else a.shape[dim]
        return (answer[0], answer[1].reshape(shape), *answer[2:])
    return answer


def unique_consecutive(a, return_inverse=False, return_counts=False):
    starts = np.concatenate([a[:1] == a[:1], a[1:] != a[:-1]])
    answer = [a[starts]]
    if return_inverse:
        answer.append(np.cumsum(starts) - 1)
    if return_counts:
        answer.append(np.diff(np.append(np.nonzero(starts)[0], a.size)))
    return tuple(answer) if len(answer) > 1 else answer[0]


REFERENCES = {
    "sum": reduction(np.sum),
    "mean": reduction(lambda a, **k: np.mean(a, **k) if a.size else np.nan * np.sum(a, **k)),
    "prod": reduction(np.prod),
    "amax": reduction(np.max),
    "amin": reduction(np.min),
    "any": reduction(np.any),
    "all": reduction(np.all),
    "var": spread(root=False, with_mean=False),
    "std": spread(root=True, with_mean=False),
    "var_mean": spread(root=False, with_mean=True),
    "std_mean": spread(root=True, with_mean=True),
    "max": extreme(np.max, np.argmax, np.maximum),
    "min": extreme(np.min, np.argmin, np.minimum),
    "argmax": reduction(np.argmax),
    "argmin": reduction(np.argmin),
    "aminmax": aminmax,
    "count_nonzero": reduction(np.count_nonzero),
    "dist": lambda a, b, p=2: norm(a - b, p),
    "norm": norm,
    "linalg.vector_norm": norm,
    "median": median,
    "mode": lambda a, dim=-1, keepdim=False: kthvalue(a, 1, dim, keepdim),
    "kthvalue": kthvalue,
    "nansum": reduction(np.nansum),
    "nanmean": reduction(lambda a, **k: np.nanmean(a, **k) if a.size else np.nan * np.sum(a, **k)),
    "trace": np.trace,
    "logsumexp": logsumexp,
    "softmax": softmax,
    "log_softmax": log_softmax,
    "nn.functional.softmax": softmax,
    "nn.functional.log_softmax": log_softmax,
    "nn.functional.softmin": lambda a, dim, dtype=None: softmax(-a, dim),
    "special.softmax": softmax,
    "special.log_softmax": log_softmax,
    "cumsum": scan(np.cumsum),
    "cumprod": scan(np.cumprod),
    "Tensor.cumprod_": scan(np.cumprod),
    "logcumsumexp": scan(np.logaddexp.accumulate),
    "cummax": lambda a, dim: running_extreme(a, dim, np.greater_equal),
    "cummin": lambda a, dim: running_extreme(a, dim, np.less_equal),
    "sort": sort,
    "argsort": lambda *args, **kwargs: sort(*args, **kwargs)[1],
    "msort": lambda a: np.sort(a, axis=0) if a.ndim else a,
    "topk": topk,
    "diff": diff,
    "trapezoid": trapezoid,
    "trapz": trapezoid,
    "cumulative_trapezoid": cumulative_trapezoid,
    "bincount": bincount,
    "histc": histc,
    "bucketize": lambda a, edges, **kwargs: searchsorted(edges, a, **kwargs),
    "searchsorted": searchsorted,
    "unique": unique,
    "unique_consecutive": unique_consecutive,
}
