"""Clipping and loss scaling on the device, without a word to the host, and in a graph."""

import pytest

import rushlight as torch
from rushlight import _C, nn


def gradients(dtype=torch.float32):
    torch.manual_seed(0)
    sizes = [(3,), (40, 50), (), (0,), (20_000,), (7, 1)]
    return [torch.randn(s).to(dtype) for s in sizes]


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.0, float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_norms(dtype, p):
    here = [t for t in gradients(dtype) if t.numel()]
    there = [t.cuda() for t in here]
    wanted = torch.cat([t.double().flatten() for t in here]).norm(p)
    found = nn.utils.get_total_norm(there, p)
    assert found.is_cuda
    assert found.dtype == dtype
    limit = 1e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-5
    if not (dtype == torch.float16 and wanted > 65504):
        assert found.item() == pytest.approx(wanted.item(), rel=limit)


def test_norms_of_other_layouts():
    x = torch.randn(30, 20)
    views = [x.T, x[:, ::2], x[3]]
    there = x.cuda()
    total = nn.utils.get_total_norm([there.T, there[:, ::2], there[3]])
    assert total.item() == pytest.approx(nn.utils.get_total_norm(views).item(), rel=1e-5)
    z = torch.randn(9, dtype=torch.complex64)
    for p in (1.0, 2.0):
        found = nn.utils.get_total_norm([z.cuda()], p).item()
        assert found == pytest.approx(nn.utils.get_total_norm([z], p).item(), rel=1e-5)


@pytest.mark.parametrize("limit", [0.5, 1e6])
def test_clipping(limit):
    here, there = nn.Linear(30, 20), nn.Linear(30, 20).cuda()
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        p.grad = torch.randn(p.shape)
        q.grad = p.grad.cuda()
    there.weight.grad = there.weight.grad.T.contiguous().T
    wanted = nn.utils.clip_grad_norm_(here.parameters(), limit)
    found = nn.utils.clip_grad_norm_(there.parameters(), limit)
    assert found.item() == pytest.approx(wanted.item(), rel=1e-5)
    for p, q in zip(here.parameters(), there.parameters(), strict=True):
        assert torch.allclose(p.grad, q.grad.cpu(), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("bad", [None, float("inf"), float("nan")])
def test_unscaling(bad):
    grads = [t.cuda() for t in gradients()]
    if bad is not None:
        grads[4][19_999] = bad
    before = [g.clone() for g in grads]
    found = torch.zeros((), device="cuda")
    factor = torch.tensor(0.25, device="cuda")
    assert _C._unscale_grads(grads, factor, found)
    assert found.item() == (bad is not None)
    for g, b in zip(grads, before, strict=True):
        assert torch.allclose(g.cpu(), b.cpu() * 0.25, equal_nan=True)


def scaler_on(device):
    return torch.amp.GradScaler(device, init_scale=8.0, growth_interval=2)


def test_the_scale_goes_as_on_the_host():
    histories = []
    for device in ("cpu", "cuda"):
        scaler, history = scaler_on(device), []
        w = torch.ones(4, device=device, requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        for bad in (False, False, True, False, True, True, False, False, False):
            w.grad = None
            scaler.scale((w * (float("inf") if bad else 2.0)).sum()).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_([w], 1.0)
            scaler.step(optimizer)
            scaler.update()
            history.append((scaler.get_scale(), scaler._get_growth_tracker(), *w.tolist()))
        histories.append(history)
    for a, b in zip(*histories, strict=True):
        assert a == pytest.approx(b, rel=1e-5)


def test_all_of_it_is_recorded():
    grads = [t.cuda() for t in gradients()]
    params = [torch.zeros_like(g, requires_grad=True) for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = g
    scaler = scaler_on("cuda")
    optimizer = torch.optim.SGD(params, lr=0.1)

    def work():
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(params, 1.0)
        scaler.update()

    scaler.scale(torch.ones(1, device="cuda"))
    work()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, stream=stream):
        work()
    scale = scaler.get_scale()
    for p in params:
        p.grad.fill_(1.0)
    g.replay()
    total = sum(p.grad.double().square().sum().item() for p in params) ** 0.5
    assert total == pytest.approx(1.0, rel=1e-3)
    assert scaler._get_growth_tracker() in (0, 1)
    assert scaler.get_scale() in (scale, scale * 2)
