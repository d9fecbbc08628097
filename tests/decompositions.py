"""Operations that have a rule of their own, written with primitive ones: sums, products, powers,
exp, log, and taking elements. Their derivatives of any order are the chain rule's alone.

`DECOMPOSITIONS[name]` takes the arguments of the operation called name.
"""

import math

import rushlight as torch


def dims_of(x, dim):
    if dim is None:
        return tuple(range(x.dim()))
    return tuple(d % max(x.dim(), 1) for d in ([dim] if isinstance(dim, int) else dim))


def total(x, dim=None, keepdim=False):
    return x if x.dim() == 0 else x.sum(dims_of(x, dim), keepdim)


def count(x, dim):
    n = 1
    for d in dims_of(x, dim) if x.dim() else ():
        n *= x.shape[d]
    return n


def softmax(x, dim, dtype=None):
    e = x.exp()
    return e / total(e, dim, True)


def log_softmax(x, dim, dtype=None):
    return x - total(x.exp(), dim, True).log()


def logsumexp(x, dim, keepdim=False):
    return total(x.exp(), dim, keepdim).log()


def product(a, b):
    """The matrix product of the last two dimensions."""
    return (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)


def added(multiply):
    def call(c, a, b, *, beta=1, alpha=1):
        term = alpha * multiply(a, b)
        return term.expand(term.shape) if beta == 0 else beta * c + term

    return call


def moment(x, dim=None, unbiased=None, keepdim=False, correction=1):
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    correction = correction if unbiased is None else int(unbiased)
    n = count(x, dim)
    mean = total(x, dim, True) / n
    variance = total((x - mean) ** 2, dim, keepdim) / max(n - correction, 0)
    return variance, mean if keepdim or x.dim() == 0 else total(x, dim) / n


def vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    if ord == float("inf"):
        return extreme(x.abs(), dim, keepdim, 1)
    if ord == -float("inf"):
        return extreme(x.abs(), dim, keepdim, -1)
    if ord == 0:
        return total((x != 0).to(x.dtype), dim, keepdim)
    return total(x.abs() ** ord, dim, keepdim) ** (1 / ord)


def norm(x, p=2, dim=None, keepdim=False, dtype=None):
    return vector_norm(x, 2 if p in ("fro", None) else p, dim, keepdim)


def extreme(x, dim=None, keepdim=False, sign=1):
    """The elements that are largest (or smallest) along some dimensions, taken by their place."""
    if x.dim() == 0:
        return x.clone()
    dims = dims_of(x, dim)
    rest = [d for d in range(x.dim()) if d not in dims]
    flat = x.permute(*rest, *dims).reshape([x.shape[d] for d in rest] + [-1])
    chosen = flat.gather(-1, (sign * flat.detach()).argmax(-1, keepdim=True)).squeeze(-1)
    if not keepdim:
        return chosen
    return chosen.reshape([1 if d in dims else s for d, s in enumerate(x.shape)])


def taken(name):
    """The values of an operation that picks elements along a dimension, taken by their indices."""

    def call(x, *args, **kwargs):
        found = getattr(torch, name)(x.detach(), *args, **kwargs)
        if isinstance(found, torch.Tensor):  # of all elements
            flat = x.reshape(-1)
            return flat[(flat.detach() == found).nonzero()[0, 0]]
        dims = kwargs.get("dim", next((a for a in reversed(args) if type(a) is int), -1))
        if name in ("kthvalue", "topk") and "dim" not in kwargs:
            dims = args[1] if len(args) > 1 else -1
        if x.dim() == 0:
            return x.clone()
        index = found.indices
        lost = index.dim() < x.dim()
        values = x.gather(dims, index.unsqueeze(dims) if lost else index)
        return values.squeeze(dims) if lost else values

    return call


def running(x, dim, combine):
    """Elements along a dimension, each combined with what came before."""
    if x.dim() == 0:
        return x.clone()
    parts = list(x.unbind(dim))
    for i in range(1, len(parts)):
        parts[i] = combine(parts[i - 1], parts[i])
    return torch.stack(parts, dim) if parts else x.clone()


def prod(x, dim=None, keepdim=False, dtype=None):
    if x.dim() == 0:
        return x.clone()
    parts = x.reshape(-1).unbind() if dim is None else x.unbind(dim)
    result = torch.ones((), dtype=x.dtype)
    for part in parts:
        result = result * part
    return result.unsqueeze(dim) if keepdim else result


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    dims = tuple(range(-len(shape), 0))
    centred = x - total(x, dims, True) / count(x, dims)
    y = centred * (total(centred**2, dims, True) / count(x, dims) + eps) ** -0.5
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def rms_norm(x, shape, weight=None, eps=None):
    dims = tuple(range(-len(shape), 0))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    y = x * (total(x**2, dims, True) / count(x, dims) + eps) ** -0.5
    return y if weight is None else y * weight


def by_channel(v, ndim):
    return v.reshape((1, -1) + (1,) * (ndim - 2))


def affine(y, weight, bias):
    y = y if weight is None else y * by_channel(weight, y.dim())
    return y if bias is None else y + by_channel(bias, y.dim())


def batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    if training:
        dims = (0, *range(2, x.dim()))
        n = count(x, dims)
        mean = total(x, dims) / n
        var = total((x - by_channel(mean, x.dim())) ** 2, dims) / n
    y = (x - by_channel(mean, x.dim())) * (by_channel(var, x.dim()) + eps) ** -0.5
    return affine(y, weight, bias)


def native_group_norm(x, weight, bias, n, c, inner, groups, eps):
    rows = x.reshape(n, groups, x.shape[1:].numel() // groups)
    mean = total(rows, 2, True) / count(rows, 2)
    rstd = (total((rows - mean) ** 2, 2, True) / count(rows, 2) + eps) ** -0.5
    y = affine(((rows - mean) * rstd).reshape(x.shape), weight, bias)
    return y, mean.squeeze(2), rstd.squeeze(2)


def group_norm(x, num_groups, weight=None, bias=None, eps=1e-5):
    return native_group_norm(x, weight, bias, x.shape[0], None, None, num_groups, eps)[0]


def attention(q, k, v, attn_mask=None, is_causal=False, scale=None, enable_gqa=False):
    if enable_gqa:
        k, v = (t.repeat_interleave(q.shape[-3] // t.shape[-3], -3) for t in (k, v))
    scores = product(q, k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if scale is None else scale)
    seen = torch.ones(scores.shape[-2:], dtype=torch.bool)
    seen = seen.tril() if is_causal else seen
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        seen = seen & attn_mask
    elif attn_mask is not None:
        scores = scores + attn_mask
    weights = scores.exp() * seen
    none = ~seen.any(-1, keepdim=True)
    return product(weights / (total(weights, -1, True) + none), v)


def nansum(x, dim=None, keepdim=False, dtype=None):
    return total(x.masked_fill(x.detach().isnan(), 0.0), dim, keepdim)


def adaptive_max_pool(dims):
    """The elements at the positions that the op finds, which count within a plane."""
    op = getattr(torch.nn.functional, f"adaptive_max_pool{dims}d_with_indices")

    def pool(x, output_size):
        _, places = op(x.detach(), output_size)
        return x.flatten(-dims).gather(-1, places.flatten(-dims)).reshape(places.shape), places

    return pool


def solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    """By the finite series of the inverse: the strict triangle is nilpotent."""
    if not left:
        return solve_triangular(a.mT, b.mT, upper=not upper, unitriangular=unitriangular).mT
    places = torch.arange(a.shape[-1])
    above = places.unsqueeze(-1) < places if upper else places.unsqueeze(-1) > places
    scale = 1 if unitriangular else 1 / a.diagonal(dim1=-2, dim2=-1).unsqueeze(-1)
    term = total = scale * b
    for _ in range(a.shape[-1] - 1):
        term = -scale * product(a * above, term)
        total = total + term
    return total


DECOMPOSITIONS = {
    "linalg.solve_triangular": solve_triangular,
    "softmax": softmax,
    "nn.functional.softmax": softmax,
    "nn.functional.softmin": lambda x, dim, dtype=None: softmax(-x, dim),
    "log_softmax": log_softmax,
    "nn.functional.log_softmax": log_softmax,
    "logsumexp": logsumexp,
    "mm": product,
    "bmm": product,
    "mv": lambda a, v: (a * v).sum(-1),
    "addmm": added(product),
    "baddbmm": added(product),
    "addbmm": added(lambda a, b: product(a, b).sum(0)),
    "addmv": added(lambda a, v: (a * v).sum(-1)),
    "addr": added(lambda a, b: a.unsqueeze(-1) * b),
    "nn.functional.linear": lambda x, w, b=None: (
        (x.unsqueeze(-2) * w).sum(-1) + (0 if b is None else b)
    ),
    "amax": lambda x, dim=None, keepdim=False: extreme(x, dim, keepdim),
    "amin": lambda x, dim=None, keepdim=False: extreme(x, dim, keepdim, -1),
    **{n: taken(n) for n in ("kthvalue", "mode", "median", "sort", "topk", "cummax", "cummin")},
    "cumsum": lambda x, dim, dtype=None: running(x, dim, lambda a, b: a + b),
    "cumprod": lambda x, dim, dtype=None: running(x, dim, lambda a, b: a * b),
    "logcumsumexp": lambda x, dim: running(x.exp(), dim, lambda a, b: a + b).log(),
    "prod": prod,
    "var": lambda *a, **k: moment(*a, **k)[0],
    "std": lambda *a, **k: moment(*a, **k)[0] ** 0.5,
    "var_mean": moment,
    "std_mean": lambda *a, **k: (moment(*a, **k)[0] ** 0.5, moment(*a, **k)[1]),
    "linalg.vector_norm": vector_norm,
    "norm": norm,
    "dist": lambda a, b, p=2: vector_norm(a - b, p),
    "nansum": nansum,
    "mvlgamma": lambda x, p: (
        sum((x - i / 2).lgamma() for i in range(p)) + p * (p - 1) / 4 * math.log(math.pi)
    ),
    "nn.functional.layer_norm": layer_norm,
    "nn.functional.rms_norm": rms_norm,
    "nn.functional.batch_norm": batch_norm,
    "nn.functional.scaled_dot_product_attention": attention,
    "nn.functional.group_norm": group_norm,
    "native_group_norm": native_group_norm,
    **{f"nn.functional.adaptive_max_pool{n}d_with_indices": adaptive_max_pool(n) for n in (2, 3)},
}
