"""Calls on images, volumes and other tensors of rank 3 to 5, whatever their layout.

Each program gets a library and one floating point tensor x of N samples with C = 4 channels (or 1,
or 6) and makes its other operands from it or by itself.
"""


def f(t):
    return t.nn.functional


def channel(t, x):
    """One number for each channel, laid out to broadcast."""
    return t.arange(float(x.shape[1]), dtype=x.dtype).reshape(-1, *[1] * (x.dim() - 2))


def index(t, x, d):
    return t.arange(x.shape[d] - 1, -1, -1)


def mask(x):
    return x > 0.2


POINTWISE = {
    "exp": lambda t, x: x.exp(),
    "neg": lambda t, x: -x,
    "eq": lambda t, x: x == 1,
    "add number": lambda t, x: x + 1,
    "number sub": lambda t, x: 1 - x,
    "mul self": lambda t, x: x * x,
    "add channel": lambda t, x: x + channel(t, x),
    "channel add": lambda t, x: channel(t, x) + x,
    "add rows": lambda t, x: x + t.ones(x.shape, dtype=x.dtype),
    "rows add": lambda t, x: t.ones(x.shape, dtype=x.dtype) + x,
    "add part": lambda t, x: x + x[:, :1],
    "part add": lambda t, x: x[:1] + x,
    "outer": lambda t, x: x[:1] * x[:, :1],
    "add 0-d": lambda t, x: x + t.tensor(2.0, dtype=x.dtype),
    "to int and back": lambda t, x: x.long() + x,
    "where": lambda t, x: t.where(mask(x), x, t.zeros((), dtype=x.dtype)),
    "where number": lambda t, x: t.where(mask(x), x, 0),
    "where mask": lambda t, x: t.where(mask(t.ones(x.shape, dtype=x.dtype)), x, x[:1]),
    "clamp": lambda t, x: x.clamp(-0.5, 0.5),
    "clamp tensor": lambda t, x: x.clamp(x - 1, x + 1),
    "maximum": lambda t, x: t.maximum(x, channel(t, x)),
    "lerp": lambda t, x: t.lerp(x, x + 1, 0.3),
    "addcmul": lambda t, x: t.addcmul(x, x, channel(t, x)),
    "masked_fill": lambda t, x: x.masked_fill(mask(x), 0),
    "masked_fill channel": lambda t, x: x.masked_fill(channel(t, x) > 1, 0),
    "relu": lambda t, x: f(t).relu(x),
    "gelu": lambda t, x: f(t).gelu(x),
    "silu": lambda t, x: f(t).silu(x),
    "leaky_relu": lambda t, x: f(t).leaky_relu(x),
    "elu": lambda t, x: f(t).elu(x),
    "prelu": lambda t, x: f(t).prelu(x, t.ones(x.shape[1], dtype=x.dtype)),
    "prelu one": lambda t, x: f(t).prelu(x, t.ones(1, dtype=x.dtype)),
    "hardswish": lambda t, x: f(t).hardswish(x),
    "hardtanh": lambda t, x: f(t).hardtanh(x),
    "softplus": lambda t, x: f(t).softplus(x),
    "logsigmoid": lambda t, x: f(t).logsigmoid(x),
    "nan_to_num": lambda t, x: x.nan_to_num(),
    "isclose": lambda t, x: t.isclose(x, x + 1),
    "isnan": lambda t, x: x.isnan(),
    "isfinite": lambda t, x: x.isfinite(),
    "sign": lambda t, x: x.sign(),
    "float_power": lambda t, x: x.abs().float_power(2),
    "bool": lambda t, x: x.bool(),
    "logical_not": lambda t, x: x.logical_not(),
    "mse none": lambda t, x: f(t).mse_loss(x, x + 1, reduction="none"),
    "smooth_l1 none": lambda t, x: f(t).smooth_l1_loss(x, x + 1, reduction="none"),
    "glu": lambda t, x: f(t).glu(x, 0) if x.shape[0] % 2 == 0 else x,
    "in place": lambda t, x: x.clone().add_(1).mul_(x).clamp_(0, 1),
    "rsqrt": lambda t, x: (x * x + 1).rsqrt(),
    "pow": lambda t, x: x**2,
    "complex": lambda t, x: t.complex(x, x),
    "view_as_real": lambda t, x: t.view_as_real(t.complex(x, x)),
    "angle": lambda t, x: t.complex(x, x).angle(),
    "abs complex": lambda t, x: t.complex(x, x).abs(),
    "conj": lambda t, x: t.complex(x, x).conj(),
    "bucketize": lambda t, x: t.bucketize(x.detach(), t.arange(3, dtype=x.dtype)),
}

