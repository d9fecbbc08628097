"""Sizes at which the device's own libraries and the fused kernels take over, held to the CPU."""

import pytest

import rushlight as torch
from rushlight.nn import functional as F

torch.backends.cudnn.allow_tf32 = False  # which the CPU knows nothing of

N = 96


def close(found, wanted, limit=1e-4):
    found, wanted = found.cpu(), wanted.cpu()
    scale = wanted.abs().max().clamp(min=1)
    assert found.shape == wanted.shape
    assert ((found - wanted).abs().max() / scale).item() < limit


def matrices(dtype=torch.float64, batch=2, m=N, n=N):
    torch.manual_seed(3)
    return torch.randn(batch, m, n, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.complex128])
class TestLinalg:
    def test_cholesky(self, dtype):
        a = matrices(dtype)
        a = a @ a.mH + N * torch.eye(N, dtype=dtype)
        close(torch.linalg.cholesky(a.cuda()), torch.linalg.cholesky(a))
        close(torch.linalg.cholesky(a.cuda(), upper=True), torch.linalg.cholesky(a, upper=True))

    def test_solving(self, dtype):
        a, b = matrices(dtype) + 10 * torch.eye(N, dtype=dtype), matrices(dtype, n=5)
        close(torch.linalg.solve(a.cuda(), b.cuda()), torch.linalg.solve(a, b))
        close(torch.linalg.inv(a.cuda()), torch.linalg.inv(a))
        lu, pivots = torch.linalg.lu_factor(a.cuda())
        close(torch.linalg.lu_solve(lu, pivots, b.cuda()), torch.linalg.solve(a, b))
        close(torch.linalg.slogdet(a.cuda())[1], torch.linalg.slogdet(a)[1])
        lower = a.tril()
        for upper, matrix in ((False, lower), (True, lower.mT)):
            close(torch.linalg.solve_triangular(matrix.cuda(), b.cuda(), upper=upper),
                  torch.linalg.solve_triangular(matrix, b, upper=upper))  # fmt: skip

    def test_qr(self, dtype):
        for m, n in ((N, N), (N + 20, N)):
            q, r = torch.linalg.qr(matrices(dtype, m=m, n=n).cuda())
            close(q @ r, matrices(dtype, m=m, n=n))
            close(q.mH @ q, torch.eye(n, dtype=dtype).expand(2, n, n))

    def test_eigh(self, dtype):
        a = matrices(dtype)
        a = a + a.mH
        w, v = torch.linalg.eigh(a.cuda())
        close(w, torch.linalg.eigvalsh(a))
        close((v * w.unsqueeze(-2)) @ v.mH, a)

    @pytest.mark.parametrize("shape", [(N, N), (N + 10, N), (N, N + 30)])
    @pytest.mark.parametrize("full", [False, True])
    def test_svd(self, dtype, shape, full):
        a = matrices(dtype, m=shape[0], n=shape[1])
        u, s, vh = torch.linalg.svd(a.cuda(), full_matrices=full)
        close(s, torch.linalg.svdvals(a))
        close(torch.linalg.svdvals(a.cuda()), torch.linalg.svdvals(a))
        k = min(shape)
        close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a)
        close(u.mH @ u, torch.eye(u.shape[-1], dtype=dtype).expand(2, -1, -1))


def test_gradients_of_linalg():
    a = matrices() + 10 * torch.eye(N, dtype=torch.float64)
    grads = []
    for device in ("cpu", "cuda"):
        x = a.detach().to(device).requires_grad_()
        (torch.linalg.inv(x).sum() + torch.linalg.svdvals(x).sum()).backward()
        grads.append(x.grad)
    close(grads[1], grads[0])


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
@pytest.mark.parametrize("n", [64, 63, 97])
def test_fft(dtype, n):
    torch.manual_seed(0)
    x = torch.randn(3, n, 5, dtype=dtype)
    for dim in (0, 1, 2):
        close(torch.fft.fft(x.cuda(), dim=dim), torch.fft.fft(x, dim=dim))
        close(
            torch.fft.ifft(x.cuda(), dim=dim, norm="ortho"),
            torch.fft.ifft(x, dim=dim, norm="ortho"),
        )
    y = x.real.contiguous()
    close(torch.fft.rfft(y.cuda(), dim=1), torch.fft.rfft(y, dim=1))
    close(torch.fft.irfft(x.cuda(), n=n, dim=1), torch.fft.irfft(x, n=n, dim=1))
    close(torch.fft.fft2(x.cuda()), torch.fft.fft2(x))


