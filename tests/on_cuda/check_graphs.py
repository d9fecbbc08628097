"""Recorded work: what a graph replays is what the program did."""

import copy

import pytest

import rushlight as torch
from rushlight import nn
from rushlight.nn import functional as F


def record(f, **options):
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g, **options):
        out = f()
    return g, out


def test_a_graph_reads_and_writes_the_same_memory():
    x = torch.zeros(5, device="cuda")
    g, y = record(lambda: (x + 1).exp() * 2)
    for value in (0.0, 1.0, -2.0):
        x.fill_(value)
        g.replay()
        want = (torch.full((5,), value) + 1).exp() * 2
        assert torch.allclose(y.cpu(), want)


def test_nothing_runs_while_it_is_recorded():
    x = torch.ones(3, device="cuda")
    assert not torch.cuda.is_current_stream_capturing()
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        assert torch.cuda.is_current_stream_capturing()
        x.mul_(2)
    assert not torch.cuda.is_current_stream_capturing()
    assert x.tolist() == [1.0, 1.0, 1.0]
    for _ in range(3):
        g.replay()
    assert x.tolist() == [8.0, 8.0, 8.0]


def test_its_memory_is_its_own():
    x = torch.arange(1000.0, device="cuda")
    g, y = record(lambda: (x * 2 + 1) * 3)
    others = [torch.full((1000,), -1.0, device="cuda") for _ in range(20)]
    torch.cuda.empty_cache()
    g.replay()
    assert torch.equal(y.cpu(), (torch.arange(1000.0) * 2 + 1) * 3)
    assert all((t == -1).all().item() for t in others)
    before = torch.cuda.memory_reserved()
    g.reset()
    del y
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() < before
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()


def test_graphs_share_a_pool():
    pool = torch.cuda.graph_pool_handle()
    x = torch.ones(100, device="cuda")
    first, y = record(lambda: x * 2, pool=pool)
    second, z = record(lambda: y + 1, pool=first.pool())
    x.fill_(5)
    first.replay()
    second.replay()
    assert z[0].item() == 11


@pytest.mark.parametrize("what", ["item", "synchronize", "tensor"])
def test_what_needs_the_host_is_refused(what):
    x = torch.ones(3, device="cuda")
    does = {
        "item": lambda: x.sum().item(),
        "synchronize": torch.cuda.synchronize,
        "tensor": lambda: torch.tensor([1.0, 2.0], device="cuda"),
    }
    with pytest.raises(RuntimeError, match="not permitted when stream is capturing"):
        record(does[what])
    assert (x + 1).tolist() == [2.0, 2.0, 2.0]