REDUCTIONS = {
    f"{name} {dim} {keepdim}": lambda t, x, name=name, dim=dim, keepdim=keepdim: getattr(t, name)(
        x, dim, keepdim=keepdim
    )
    for name in (
        "sum", "mean", "amax", "amin", "prod", "var", "std", "logsumexp", "max", "min", "argmax",
        "any", "all", "median", "kthvalue", "mode", "norm", "nansum", "cumsum", "var_mean",
        "count_nonzero", "aminmax",
    )
    for dim in (0, 1, -1, (0, 2), (1, 2))
    for keepdim in (False, True)
    if name != "norm" or not isinstance(dim, tuple)
}  # fmt: skip

SCANS = {
    "softmax": lambda t, x, d: x.softmax(d),
    "log_softmax": lambda t, x, d: x.log_softmax(d),
    "softmin": lambda t, x, d: f(t).softmin(x, d),
    "cumsum": lambda t, x, d: x.cumsum(d),
    "cumprod": lambda t, x, d: x.cumprod(d),
    "cummax": lambda t, x, d: x.cummax(d),
    "logcumsumexp": lambda t, x, d: x.logcumsumexp(d),
    "sort": lambda t, x, d: x.sort(d),
    "argsort": lambda t, x, d: x.argsort(d),
    "topk": lambda t, x, d: x.topk(1, d),
    "kthvalue": lambda t, x, d: x.kthvalue(1, d),
    "flip": lambda t, x, d: x.flip(d),
    "roll": lambda t, x, d: x.roll(1, d),
    "normalize": lambda t, x, d: f(t).normalize(x, dim=d),
    "diff": lambda t, x, d: x.diff(dim=d),
    "cat": lambda t, x, d: t.cat([x, x], d),
    "cat rows": lambda t, x, d: t.cat([x, t.ones(x.shape, dtype=x.dtype)], d),
    "rows cat": lambda t, x, d: t.cat([t.ones(x.shape, dtype=x.dtype), x], d),
    "cat one": lambda t, x, d: t.cat([x], d),
    "cat part": lambda t, x, d: t.cat([x, x.narrow(d, 0, 1)], d),
    "stack": lambda t, x, d: t.stack([x, x], d),
    "index_select": lambda t, x, d: x.index_select(d, index(t, x, d)),
    "index": lambda t, x, d: x[(slice(None),) * (d % x.dim()) + (index(t, x, d),)],
    "gather": lambda t, x, d: x.gather(d, t.zeros(x.shape, dtype=t.int64)),
    "gather like": lambda t, x, d: x.gather(d, t.zeros_like(x, dtype=t.int64)),
    "take_along_dim": lambda t, x, d: x.take_along_dim(x.argsort(d), d),
    "scatter": lambda t, x, d: x.scatter(d, t.zeros(x.shape, dtype=t.int64), 1.0),
    "scatter_add": lambda t, x, d: x.scatter_add(d, t.zeros(x.shape, dtype=t.int64), x),
    "index_add": lambda t, x, d: x.index_add(d, index(t, x, d), x),
    "index_copy": lambda t, x, d: x.index_copy(d, index(t, x, d), x),
    "index_fill": lambda t, x, d: x.index_fill(d, index(t, x, d), 0.0),
    "select_scatter": lambda t, x, d: t.select_scatter(x, x.select(d, 0), d, 0),
    "slice_scatter": lambda t, x, d: t.slice_scatter(x, x.narrow(d, 0, 1), d, 0, 1),
    "repeat_interleave": lambda t, x, d: x.repeat_interleave(2, d),
    "chunk": lambda t, x, d: x.chunk(2, d),
    "select": lambda t, x, d: x.select(d, 0),
    "unfold": lambda t, x, d: x.unfold(d, 1, 1),
    "movedim": lambda t, x, d: x.movedim(d, 0),
    "unsqueeze": lambda t, x, d: x.unsqueeze(d),
    "squeeze": lambda t, x, d: x.squeeze(d),
    "flatten": lambda t, x, d: x.flatten(d % x.dim()),
    "cross": lambda t, x, d: t.cross(x, x, d) if x.shape[d] == 3 else x,
    "dropout eval": lambda t, x, d: f(t).dropout(x, training=False),
    "unbind": lambda t, x, d: x.unbind(d),
}
ALONG = {
    f"{name} {d}": lambda t, x, g=g, d=d: g(t, x, d)
    for name, g in SCANS.items()
    for d in (0, 1, -1)
}