CASES = {
    "plain": {"queries": 130, "keys": 130, "width": 64},
    "causal": {"queries": 600, "keys": 600, "width": 64, "is_causal": True},
    "wide": {"queries": 70, "keys": 150, "width": 128},
    "wide causal": {"queries": 300, "keys": 300, "width": 128, "is_causal": True},
    "narrow": {"queries": 33, "keys": 65, "width": 40},
    "grouped": {"queries": 100, "keys": 90, "width": 32, "key_heads": 2, "enable_gqa": True},
    "grouped causal": {"queries": 100, "keys": 100, "width": 80, "key_heads": 1, "enable_gqa": True,
                           "is_causal": True},
    "masked": {"queries": 77, "keys": 99, "width": 64, "mask": True},
    "odd width": {"queries": 20, "keys": 30, "width": 12},
    "one query": {"queries": 1, "keys": 257, "width": 64},
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("case", CASES)
def test_attention(case, dtype):
    options = dict(CASES[case])
    queries, keys, width = (options.pop(n) for n in ("queries", "keys", "width"))
    heads, key_heads = 4, options.pop("key_heads", 4)
    torch.manual_seed(1)
    q = torch.randn(2, queries, heads, width).to(dtype)
    k, v = (torch.randn(2, key_heads, keys, width).to(dtype) for _ in range(2))
    mask = None
    if options.pop("mask", False):
        mask = torch.rand(2, 1, queries, keys) > 0.3
        mask[0, 0, 5] = False  # a query that sees nothing
    g = torch.randn(2, heads, queries, width).to(dtype)
    results = []
    for device in ("cpu", "cuda"):
        at = torch.float32 if device == "cpu" else dtype
        inputs = [t.detach().to(device, at).requires_grad_() for t in (q, k, v)]
        y = F.scaled_dot_product_attention(
            inputs[0].transpose(1, 2), *inputs[1:],
            attn_mask=None if mask is None else mask.to(device), **options,
        )  # fmt: skip
        y.backward(g.to(device, at))
        results.append([y.detach(), *(t.grad for t in inputs)])
    limit = {torch.bfloat16: 3e-2, torch.float16: 5e-3, torch.float32: 1e-4}[dtype]
    for wanted, found in zip(*results, strict=True):
        assert found.dtype == dtype
        close(found.float(), wanted, limit)


LONG = {
    "plain": {"queries": 130, "keys": 200, "width": 64},
    "causal": {"queries": 333, "keys": 333, "width": 128, "is_causal": True},
    "causal, more keys": {"queries": 150, "keys": 257, "width": 40, "is_causal": True},
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("case", LONG)
def test_attention_of_a_shape_that_comes_often_is_the_library_s(case, dtype):
    options = dict(LONG[case])
    queries, keys, width = (options.pop(n) for n in ("queries", "keys", "width"))
    torch.manual_seed(1)
    q, g = (torch.randn(2, queries, 4, width, dtype=dtype).cuda().transpose(1, 2) for _ in range(2))
    k, v = (torch.randn(2, keys, 4, width, dtype=dtype).cuda().transpose(1, 2) for _ in range(2))
    inputs = [t.requires_grad_() for t in (q, k, v)]

    def attend(scale=None):
        y = F.scaled_dot_product_attention(*inputs, scale=scale, **options)
        return [y.detach(), *torch.autograd.grad(y, inputs, g)]

    def all_equal(a, b):
        return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))

    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.FLASH_ATTENTION):
        ours, half = attend(), attend(0.05)
    for _ in range(70):
        found = attend()
    if torch.backends.cudnn.is_available():
        assert not all_equal(found, ours)
    limit = {torch.bfloat16: 3e-2, torch.float16: 5e-3}[dtype]
    for x, y in zip([*found, *attend(0.05)], [*ours, *half], strict=True):
        close(x.float(), y.float(), limit)
    torch.use_deterministic_algorithms(True)
    try:
        assert all_equal(attend(), ours)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(8, 6, 24, 32), (4, 3, 7, 7), (2, 600, 4, 4)])
def test_batch_norm(shape, dtype):
    torch.manual_seed(0)
    x, g = (torch.randn(shape, dtype=dtype) * 3 + 5 for _ in range(2))
    w, b = torch.randn(shape[1], dtype=dtype), torch.randn(shape[1], dtype=dtype)
    results = []
    for device in ("cpu", "cuda"):
        inputs = [t.detach().to(device).requires_grad_() for t in (x, w, b)]
        y = F.batch_norm(inputs[0], None, None, *inputs[1:], training=True)
        y.backward(g.to(device))
        results.append([y.detach(), *(t.grad for t in inputs)])
    for wanted, found in zip(*results, strict=True):
        close(found, wanted, 1e-4 if dtype == torch.float32 else 1e-10)
