"""Mixed precision on the device: what runs in the region's dtype, in float32, in the widest."""

import pytest

import rushlight as torch

F = torch.nn.functional
HALVES = [torch.float16, torch.bfloat16]


def half(dtype, *shape):
    return (torch.rand(*shape, device="cuda") * 0.5 + 0.25).to(dtype)


# Of tensors of 4 x 4 of the region's dtype, in float32.
FULL = {
    "acos": lambda x: x.acos(), "asin": lambda x: x.asin(), "cosh": lambda x: x.cosh(),
    "erfinv": lambda x: x.erfinv(), "exp": lambda x: x.exp(), "expm1": lambda x: x.expm1(),
    "log": lambda x: x.log(), "log10": lambda x: x.log10(), "log2": lambda x: x.log2(),
    "log1p": lambda x: x.log1p(), "reciprocal": lambda x: x.reciprocal(),
    "rsqrt": lambda x: x.rsqrt(), "sinh": lambda x: x.sinh(), "tan": lambda x: x.tan(),
    "pow": lambda x: x**2, "pow of tensors": lambda x: x**x, "pow of a number": lambda x: 2**x,
    "number / tensor": lambda x: 1 / x, "softplus": F.softplus,
    "softmax": lambda x: F.softmax(x, 1), "log_softmax": lambda x: F.log_softmax(x, 1),
    "softmin": lambda x: F.softmin(x, 1), "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "group_norm": lambda x: F.group_norm(x, 2), "sum": lambda x: x.sum(),
    "sum of rows": lambda x: x.sum(1), "prod": lambda x: x.prod(), "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1), "norm": lambda x: x.norm(),
    "dist": lambda x: x.dist(x * 0.5),
    "vector_norm": torch.linalg.vector_norm, "logsumexp": lambda x: x.logsumexp(1),
    "cdist": lambda x: torch.cdist(x, x), "pdist": F.pdist, "normalize": F.normalize,
    "cosine_similarity": lambda x: F.cosine_similarity(x, x),
    "mse_loss": lambda x: F.mse_loss(x, x), "l1_loss": lambda x: F.l1_loss(x, x),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, x),
    "kl_div": lambda x: F.kl_div(x, x, reduction="sum"),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.arange(4, device="cuda")),
    "logits": lambda x: F.binary_cross_entropy_with_logits(x, x),
}  # fmt: skip
LOWER = {
    "matmul": lambda x: x @ x, "mv": lambda x: x @ x[0], "linear": lambda x: F.linear(x, x),
    "addmm": lambda x: torch.addmm(x, x, x), "bmm": lambda x: torch.bmm(x[None], x[None]),
    "conv2d": lambda x: F.conv2d(x[None, None], x[None, None]),
    "prelu": lambda x: F.prelu(x, x[0, :1]), "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
}  # fmt: skip
KEPT = {
    "sin": lambda x: x.sin(), "sqrt": lambda x: x.sqrt(), "relu": lambda x: x.relu(),
    "gelu": F.gelu, "mean": lambda x: x.mean(), "max": lambda x: x.max(), "add": lambda x: x + x,
    "exp_": lambda x: x.clone().exp_(), "dropout": F.dropout,
}  # fmt: skip


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", FULL)
def test_ops_in_float32(name, dtype):
    x = half(dtype, 4, 4)
    with torch.autocast("cuda", dtype=dtype):
        y = FULL[name](x)
    assert y.dtype == torch.float32
    assert torch.allclose(y, FULL[name](x.float()), rtol=1e-5, atol=1e-6)
    with torch.autocast("cpu"):
        assert FULL[name](x).device.type == "cuda"


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", LOWER)
def test_ops_in_the_regions_dtype(name, dtype):
    with torch.autocast("cuda", dtype=dtype):
        assert LOWER[name](half(torch.float32, 4, 4)).dtype == dtype


@pytest.mark.parametrize("name", KEPT)
def test_other_ops_keep_their_dtype(name):
    with torch.autocast("cuda", dtype=torch.float16):
        assert KEPT[name](half(torch.float16, 4, 4)).dtype == torch.float16
        assert KEPT[name](half(torch.float32, 4, 4)).dtype == torch.float32


def test_the_widest_of_several():
    x, y = half(torch.float16, 4), half(torch.float32, 4)
    with torch.autocast("cuda", dtype=torch.float16):
        assert torch.dot(x, y).dtype == torch.float32
        assert torch.dot(x, x).dtype == torch.float16
        assert torch.cat([x, y]).dtype == torch.float32
        index = torch.arange(4, device="cuda")
        assert torch.scatter_add(y, 0, index, x).dtype == torch.float32


def test_a_region_of_the_host_leaves_the_device_alone():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert half(torch.float16, 4).exp().dtype == torch.float16
        assert (half(torch.float32, 4, 4) @ half(torch.float32, 4, 4)).dtype == torch.float32
    with torch.autocast("cuda", dtype=torch.float16):
        assert torch.rand(4).half().exp().dtype == torch.float16


@pytest.mark.parametrize("inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("name", [*FULL, *LOWER])
def test_gradients_have_the_dtype_of_what_they_are_of(name, inside):
    f = {**FULL, **LOWER}[name]
    x = half(torch.float16, 4, 4).requires_grad_()
    w = half(torch.float32, 4, 4).requires_grad_()
    with torch.autocast("cuda", dtype=torch.float16):
        y = f(x * 1).sum() + f(w * 1).sum()
        if inside:
            y.backward()
    if not inside:
        y.backward()
    assert x.grad.dtype == torch.float16
    assert w.grad.dtype == torch.float32
    assert w.grad.isfinite().all()