OTHERS = {
    "clone": lambda t, x: x.clone(),
    "contiguous": lambda t, x: x.contiguous(),
    "zeros_like": lambda t, x: t.zeros_like(x),
    "rand_like": lambda t, x: t.rand_like(x),
    "to": lambda t, x: x.to(t.float16),
    "reshape": lambda t, x: x.reshape(x.shape[0], -1),
    "reshape back": lambda t, x: x.reshape(-1).reshape(x.shape),
    "tril": lambda t, x: x.tril(),
    "repeat": lambda t, x: x.repeat(*[2] * x.dim()),
    "tile": lambda t, x: x.tile(2),
    "expand": lambda t, x: x[:, :1].expand(x.shape),
    "expand more": lambda t, x: x.expand(2, *x.shape),
    "expand last": lambda t, x: x[..., :1].expand(x.shape),
    "expand_as": lambda t, x: x[:1].expand_as(x),
    "expand same": lambda t, x: x.expand(x.shape),
    "broadcast_to": lambda t, x: x[:, :1].broadcast_to(2, *x.shape),
    "permute": lambda t, x: x.transpose(0, -1) + 1,
    "mask select": lambda t, x: x[mask(x)],
    "masked_select": lambda t, x: x.masked_select(mask(x)),
    "nonzero": lambda t, x: mask(x).nonzero(),
    "nonzero tuple": lambda t, x: mask(x).nonzero(as_tuple=True),
    "argwhere": lambda t, x: t.argwhere(mask(x)),
    "index two": lambda t, x: x[index(t, x, 0)[:1], index(t, x, 1)[:1]],
    "index apart": lambda t, x: x[index(t, x, 0)[:1], :, index(t, x, 2)[:1]],
    "index last two": lambda t, x: x[..., index(t, x, -2)[:, None], index(t, x, -1)],
    "index mask": lambda t, x: x[:, channel(t, x).flatten() > 0],
    "index_put": lambda t, x: x.index_put((index(t, x, 0),), t.zeros((), dtype=x.dtype)),
    "take": lambda t, x: x.take(t.tensor([0, 1])),
    "put": lambda t, x: x.put(t.tensor([0, 1]), t.ones(2, dtype=x.dtype)),
    "masked_scatter": lambda t, x: x.masked_scatter(mask(x), x),
    "diagonal": lambda t, x: x.diagonal(0, -2, -1),
    "diagonal_scatter": lambda t, x: t.diagonal_scatter(x, x.diagonal(), 0),
    "diag_embed": lambda t, x: x.diag_embed(),
    "rot90": lambda t, x: x.rot90(1, (-2, -1)),
    "matmul": lambda t, x: x @ x.transpose(-1, -2),
    "matmul weight": lambda t, x: x @ t.ones(x.shape[-1], 3, dtype=x.dtype),
    "matmul vector": lambda t, x: x @ t.ones(x.shape[-1], dtype=x.dtype),
    "weight matmul": lambda t, x: t.ones(3, x.shape[-2], dtype=x.dtype) @ x,
    "matmul matrix view": lambda t, x: x[0].transpose(0, -1) @ x[0].transpose(0, -1).mT,
    "linear": lambda t, x: f(t).linear(x, t.ones(3, x.shape[-1], dtype=x.dtype)),
    "linear bias": lambda t, x: f(t).linear(
        x, t.ones(3, x.shape[-1], dtype=x.dtype), t.ones(3, dtype=x.dtype)
    ),
    "einsum": lambda t, x: t.einsum("nc...,ncz->nz...", x, x.flatten(2)),
    "tensordot": lambda t, x: t.tensordot(x, x, ([1, 2], [1, 2])),
    "cdist": lambda t, x: t.cdist(x, x),
    "one_hot": lambda t, x: f(t).one_hot(x.long().clamp(0, 2), 3),
    "embedding": lambda t, x: f(t).embedding(x.long().clamp(0, 2), t.ones(3, 2, dtype=x.dtype)),
    "layer_norm": lambda t, x: f(t).layer_norm(x, x.shape[-1:]),
    "layer_norm two": lambda t, x: f(t).layer_norm(x, x.shape[-2:]),
    "rms_norm": lambda t, x: f(t).rms_norm(x, x.shape[-1:]),
    "group_norm": lambda t, x: f(t).group_norm(x, 1),
    "group_norm each": lambda t, x: f(t).group_norm(x, x.shape[1]),
    "instance_norm": lambda t, x: f(t).instance_norm(x),
    "local_response_norm": lambda t, x: f(t).local_response_norm(x, 2),
    "batch_norm train": lambda t, x: f(t).batch_norm(x, None, None, training=True),
    "batch_norm weights": lambda t, x: f(t).batch_norm(
        x, None, None, t.ones(x.shape[1], dtype=x.dtype), t.ones(x.shape[1], dtype=x.dtype), True
    ),
    "batch_norm eval": lambda t, x: f(t).batch_norm(
        x, t.zeros(x.shape[1], dtype=x.dtype), t.ones(x.shape[1], dtype=x.dtype)
    ),
    "dropout": lambda t, x: f(t).dropout(x),
    "alpha_dropout": lambda t, x: f(t).alpha_dropout(x, training=True),
    "feature_alpha_dropout": lambda t, x: f(t).feature_alpha_dropout(x, training=True),
    "gaussian": lambda t, x: t.normal(x.detach(), 1.0),
    "bernoulli": lambda t, x: t.bernoulli(x.detach().clamp(0, 1)),
    "rrelu": lambda t, x: f(t).rrelu(x, training=True),
    "softmax2d": lambda t, x: t.nn.Softmax2d()(x),
    "cross_entropy none": lambda t, x: f(t).cross_entropy(
        x, t.zeros(x.shape[0], *x.shape[2:], dtype=t.int64), reduction="none"
    ),
    "nll_loss none": lambda t, x: f(t).nll_loss(
        x, t.zeros(x.shape[0], *x.shape[2:], dtype=t.int64), reduction="none"
    ),
    "cross_entropy soft": lambda t, x: f(t).cross_entropy(x, x.softmax(1), reduction="none"),
    "cosine_similarity": lambda t, x: f(t).cosine_similarity(x, x + 1),
    "meshgrid": lambda t, x: t.meshgrid(x.flatten(), x.flatten()[:2], indexing="ij"),
    "unique": lambda t, x: x.detach().unique(return_inverse=True),
    "searchsorted": lambda t, x: t.searchsorted(t.arange(3, dtype=x.dtype), x.detach()),
    "histc": lambda t, x: x.detach().histc(),
    "fill": lambda t, x: t.fill(x, 1),
    "pad zero": lambda t, x: f(t).pad(x, (1, 1)),
    "pad front": lambda t, x: f(t).pad(x, (0, 0, 1, 1, 0, 1)),
}