CONSTANTS = {
    "full": lambda x: torch.full((3, 4), 2.5, device="cuda") + torch.full_like(x, 2),
    "new_full": lambda x: x.new_full((2,), 3),
    "arange": lambda x: torch.arange(5, device="cuda") + torch.arange(0, 1, 0.2, device="cuda"),
    "linspace": lambda x: torch.linspace(0, 1, 6, device="cuda"),
    "setitem": lambda x: x.clone().index_put_((torch.arange(2, device="cuda"),), x[0]).fill_(1),
    "masked_fill": lambda x: x.masked_fill(x > 0, -1.0),
    "pad": lambda x: F.pad(x, (1, 2), value=3.0),
    "avg_pool": lambda x: F.avg_pool1d(x[None], 2),
    "adaptive": lambda x: F.adaptive_avg_pool1d(x[None], 3),
    "interpolate": lambda x: F.interpolate(x[None], 9, mode="linear"),
    "index_fill": lambda x: x.index_fill(0, torch.arange(2, device="cuda"), 4.0),
    "bce": lambda x: F.binary_cross_entropy(x.sigmoid(), torch.ones_like(x)),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_numbers_of_the_program_are_recorded(name):
    torch.manual_seed(0)
    x = torch.randn(3, 4, device="cuda")
    CONSTANTS[name](x)
    g, found = record(lambda: CONSTANTS[name](x))
    for _ in range(2):
        x.copy_(torch.randn(3, 4))
        g.replay()
        assert torch.allclose(found.cpu(), CONSTANTS[name](x).cpu())


def test_an_element_is_set_in_a_graph():
    x = torch.zeros(3, 2, device="cuda")
    x[0] = 1
    g, _ = record(lambda: x.__setitem__(1, 5.0))
    g.replay()
    assert x.tolist() == [[1.0, 1.0], [5.0, 5.0], [0.0, 0.0]]


def test_the_first_stream_is_not_recorded():
    with pytest.raises(RuntimeError, match="non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()


def test_random_numbers_go_on():
    g, mask = record(lambda: F.dropout(torch.ones(64, device="cuda"), 0.5))
    torch.cuda.manual_seed(7)
    g.replay()
    first = mask.clone()
    g.replay()
    assert not torch.equal(first, mask)
    torch.cuda.manual_seed(7)
    assert torch.equal(F.dropout(torch.ones(64, device="cuda"), 0.5), first)
    second = F.dropout(torch.ones(64, device="cuda"), 0.5)
    assert torch.equal(second, mask)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


RULES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_training_step(rule):
    torch.manual_seed(1)
    batches = [(torch.randn(6, 8), torch.randint(0, 4, (6,))) for _ in range(8)]
    plain, model = net(), net().cuda()
    slow, fast = RULES[rule](plain.parameters()), RULES[rule](model.parameters())

    def step(model, optimizer, x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = (t.cuda() for t in batches[0])
    wanted, found = [], []
    for a, b in batches[:2]:
        wanted.append(step(plain, slow, a, b).item())
        x.copy_(a), y.copy_(b)
        found.append(step(model, fast, x, y).item())
    fast.zero_grad()
    g, loss = record(lambda: step(model, fast, x, y))
    for i, (a, b) in enumerate(batches[2:]):
        if i == 3:  # a schedule
            slow.param_groups[0]["lr"] = fast.param_groups[0]["lr"] = 0.003
        wanted.append(step(plain, slow, a, b).item())
        x.copy_(a), y.copy_(b)
        g.replay()
        found.append(loss.item())
    assert found == pytest.approx(wanted, rel=1e-4)
    for a, b in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.allclose(a, b.cpu(), rtol=1e-3, atol=1e-5)
    steps = [s["step"] for s in fast.state.values() if "step" in s]
    assert all(float(s) == len(batches) for s in steps)


def test_the_first_step_is_taken_before():
    model = net().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 8, device="cuda")).sum().backward()
    with pytest.raises(RuntimeError, match="take a step before capturing"):
        record(optimizer.step)


def test_graphed_callables():
    torch.manual_seed(2)
    model = net().cuda()
    twin = copy.deepcopy(model)
    fast = torch.cuda.make_graphed_callables(model, (torch.randn(6, 8, device="cuda"),))
    assert fast is model
    for _ in range(3):
        x = torch.randn(6, 8, device="cuda")
        fast.zero_grad(), twin.zero_grad()
        (fast(x) ** 2).sum().backward()
        (twin(x) ** 2).sum().backward()
        for a, b in zip(fast.parameters(), twin.parameters(), strict=True):
            assert torch.allclose(a.grad, b.grad, rtol=1e-5, atol=1e-6)
    fast.eval()
    assert torch.allclose(fast(x[:2]), twin(x[:2]), rtol=1e-5, atol=1e-6)  # any shape


def test_graphed_functions():
    def f(x, y):
        return x * y, (x + y).sin()

    x = torch.randn(4, device="cuda", requires_grad=True)
    y = torch.randn(4, device="cuda")
    fast = torch.cuda.make_graphed_callables(f, (x.detach().requires_grad_(), y))
    a, b = fast(x, y)
    assert torch.allclose(a, x * y)
    assert torch.allclose(b, (x + y).sin())
    (g,) = torch.autograd.grad((a.sum() + b.sum()), x)
    assert torch.allclose(g, y + (x + y).cos(), atol=1e-6)


def test_a_registered_generator_goes_on_at_each_replay():
    generator = torch.Generator("cuda").manual_seed(5)
    g = torch.cuda.CUDAGraph()
    g.register_generator_state(generator)
    with torch.cuda.graph(g):
        y = torch.rand(4, device="cuda", generator=generator)
        z = torch.rand(4, device="cuda")
    torch.cuda.manual_seed(8)
    plain = torch.Generator("cuda").manual_seed(5)
    for _ in range(3):
        g.replay()
        assert torch.equal(y, torch.rand(4, device="cuda", generator=plain))
    generator.manual_seed(6)
    torch.cuda.manual_seed(9)
    g.replay()
    assert torch.equal(y, torch.rand(4, device="cuda", generator=plain.manual_seed(6)))
    assert torch.equal(z, torch.rand(4, device="cuda", generator=plain.manual_seed(9)))


def test_a_generator_that_is_not_registered_is_refused():
    generator = torch.Generator("cuda")
    with (
        pytest.raises(RuntimeError, match="for a CUDA generator not in capture mode"),
        torch.cuda.graph(torch.cuda.CUDAGraph()),
    ):
        torch.rand(4, device="cuda", generator=generator)


def test_graphed_callables_refuse_kept_casts():
    layer = nn.Linear(3, 3, device="cuda")
    x = torch.randn(2, 3, device="cuda")
    with (
        torch.autocast("cuda", dtype=torch.float16),
        pytest.raises(RuntimeError, match="does not support the autocast caching"),
    ):
        torch.cuda.make_graphed_callables(layer, (x,))
