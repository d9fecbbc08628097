"""Several CUDA devices in one process; with one, what can be said of one."""

import copy
import threading

import pytest

import rushlight as torch
from rushlight import nn

COUNT = torch.cuda.device_count()
several = pytest.mark.skipif(COUNT < 2, reason="one device")


def places():
    return [torch.device("cuda", i) for i in range(COUNT)]


@pytest.fixture(autouse=True)
def first_device():
    torch.cuda.set_device(0)
    yield
    assert torch.cuda.current_device() == 0 or torch.cuda.set_device(0) is None


def test_numbers_that_are_not_there():
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device=f"cuda:{COUNT}")
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2).to(COUNT)
    for ask in (torch.cuda.set_device, torch.cuda.get_device_name, torch.cuda.synchronize):
        with pytest.raises(AssertionError, match="Invalid device id"):
            ask(COUNT)
    with pytest.raises(ValueError, match="Expected a cuda device"):
        torch.cuda.synchronize("cpu")


def test_places_of_tensors():
    for i, place in enumerate(places()):
        x = torch.arange(6.0, device=place)
        assert x.device == place
        assert x.get_device() == i
        assert str(x.device) == f"cuda:{i}"
        assert f"cuda:{i}" in repr(x)
        y = (x * 2 + 1).reshape(2, 3)
        assert y.device == place
        assert y.tolist() == [[1, 3, 5], [7, 9, 11]]
        for made in (torch.ones(2).cuda(i), torch.ones(2).to(f"cuda:{i}"), torch.ones(2).to(i)):
            assert made.device == place
        assert y.cuda(i) is y
        assert y.to(place) is y
        assert x.new_zeros(2).device == place
        assert torch.zeros_like(x).device == place
        assert torch.tensor([1.0], device=i).device == place
        assert (y @ y.T).device == place
        assert y.sum().item() == 36


def test_the_device_in_use():
    assert torch.cuda.current_device() == 0
    last = COUNT - 1
    with torch.cuda.device(last) as entered:
        assert entered is None
        assert torch.cuda.current_device() == last
        assert torch.ones(1, device="cuda").get_device() == last
        assert torch.ones(1).cuda().get_device() == last
        with torch.cuda.device(torch.device("cuda", 0)):
            assert torch.ones(1).cuda().get_device() == 0
        with torch.cuda.device(-1), torch.cuda.device(None):
            assert torch.cuda.current_device() == last
        assert torch.cuda.current_device() == last
    assert torch.cuda.current_device() == 0
    with torch.cuda.device_of(torch.ones(1, device=f"cuda:{last}")):
        assert torch.cuda.current_device() == last
    with pytest.raises(KeyError), torch.cuda.device(f"cuda:{last}"):
        raise KeyError
    assert torch.cuda.current_device() == 0
    torch.cuda.set_device(f"cuda:{last}")
    assert torch.cuda.current_device() == last
    torch.cuda.set_device(-1)
    assert torch.cuda.current_device() == last


@several
def test_default_device_follows_the_choice():
    torch.set_default_device("cuda")
    try:
        assert torch.ones(1).get_device() == 0
        torch.cuda.set_device(1)
        assert torch.ones(1).get_device() == 1
        assert torch.get_default_device() == torch.device("cuda", 1)
        torch.set_default_device("cuda:0")
        assert torch.ones(1).get_device() == 0
    finally:
        torch.set_default_device(None)
    with torch.device("cuda:1"):
        assert torch.ones(1).get_device() == 1


@several
def test_threads_choose_for_themselves():
    torch.cuda.set_device(1)
    seen = []

    def work():
        seen.append(torch.cuda.current_device())
        x = torch.arange(4.0, device="cuda:1")
        seen.append((x * 2).sum().item())
        seen.append(torch.ones(1, device="cuda").get_device())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0, 12, 0]
    assert torch.cuda.current_device() == 1