ALL = {
    "avg_pool": lambda t, x, p: p("avg_pool")(x, 2),
    "avg_pool stride": lambda t, x, p: p("avg_pool")(x, 2, 1, 1),
    "max_pool": lambda t, x, p: p("max_pool")(x, 2),
    "max_pool indices": lambda t, x, p: p("max_pool")(x, 2, 1, 1, return_indices=True),
    "lp_pool": lambda t, x, p: p("lp_pool")(x, 2, 2),
    "adaptive_avg_pool": lambda t, x, p: p("adaptive_avg_pool")(x, 2),
    "adaptive_avg_pool one": lambda t, x, p: p("adaptive_avg_pool")(x, 1),
    "adaptive_max_pool": lambda t, x, p: p("adaptive_max_pool")(x, 2),
    "adaptive_max_pool indices": lambda t, x, p: p("adaptive_max_pool")(x, 2, True),
    "fractional_max_pool": lambda t, x, p: p("fractional_max_pool")(x, 2, 2),
    "max_unpool": lambda t, x, p: p("max_unpool")(
        *p("max_pool")(x, 2, return_indices=True), 2, output_size=x.shape[2:]
    ),
    "conv": lambda t, x, p: p("conv")(x, weight(t, x, 3, x.shape[1], 2)),
    "conv bias": lambda t, x, p: p("conv")(
        x, weight(t, x, 3, x.shape[1], 2), t.ones(3, dtype=x.dtype), padding=1
    ),
    "conv pointwise": lambda t, x, p: p("conv")(x, weight(t, x, 3, x.shape[1], 1)),
    "conv stride": lambda t, x, p: p("conv")(x, weight(t, x, 3, x.shape[1], 2), stride=2),
    "conv dilated": lambda t, x, p: p("conv")(x, weight(t, x, 3, x.shape[1], 2), dilation=2),
    "conv depthwise": lambda t, x, p: p("conv")(
        x, weight(t, x, x.shape[1], 1, 2), groups=x.shape[1]
    ),
    "conv same": lambda t, x, p: p("conv")(x, weight(t, x, 3, x.shape[1], 3), padding="same"),
    "conv weight last": lambda t, x, p: p("conv")(x, last(t, weight(t, x, 3, x.shape[1], 2))),
    "conv one channel": lambda t, x, p: p("conv")(x[:, :1], weight(t, x, 3, 1, 2)),
    "conv one out": lambda t, x, p: p("conv")(x, weight(t, x, 1, x.shape[1], 2)),
    "conv_transpose": lambda t, x, p: p("conv_transpose")(x, weight(t, x, x.shape[1], 3, 2)),
    "conv_transpose stride": lambda t, x, p: p("conv_transpose")(
        x, weight(t, x, x.shape[1], 3, 2), stride=2
    ),
    "conv_transpose weight last": lambda t, x, p: p("conv_transpose")(
        x, last(t, weight(t, x, x.shape[1], 3, 2))
    ),
    "dropout": lambda t, x, p: p("dropout")(x),
    "reflect": lambda t, x, p: f(t).pad(x, (1, 1) * (x.dim() - 2), "reflect"),
    "replicate": lambda t, x, p: f(t).pad(x, (1, 1) * (x.dim() - 2), "replicate"),
    "circular": lambda t, x, p: f(t).pad(x, (1, 1) * (x.dim() - 2), "circular"),
    "constant": lambda t, x, p: f(t).pad(x, (1, 1) * (x.dim() - 2)),
    "crop": lambda t, x, p: f(t).pad(x, (-1, 0) * (x.dim() - 2)),
    "nearest": lambda t, x, p: f(t).interpolate(x, scale_factor=2),
    "nearest size": lambda t, x, p: f(t).interpolate(x, size=(3,) * (x.dim() - 2)),
    "nearest same": lambda t, x, p: f(t).interpolate(x, size=x.shape[2:]),
    "nearest-exact": lambda t, x, p: f(t).interpolate(x, scale_factor=2, mode="nearest-exact"),
    "area": lambda t, x, p: f(t).interpolate(x, size=(2,) * (x.dim() - 2), mode="area"),
    "linear": lambda t, x, p: f(t).interpolate(
        x, scale_factor=2, mode={3: "linear", 4: "bilinear", 5: "trilinear"}[x.dim()]
    ),
    "linear corners": lambda t, x, p: f(t).interpolate(
        x, scale_factor=2, mode={3: "linear", 4: "bilinear", 5: "trilinear"}[x.dim()],
        align_corners=True,
    ),
    "grid_sample": lambda t, x, p: f(t).grid_sample(
        x, t.zeros(x.shape[0], *[3] * (x.dim() - 2), x.dim() - 2, dtype=x.dtype),
        align_corners=False,
    ),
}  # fmt: skip

