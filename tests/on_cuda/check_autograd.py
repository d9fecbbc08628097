"""Autograd on the device: checkpoints, saved tensors, hooks, anomalies; loaders, full memory."""

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.utils.checkpoint import checkpoint
from rushlight.utils.data import DataLoader, TensorDataset

F = nn.functional


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_draws_the_same_numbers_again(reentrant):
    net = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.Linear(32, 4)).to("cuda")
    x = torch.randn(16, 8, device="cuda", requires_grad=True)
    grads = []
    for run in (net, lambda x: checkpoint(net, x, use_reentrant=reentrant)):
        torch.cuda.manual_seed(7)
        (grad,) = torch.autograd.grad(run(x).square().sum(), x) if not reentrant else (None,)
        if reentrant:
            x.grad = None
            run(x).square().sum().backward()
            grad = x.grad.clone()
        grads.append(grad)
    assert torch.equal(*grads)


@pytest.mark.parametrize("pinned", [False, True])
def test_saved_tensors_wait_on_the_host(pinned):
    x = torch.randn(64, 64, device="cuda", requires_grad=True)
    expected = torch.autograd.grad((x @ x).tanh().sum(), x)[0]
    with torch.autograd.graph.save_on_cpu(pin_memory=pinned):
        y = (x @ x).tanh().sum()
    assert torch.equal(torch.autograd.grad(y, x)[0], expected)


@pytest.mark.parametrize("pinned", [False, True])
def test_what_waits_on_the_host_takes_no_memory_of_the_device(pinned):
    x = torch.randn(256, 256, device="cuda", requires_grad=True)
    expected = torch.autograd.grad((x.sin().exp() * 2).cos().sum(), x)[0]
    before = torch.cuda.memory_allocated()
    with torch.autograd.graph.save_on_cpu(pin_memory=pinned):
        y = (x.sin().exp() * 2).cos().sum()
    assert torch.cuda.memory_allocated() - before < 4096
    assert torch.equal(torch.autograd.grad(y, x)[0], expected)


def test_packing_hooks_see_tensors_of_the_device():
    seen = []
    x = torch.randn(4, device="cuda", requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (seen.append(t.device.type), t)[1],
                                                  lambda t: t):  # fmt: skip
        y = (x.exp() * x).sum()
    y.backward()
    assert set(seen) == {"cuda"}


def test_hooks():
    x = torch.randn(4, device="cuda", requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * 3)
    calls = []
    x.register_post_accumulate_grad_hook(lambda p: calls.append(p.grad.device.type))
    y.sum().backward()
    assert x.grad.tolist() == [6.0] * 4
    assert calls == ["cuda"]


def busy(x, times=300):
    """Work that takes the device a while, and comes to x."""
    for _ in range(times):
        x = x * 1.0000001
    return x


def test_backward_runs_on_the_stream_of_forward():
    side, seen = torch.cuda.Stream(), []
    x = torch.randn(256, 256, device="cuda", requires_grad=True)
    expected = torch.autograd.grad((x @ x).sin().sum(), x)[0]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y = (x @ x).sin()
        y.register_hook(lambda g: seen.append(torch.cuda.current_stream()))
        y = y.sum()
    y.backward()
    assert seen == [side]
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert torch.equal(x.grad, expected)


@pytest.mark.parametrize("of", ["backward", "grad"])
def test_gradients_are_ordered_with_the_callers_stream(of):
    """Forward and backward of the side stream take long; nobody waits but backward itself."""
    side = torch.cuda.Stream()
    x = torch.randn(512, 512, device="cuda", requires_grad=True)
    expected = torch.autograd.grad(busy(busy(x, 100).square(), 100).sum() * 3, x)[0]
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        y = busy(busy(x, 100).square(), 100).sum()
    if of == "grad":
        (grad,) = torch.autograd.grad(y, x, torch.tensor(3.0, device="cuda"))
    else:
        y.backward(torch.tensor(3.0, device="cuda"))
        grad = x.grad
    assert torch.allclose(grad, expected, rtol=1e-4)


def test_gradients_cross_between_streams():
    streams = [torch.cuda.Stream() for _ in range(2)]
    x = torch.randn(512, 512, device="cuda", requires_grad=True)
    expected = torch.autograd.grad(sum(busy(x * k, 50).cos().sum() for k in (1, 2)), x)[0]
    torch.cuda.synchronize()
    parts = []
    shared = x * 1
    for k, stream in enumerate(streams, 1):
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            parts.append(busy(shared * k, 50).cos())
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    (parts[0].sum() + parts[1].sum()).backward()
    assert torch.allclose(x.grad, expected, rtol=1e-4, atol=1e-5)


def test_backward_on_another_stream_than_forward():
    side = torch.cuda.Stream()
    x = torch.randn(512, 512, device="cuda", requires_grad=True)
    y = busy(x, 100).square().sum()
    expected = torch.autograd.grad(y, x, retain_graph=True)[0]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        y.backward(busy(torch.ones((), device="cuda"), 100))
        doubled = x.grad * 2
        assert torch.cuda.current_stream() == side
    side.synchronize()
    assert torch.allclose(doubled, expected * 2, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
def test_an_anomaly_names_the_line():
    x = torch.zeros(3, device="cuda", requires_grad=True)
    with torch.autograd.detect_anomaly():
        y = (x / x).sum()
        with (
            pytest.warns(UserWarning, match=r"DivBackward0[^$]*check_autograd\.py"),
            pytest.raises(RuntimeError, match="'DivBackward0' returned nan values"),
        ):
            y.backward()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_loader_of_pinned_batches(workers):
    data = TensorDataset(torch.arange(32.0).reshape(16, 2), torch.arange(16))
    total = 0.0
    for x, i in DataLoader(data, batch_size=4, pin_memory=True, num_workers=workers):
        assert x.is_pinned()
        assert i.is_pinned()
        total += x.to("cuda", non_blocking=True).sum().item()
    assert total == float(sum(range(32)))


def test_copies_that_do_not_wait_are_in_order():
    host = torch.zeros(1 << 16).pin_memory()
    x = torch.zeros(1 << 16, device="cuda")
    for step in range(5):
        x += 1
        host.copy_(x, non_blocking=True)
        torch.cuda.synchronize()
        assert host[::4096].tolist() == [step + 1.0] * 16


def test_memory_that_runs_out_says_what_was_asked_for_and_who_holds_most():
    held = torch.zeros(1 << 22, device="cuda")
    with pytest.raises(torch.cuda.OutOfMemoryError) as error:
        torch.zeros(1 << 46, device="cuda")
    text = str(error.value)
    assert "CUDA out of memory. Tried to allocate" in text
    assert "It was asked for at" in text
    assert "Most was taken at" in text
    assert text.count("check_autograd.py") >= 2  # this line, and those of what is held
    assert (held + 1).sum().item() == 1 << 22


def test_figures_of_memory():
    torch.cuda.reset_peak_memory_stats()
    x = torch.zeros(1 << 20, device="cuda")
    assert torch.cuda.max_memory_allocated() >= 4 << 20
    assert torch.cuda.memory_stats()["allocated_bytes.all.current"] >= 4 << 20
    assert "allocated" in torch.cuda.memory_summary().lower()
    del x