@several
def test_tensors_of_one_call_lie_on_one_device():
    x, y = torch.ones(3, 3, device="cuda:0"), torch.ones(3, 3, device="cuda:1")
    calls = (
        lambda: x + y,
        lambda: x @ y,
        lambda: x.add_(y),
        lambda: torch.cat([x, y]),
        lambda: nn.functional.linear(x, y),
        lambda: torch.where(x > 0, x, y),
        lambda: x + torch.ones((), device="cuda:1"),
        lambda: torch.linalg.solve(x, y),
    )
    for call in calls:
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            call()
    with pytest.raises(RuntimeError, match=r"cuda:0.* and cuda:1"):
        x * y
    at = torch.tensor([0, 1], device="cuda:1")
    for call in (lambda: x[at], lambda: x.__setitem__(at, 1.0), lambda: torch.ones(3)[at]):
        with pytest.raises(RuntimeError, match="indices should be either on cpu or on the same"):
            call()
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        x[at.to("cuda:0")] = y[:2]
    x[at.to("cuda:0")] = torch.tensor(4.0, device="cuda:1")
    assert x[torch.tensor([1])].tolist() == [[4.0] * 3]
    x[:] = y
    assert (x + torch.tensor(1.0)).tolist() == [[2.0] * 3] * 3


@several
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_copies_between_devices(dtype):
    x = (torch.arange(24) % 7).to(dtype).reshape(4, 6)
    for a, b in ((0, 1), (1, 0)):
        there = x.to(f"cuda:{a}")
        other = there.to(f"cuda:{b}")
        assert other.get_device() == b
        assert torch.equal(other.cpu(), x)
        assert torch.equal(there[:, ::2].to(f"cuda:{b}").cpu(), x[:, ::2])
        assert torch.equal(there.t().cuda(b, non_blocking=True).cpu(), x.t())
        into = torch.zeros(6, 4, device=f"cuda:{b}", dtype=torch.float64)
        into.t().copy_(there)
        assert torch.equal(into.cpu(), x.t().double())
        assert torch.equal(there[0].to(f"cuda:{b}", torch.float16).cpu(), x[0].half())
        assert torch.equal(there[:0].to(f"cuda:{b}").cpu(), x[:0])


@several
def test_copies_keep_what_streams_do_in_order():
    streams = [torch.cuda.Stream(i) for i in range(2)]
    x = torch.zeros(1 << 16, device="cuda:0")
    with torch.cuda.stream(streams[1]), torch.cuda.stream(streams[0]):
        for n in range(20):
            x.fill_(n)
            y = x.to("cuda:1")
            x.fill_(-1)
            y.mul_(2)
            x.copy_(y)
            assert bool((x == 2 * n).all())
            del y
    torch.cuda.synchronize(1)


@several
def test_streams_and_events():
    s, t = torch.cuda.Stream(device="cuda:1"), torch.cuda.Stream()
    assert (s.device, t.device) == (torch.device("cuda:1"), torch.device("cuda:0"))
    assert torch.cuda.default_stream(0) != torch.cuda.default_stream(1)
    assert torch.cuda.current_stream(1).device_index == 1
    x = torch.ones(4, device="cuda:1")
    with torch.cuda.stream(s):
        assert torch.cuda.current_device() == 1
        assert torch.cuda.current_stream() == s
        assert torch.cuda.current_stream(0) == torch.cuda.default_stream(0)
        y = x * 3
    assert torch.cuda.current_device() == 0
    assert torch.cuda.current_stream(1) == torch.cuda.default_stream(1)
    event = torch.cuda.Event(enable_timing=True)
    assert event.device is None
    event.record(s)
    assert event.device == s.device
    with pytest.raises(RuntimeError, match="does not match recording stream's device"):
        event.record(t)
    t.wait_event(event)
    t.wait_stream(s)
    other = torch.cuda.Event(enable_timing=True)
    other.record(t)
    with pytest.raises(RuntimeError, match="does not match other event's device"):
        event.elapsed_time(other)
    s.synchronize()
    event.synchronize()
    assert event.query()
    assert s.query()
    assert y.tolist() == [3.0] * 4
    torch.cuda.set_stream(s)
    assert torch.cuda.current_device() == 1
    torch.cuda.set_stream(torch.cuda.default_stream(1))
    x.record_stream(t)
    del x


@several
def test_recorded_work_of_the_second_device():
    torch.cuda.set_device(1)
    x, g = torch.zeros(3, device="cuda"), torch.cuda.CUDAGraph()
    torch.manual_seed(0)
    with torch.cuda.graph(g):
        y = x + 1
        noise = torch.rand(3, device="cuda")
    torch.cuda.set_device(0)
    x.fill_(4)
    g.replay()
    first = noise.tolist()
    assert y.tolist() == [5.0] * 3
    g.replay()
    assert noise.tolist() != first
    torch.manual_seed(0)
    assert torch.rand(3, device="cuda:1").tolist() == first