IMAGES = {
    "bicubic": lambda t, x: f(t).interpolate(x, scale_factor=2, mode="bicubic"),
    "antialias": lambda t, x: f(t).interpolate(
        x, scale_factor=0.5, mode="bilinear", antialias=True
    ),
    "pixel_shuffle": lambda t, x: f(t).pixel_shuffle(x, 2) if x.shape[1] % 4 == 0 else x,
    "pixel_unshuffle": lambda t, x: f(t).pixel_unshuffle(x, 2),
    "channel_shuffle": lambda t, x: f(t).channel_shuffle(x, 2) if x.shape[1] % 2 == 0 else x,
    "unfold": lambda t, x: f(t).unfold(x, 2),
    "fold": lambda t, x: f(t).fold(f(t).unfold(x, 2), x.shape[2:], 2),
    "affine_grid": lambda t, x: f(t).affine_grid(t.zeros(2, 2, 3), [2, 1, 3, 3]),
    "conv in channels_last": lambda t, x: t.nn.Conv2d(x.shape[1], 3, 2, dtype=x.dtype).to(
        memory_format=t.channels_last
    )(x),
    "scaled_dot_product_attention": lambda t, x: f(t).scaled_dot_product_attention(x, x, x),
}


def weight(t, x, *sizes):
    return t.ones(*sizes, *[sizes[-1]] * (x.dim() - 3), dtype=x.dtype, requires_grad=True)


def last(t, w):
    name = {4: "channels_last", 5: "channels_last_3d"}.get(w.dim(), "contiguous_format")
    return w.detach().contiguous(memory_format=getattr(t, name)).requires_grad_()


def of_rank(program):
    def run(t, x):
        rank = x.dim() - 2
        return program(t, x, lambda name: getattr(f(t), f"{name}{rank}d"))

    return run


EVERYWHERE = {**POINTWISE, **REDUCTIONS, **ALONG, **OTHERS, **{
    f"{name} nd": of_rank(program) for name, program in ALL.items()
}}  # fmt: skip


def programs_of_rank(rank):
    return EVERYWHERE | IMAGES if rank == 4 else EVERYWHERE