def test_facts_and_memory():
    for i in range(COUNT):
        facts = torch.cuda.get_device_properties(i)
        assert facts.total_memory > 0
        assert torch.cuda.get_device_capability(i) == (facts.major, facts.minor)
        before = [torch.cuda.memory_allocated(k) for k in range(COUNT)]
        x = torch.empty(3 << 20, dtype=torch.uint8, device=f"cuda:{i}")
        after = [torch.cuda.memory_allocated(k) for k in range(COUNT)]
        assert [a - b >= 3 << 20 for a, b in zip(after, before, strict=True)] == [
            k == i for k in range(COUNT)
        ]
        assert torch.cuda.max_memory_allocated(i) >= after[i]
        assert torch.cuda.memory_stats(i)["allocated_bytes.all.current"] == after[i]
        torch.cuda.reset_peak_memory_stats(i)
        free, total = torch.cuda.mem_get_info(i)
        assert 0 < free <= total
        del x
        assert torch.cuda.memory_allocated(i) == before[i]
    torch.cuda.empty_cache()
    assert not torch.cuda.can_device_access_peer(0, 0)


@several
def test_a_limit_is_of_one_device():
    torch.cuda.set_per_process_memory_fraction(1e-9, 1)
    try:
        torch.cuda.empty_cache()
        with pytest.raises(torch.OutOfMemoryError, match="cuda:1 has"):
            torch.empty(256 << 20, dtype=torch.uint8, device="cuda:1")
        torch.empty(256 << 20, dtype=torch.uint8, device="cuda:0")
        assert torch.cuda.get_per_process_memory_fraction(0) == 1
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, 1)


@several
def test_random_numbers():
    torch.cuda.manual_seed_all(3)
    a, b = (torch.rand(5, device=p).tolist() for p in places()[:2])
    assert a == b
    torch.cuda.manual_seed(4)
    assert torch.cuda.initial_seed() == 4
    with torch.cuda.device(1):
        assert torch.cuda.initial_seed() == 3
    state = torch.cuda.get_rng_state(1)
    c = torch.rand(5, device="cuda:1").tolist()
    torch.cuda.set_rng_state(state, 1)
    assert torch.rand(5, device="cuda:1").tolist() == c
    torch.cuda.set_rng_state(state, "cuda:1")
    with torch.random.fork_rng():
        assert torch.rand(5, device="cuda:1").tolist() == c
        torch.rand(5, device="cuda:0")
    assert torch.rand(5, device="cuda:1").tolist() == c
    states = torch.cuda.get_rng_state_all()
    assert len(states) == COUNT
    torch.cuda.set_rng_state_all(states)
    generator = torch.Generator(device="cuda:1").manual_seed(3)
    assert torch.rand(5, device="cuda:1", generator=generator).tolist() == a
    with pytest.raises(RuntimeError, match="Expected a 'cuda:0' device type for generator"):
        torch.rand(5, device="cuda:0", generator=generator)
    assert [g.device.index for g in torch.cuda.default_generators] == list(range(COUNT))


class Halves(nn.Module):
    """A model whose parts lie on two devices."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(4 * 16, 8), nn.ReLU(), nn.Linear(8, 3))

    def forward(self, x):
        x = torch.relu(self.conv(x.to(self.conv.weight.device)))
        return self.head(x.to(self.head[1].weight.device))


@several
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_training_over_two_devices(kind):
    torch.manual_seed(0)
    here = Halves()
    there = copy.deepcopy(here)
    there.conv.to("cuda:0")
    there.head.to("cuda:1")
    models = [here, there]
    optimizers = [getattr(torch.optim, kind)(m.parameters(), lr=0.05) for m in models]
    x, y = torch.randn(8, 2, 4, 4), torch.arange(8) % 3
    for _ in range(4):
        losses = []
        for model, optimizer in zip(models, optimizers, strict=True):
            optimizer.zero_grad()
            out = model(x)
            loss = nn.functional.cross_entropy(out, y.to(out.device))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    for name, p in there.named_parameters():
        assert p.grad.device == p.device
        assert torch.allclose(p.cpu(), here.get_parameter(name), atol=1e-4)
    state = there.state_dict()
    assert {t.get_device() for t in state.values()} == {0, 1}
    moved = there.cuda(1)
    assert {p.get_device() for p in moved.parameters()} == {1}


@several
def test_scaled_losses_of_two_devices():
    model = [nn.Linear(2, 2, device=p) for p in places()[:2]]
    optimizer = torch.optim.SGD([p for m in model for p in m.parameters()], lr=0.1)
    scaler = torch.amp.GradScaler("cuda", init_scale=4.0)
    losses = scaler.scale([m(torch.ones(1, 2, device=m.weight.device)).sum() for m in model])
    for loss in losses:
        loss.backward()
    before = [p.detach().clone() for m in model for p in m.parameters()]
    scaler.step(optimizer)
    scaler.update()
    for old, p in zip(before, (p for m in model for p in m.parameters()), strict=True):
        assert torch.allclose(old - 0.1, p)


@several
def test_gradients_go_back_over_devices():
    x = torch.tensor([1.0, 2.0], device="cuda:0", requires_grad=True)
    y = (x * 3).to("cuda:1")
    z = (y * y).sum() + (x.to("cuda:1") * 2).sum()
    z.backward()
    assert x.grad.device == x.device
    assert x.grad.tolist() == [20.0, 38.0]
    into = torch.zeros(2, device="cuda:1")
    into.copy_(x)
    (g,) = torch.autograd.grad((into**2).sum(), x)
    assert g.device == x.device
    assert g.tolist() == [2.0, 4.0]


@several
def test_a_function_runs_back_on_its_device():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            seen.append(torch.cuda.current_device())
            return g * torch.full((1,), 2.0, device="cuda")

    seen = []
    x = torch.ones(2, device="cuda:1", requires_grad=True)
    Twice.apply(x).sum().backward()
    assert seen == [1]
    assert x.grad.tolist() == [2.0, 2.0]
    assert torch.cuda.current_device() == 0


@several
def test_a_wrong_gradients_device_is_said():
    x = torch.ones(2, device="cuda:1", requires_grad=True)
    with pytest.raises(RuntimeError, match="cuda:0"):
        (x * 2).backward(torch.ones(2, device="cuda:0"))


@several
def test_kernels_are_made_for_each_device():
    x = [torch.rand(2, 8, 16, device=p) for p in places()]
    for _ in range(40):  # beyond the launches after which a kernel gets a graph of its own
        results = [nn.functional.layer_norm(t.softmax(-1).cumsum(-1), (16,)).sum() for t in x]
    for t, r in zip(x, results, strict=True):
        h = t.cpu()
        want = nn.functional.layer_norm(h.softmax(-1).cumsum(-1), (16,)).sum()
        assert r.device == t.device
        assert r.item() == pytest.approx(want.item(), abs=1e-3)
    index = torch.tensor([5], device="cuda:1")
    torch.ones(3, device="cuda:1")[index]
    with pytest.raises(IndexError, match="index 5 is out of bounds"):
        torch.cuda.synchronize(1)


@several
def test_saving_and_sharing(tmp_path):
    from rushlight.utils import dlpack

    x = torch.arange(4.0, device="cuda:1")
    torch.save({"x": x}, tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt")["x"].device == x.device
    loaded = torch.load(tmp_path / "x.pt", map_location="cuda:0")["x"]
    assert loaded.get_device() == 0
    assert torch.equal(loaded.cpu(), x.cpu())
    turned = torch.load(tmp_path / "x.pt", map_location={"cuda:1": "cuda:0"})["x"]
    assert turned.get_device() == 0
    with pytest.raises(RuntimeError, match=r"CUDA device 9 but torch.cuda.device_count"):
        torch.load(tmp_path / "x.pt", map_location="cuda:9")
    assert x.__dlpack_device__() == (2, 1)
    shared = dlpack.from_dlpack(x)
    assert shared.device == x.device
    assert shared.data_ptr() == x.data_ptr()

    class Foreign:
        __cuda_array_interface__ = x.__cuda_array_interface__

    assert torch.as_tensor(Foreign()).device == x.device
    pinned = torch.ones(4).pin_memory()
    assert torch.equal((x + pinned.to("cuda:1", non_blocking=True)).cpu(), x.cpu() + 1)
