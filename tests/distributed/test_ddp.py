"""DistributedDataParallel trains as one process does on all the data."""

import copy
import gc
import pickle
import weakref

import pytest

import rushlight as torch
from ddp_models import F64, Branches, batches, close, net
from processes import Failed, needs_mpi, run
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed import _exchange
from rushlight.nn.parallel import DistributedDataParallel as DDP
from rushlight.nn.parallel import _buckets
from rushlight.utils.checkpoint import checkpoint

pytestmark = needs_mpi


def train(model, losses, steps=3, optimizer=torch.optim.Adam):
    """Steps on the mean of some losses; the parameters then."""
    optimizer = optimizer(model.parameters(), lr=0.05)
    for step in range(steps):
        optimizer.zero_grad()
        sum(loss(model, step) for loss in losses).div(len(losses)).backward()
        optimizer.step()
    return list(model.parameters())


def same(make, loss, rank, size, steps=3, **options):
    """Whether DDP on each rank's loss is one process on the mean of all."""
    expected = train(make(), [lambda m, s, r=r: loss(m, r, s) for r in range(size)], steps)
    model = make(seed=rank)  # the numbers of rank 0 count
    found = train(DDP(model, **options), [lambda m, s: loss(m, rank, s)], steps)
    close(found, expected)


def square(size):
    parts = batches(size)
    return lambda model, rank, step: (model(parts[rank] + step) ** 2).mean()


def trajectories(rank, size):
    loss = square(size)
    same(net, loss, rank, size)
    same(net, loss, rank, size, gradient_as_bucket_view=True)
    same(net, loss, rank, size, bucket_cap_mb=1e-5)
    same(net, loss, rank, size, bucket_cap_mb=1e-5, gradient_as_bucket_view=True, static_graph=True)
    same(net, loss, rank, size, bucket_cap_mb_list=[1e-4, 2e-4], find_unused_parameters=True)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_parameters_go_the_way_of_one_process(size):
    run(trajectories, size)


class Shared(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.first = nn.Linear(4, 4).double()
        self.second = nn.Linear(4, 4).double()
        self.second.weight = self.first.weight

    def forward(self, x):
        return self.second(torch.sin(self.first(self.first(x))))


class Checkpointed(nn.Module):
    def __init__(self, seed=0):
        super().__init__()
        self.inner = net(seed)

    def forward(self, x):
        return checkpoint(self.inner, checkpoint(torch.sin, x, use_reentrant=False))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad


class Nested(torch.autograd.Function):
    """A backward pass within a backward pass, through the same parameter."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x)
        ctx.weight = weight
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            (ctx.weight**2).sum().backward()
        return grad, None


def models(rank, size):
    parts = batches(size)
    plain = square(size)

    def branches(model, rank, step):
        return (model(parts[rank], 1 + (rank + step) % 2) ** 2).mean()

    same(Branches, branches, rank, size)
    same(Branches, branches, rank, size, bucket_cap_mb=1e-4, gradient_as_bucket_view=True)
    same(Branches, branches, rank, size, bucket_cap_mb=1e-5, static_graph=True)
    same(Shared, plain, rank, size, bucket_cap_mb=1e-4)
    same(Checkpointed, plain, rank, size, bucket_cap_mb=1e-4)
    same(net, lambda m, r, s: Doubled.apply(m(parts[r])).cos().mean(), rank, size)

    def penalty(model, rank, step):
        x = parts[rank].clone().requires_grad_()
        (grad,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        return (grad**2).mean()

    same(net, penalty, rank, size)

    def nested(model, rank, step):
        first = model.module[0] if isinstance(model, DDP) else model[0]
        return Nested.apply(model(parts[rank]), first.weight).square().mean()

    # Each rank's inner pass adds the same gradient; in one process it runs once for every rank.
    expected = net()
    total = sum(nested(expected, r, 0) for r in range(size)) / size
    total.backward()
    inner = 2 * expected[0].weight.detach()
    expected[0].weight.grad -= (size - 1) * inner
    model = DDP(net(), bucket_cap_mb=1e-5)
    for _ in range(2):  # in the second pass it is known how often gradients come
        model.zero_grad()
        nested(model, rank, 0).backward()
        close([p.grad for p in model.parameters()], [p.grad for p in expected.parameters()])


@pytest.mark.parametrize("size", [2, 3])
def test_models_of_every_kind(size):
    run(models, size)


def accumulation(rank, size):
    parts, loss = batches(size), square(size)
    expected = net()
    for step in range(3):
        sum(loss(expected, r, step) for r in range(size)).div(size).backward()
    for views in (False, True):
        model = DDP(net(), gradient_as_bucket_view=views)
        with model.no_sync():
            for step in range(2):
                loss(model, rank, step).backward()
        alone = net()
        for step in range(2):
            loss(alone, rank, step).backward()
        close([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])
        loss(model, rank, 2).backward()
        close([p.grad for p in model.parameters()], [p.grad for p in expected.parameters()])

    # Two backward passes after one forward: both are averaged.
    model = DDP(net())
    out = model(parts[rank])
    (out**2).mean().backward(retain_graph=True)
    out.sin().mean().backward()
    alone = net()
    for part in parts:
        out = alone(part)
        (((out**2).mean() + out.sin().mean()) / size).backward()
    close([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])


def test_no_sync_and_several_passes():
    run(accumulation, 2)


def gradients(rank, size):
    """Whose memory gradients are, and what happens to those that nobody uses."""
    x = torch.ones(1, 4, dtype=F64)
    model = DDP(Branches(), bucket_cap_mb=25)
    model(x, 1).sum().backward()
    assert model.module.never.weight.grad is None
    assert model.module.layers[2].weight.grad is None
    assert model.unused_parameters()["never.weight"].startswith("used by no rank")
    model.module.never.weight.grad = kept = torch.full((4, 4), float(rank), dtype=F64)
    model(x, 1 + rank).sum().backward()  # rank 0 uses layer 1, rank 1 layer 2
    assert model.module.never.weight.grad is kept
    torch.testing.assert_close(kept, torch.full((4, 4), float(rank), dtype=F64))
    told = model.unused_parameters()
    assert told["layers.2.weight"] == "used by 1 of 2 ranks"
    assert told["never.bias"] == "used by no rank: module 'never' was not called"
    assert model.module.layers[2].weight.grad is not None  # on rank 0, too

    viewed = DDP(net(), gradient_as_bucket_view=True)
    for _ in range(2):
        viewed(x).sum().backward()
    bases = {p.grad.untyped_storage().data_ptr() for p in viewed.parameters()}
    assert len(bases) == 1
    own = DDP(net())
    own(x).sum().backward()
    own(x).sum().backward()
    assert len({p.grad.untyped_storage().data_ptr() for p in own.parameters()}) == 4


def test_gradients():
    run(gradients, 2)


class Mixed(nn.Module):
    """Parameters of two dtypes, and buffers that a forward pass changes."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.double_ = nn.Linear(4, 4).double()
        self.norm = nn.BatchNorm1d(4).double()
        self.single = nn.Linear(4, 2)
        self.frozen = nn.Parameter(torch.randn(2), requires_grad=False)

    def forward(self, x):
        return self.single(self.norm(self.double_(x)).float()) + self.frozen


def kinds(rank, size):
    model = DDP(Mixed(seed=rank))
    x = torch.randn(5, 4, dtype=F64)
    assert len(model.reducer.buckets) == 2
    for _ in range(3):
        model(x + rank).square().mean().backward()
    seen = [None] * size
    state = {n: t.tolist() for n, t in model.state_dict().items() if "running" not in n}
    dist.all_gather_object(
        seen, (state, [p.grad.tolist() for p in model.parameters() if p.requires_grad])
    )
    assert all(s == seen[0] for s in seen)
    model.eval()
    model(x)  # the buffers of rank 0 came before it
    dist.all_gather_object(seen, model.module.norm.running_mean.tolist())
    assert all(s == seen[0] for s in seen)

    # Autocast: the pass is in bfloat16, gradients and their average in float32.
    torch.manual_seed(0)
    layer = DDP(nn.Linear(4, 4))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = layer(torch.full((2, 4), float(rank + 1))).sum()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(loss).backward()
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    scaler.unscale_(optimizer)
    mean = sum(range(1, size + 1)) / size
    torch.testing.assert_close(layer.module.weight.grad, torch.full((4, 4), 2.0 * mean))

    # Copies and files.
    twin = copy.deepcopy(layer)
    assert twin.module.weight is not layer.module.weight
    twin.zero_grad()
    twin(torch.full((1, 4), float(rank))).sum().backward()
    torch.testing.assert_close(twin.module.bias.grad, torch.ones(4))
    torch.testing.assert_close(twin.module.weight.grad, torch.full((4, 4), sum(range(size)) / size))
    assert isinstance(pickle.loads(pickle.dumps(layer)), DDP)
    assert list(layer.state_dict()) == ["module.weight", "module.bias"]


def test_dtypes_buffers_autocast_and_copies():
    run(kinds, 2)


class Words(nn.Module):
    """Two tables with sparse gradients: one is used by rank 0 alone, and at times by nobody."""

    def __init__(self, seed=0, sparse=True, dense=True):
        super().__init__()
        torch.manual_seed(seed)
        self.words = nn.Embedding(5, 3, sparse=sparse, dtype=F64)
        self.rare = nn.EmbeddingBag(4, 3, mode="sum", sparse=sparse, dtype=F64)
        self.out = nn.Linear(3, 2).double() if dense else nn.Identity()

    def forward(self, words, rank, step):
        x = self.words(words)
        if rank == 0 and step != 1:
            x = x + self.rare(torch.tensor([[step, 3]]))
        return self.out(x).square().mean()


def sparse_gradients(rank, size, dense):
    words = [torch.tensor([0, 2, 2, r + 1]) for r in range(size)]
    one = Words(sparse=False, dense=dense)
    expected = train(
        one, [lambda m, s, r=r: m(words[r], r, s) for r in range(size)], 3, torch.optim.SGD
    )
    model = DDP(Words(seed=rank, dense=dense))
    found = train(model, [lambda m, s: m(words[rank], rank, s)], 3, torch.optim.SGD)
    close(found, expected)
    model(words[rank], rank, 0).backward()
    assert model.module.words.weight.grad.is_sparse
    assert model.module.rare.weight.grad.is_sparse
    told = {f"module.{name}" for name in model.unused_parameters()}
    assert told <= {"module.rare.weight"}
    with model.no_sync():
        model(words[rank], rank, 0).backward()
    # A table that functions use: its gradient becomes dense.
    plain = DDP(nn.Embedding(3, 2).double())
    table = plain.module.weight
    plain.module.forward = lambda i: nn.functional.embedding(i, table, sparse=True)
    plain(torch.tensor([rank, 2])).sum().backward()
    assert table.grad.tolist()[2] == [1.0, 1.0]


@pytest.mark.parametrize("dense", [True, False])
def test_sparse_gradients_are_averaged(dense):
    run(sparse_gradients, 2, dense)


def different_models(rank, size):
    DDP(nn.Linear(4, 3 + rank))


def test_models_that_differ_are_named():
    with pytest.raises(Failed) as caught:
        run(different_models, 2)
    assert "DDP expects same model across all ranks" in str(caught.value)
    assert "'weight' of shape (3, 4)" in str(caught.value)
    assert "'weight' of shape (4, 4)" in str(caught.value)


def uneven(rank, size, even_division):
    loss = square(size)
    steps = [3, 1, 2, 4][:size]
    expected = net()
    optimizer = torch.optim.SGD(expected.parameters(), lr=0.05)
    for step in range(max(steps)):
        present = [r for r in range(size) if step < steps[r]]
        optimizer.zero_grad()
        count = size if even_division else len(present)
        (sum(loss(expected, r, step) for r in present) / count).backward()
        optimizer.step()
    for options in ({}, {"bucket_cap_mb": 1e-5}):
        model = DDP(net(), **options)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        with model.join(divide_by_initial_world_size=even_division):
            for step in range(steps[rank]):
                optimizer.zero_grad()
                loss(model, rank, step).backward()
                optimizer.step()
        close(model.parameters(), expected.parameters())
    loss(model, rank, 0).backward()  # and goes on as before
    assert model.reducer.divisor == size


@pytest.mark.parametrize(("size", "even_division"), [(2, True), (3, False), (4, True)])
def test_join_lets_ranks_run_out_of_inputs(size, even_division):
    run(uneven, size, even_division)


def uneven_with_buffers(rank, size):
    from rushlight.distributed.algorithms import Join
    from rushlight.distributed.optim import ZeroRedundancyOptimizer

    torch.manual_seed(0)
    model = DDP(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).double())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    with Join([model, optimizer]):
        for _ in range(2 + rank):
            optimizer.zero_grad()
            model(torch.randn(3, 4, dtype=F64)).square().mean().backward()
            optimizer.step()
    seen = [None] * size
    dist.all_gather_object(seen, [t.tolist() for t in model.state_dict().values()])
    assert all(s == seen[0] for s in seen)

    plain = DDP(net())
    throwing = plain.join(throw_on_early_termination=True)
    with pytest.raises(RuntimeError, match="exhausted inputs"), throwing:
        for _ in range(1 + rank):
            plain(torch.ones(1, 4, dtype=F64)).sum().backward()


def test_join_with_buffers_zero_and_errors():
    run(uneven_with_buffers, 2)


def large(rank, size):
    """All of the above, with every gradient large enough to be summed where it lies."""
    _buckets.ALONE = 1
    works = [trajectories, models, *([accumulation, gradients] if size == 2 else [])]
    for work in works:
        work(rank, size)
    uneven(rank, size, True)

    model = nn.ModuleDict({"a": nn.Linear(4, 3), "b": nn.Linear(4, 3), "c": nn.Linear(4, 3)})
    weights = [model[k].weight for k in "abc"]
    ddp, x = DDP(Choice(model)), torch.full((1, 4), rank + 1.0)
    mean = (size + 1) / 2
    seen = []
    hook = weights[0].register_post_accumulate_grad_hook(lambda p: seen.append(p.grad[0, 0].item()))
    for step in range(3):
        ddp("a" if step < 2 or rank == 0 else "b", x).sum().backward()
        if step < 2:
            close([weights[0].grad], [torch.full((3, 4), mean * (step + 1))], 1e-6)
            assert weights[1].grad is None
            assert weights[2].grad is None
    # A hook of the program sees this process's own gradient.
    assert seen == [rank + 1.0, rank + 1.0 + mean] + [1.0 + 2 * mean] * (rank == 0)
    hook.remove()
    grad = weights[0].grad
    weights[0].grad = None
    weights[2].grad = torch.full((3, 4), 7.0)  # nobody uses it: it stays
    ddp("a", x).sum().backward()
    first = weights[0].grad
    close([first, weights[2].grad], [torch.full((3, 4), mean), torch.full((3, 4), 7.0)], 1e-6)
    assert first.data_ptr() != grad.data_ptr()
    ddp("a", x).sum().backward()
    assert weights[0].grad is first
    close([first], [torch.full((3, 4), 2 * mean)], 1e-6)


class Choice(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, name, x):
        return self.layers[name](x)


def large_by_messages(rank, size):
    _exchange._LEAST["all_reduce"] = (0, 0)
    large(rank, size)

    # The sum of halves would be infinite: they are divided first.
    weight = nn.Parameter(torch.zeros(4, dtype=torch.float16))
    model = nn.Module()
    model.weight, model.forward = weight, lambda x: (model.weight * x).sum()
    ddp = DDP(model)
    for _ in range(2):
        weight.grad = None
        ddp(torch.full((4,), 60000.0, dtype=torch.float16)).backward()
    close([weight.grad.float()], [torch.full((4,), 60000.0)], 1e-3)


@pytest.mark.parametrize("work", [large, large_by_messages])
@pytest.mark.parametrize("size", [2, 3])
def test_large_gradients_are_summed_where_they_lie(work, size):
    run(work, size)


def buckets_of_the_first_pass(rank, size):
    """They end when others take their place."""
    ddp = DDP(nn.Linear(4, 3))
    first = weakref.ref(ddp.reducer.buckets[0])
    for _ in range(2):
        ddp(torch.ones(1, 4)).sum().backward()
    gc.collect()
    assert first() is None


def test_buckets_of_the_first_pass():
    run(buckets_of_the_first_pass, 2)


def a_pass_that_fails_late(rank, size):
    """What it has sent arrives, so the others go on, and so does it."""
    weight = nn.Linear(600, 600, bias=False)
    nn.init.ones_(weight.weight)
    ddp = DDP(weight)

    for step in range(6):
        x = torch.full((1, 600), rank + 1.0, requires_grad=True) * 1
        weight.weight.grad = None
        if rank == 0 and step in (2, 4):
            x.register_hook(fail)
            with pytest.raises(ArithmeticError, match="failed"):
                ddp(x).sum().backward()
            continue
        ddp(x).sum().backward()
        close([weight.weight.grad], [torch.full((600, 600), (size + 1) / 2)], 1e-6)


@pytest.mark.parametrize("size", [2, 3])
def test_a_pass_that_fails_late(size):
    run(a_pass_that_fails_late, size)


def a_pass_that_fails_halfway(rank, size, who):
    """Some buckets were sent: all may fail so and go on, but not one alone."""
    model = nn.Sequential(nn.Linear(50, 50), nn.Tanh(), nn.Linear(50, 50))
    for p in model.parameters():
        nn.init.constant_(p, 0.01)
    ddp = DDP(model, bucket_cap_mb=0.001)
    wanted = None
    for step in range(6):
        model.zero_grad()
        fails = step == 3 and rank in who
        hook = model[1].register_full_backward_hook(fail) if fails else None
        try:
            ddp(torch.full((1, 50), rank + 1.0)).sum().backward()
        except ArithmeticError:
            hook.remove()
            continue
        assert not fails
        grads = [p.grad.clone() for p in model.parameters()]
        close(grads, wanted or grads, 1e-6)
        wanted = grads


def fail(*_):
    raise ArithmeticError("failed")


def test_a_pass_that_fails_halfway():
    run(a_pass_that_fails_halfway, 2, (0, 1))
    with pytest.raises(Failed, match="after 1 failed backward passes"):
        run(a_pass_that_fails_halfway, 2, (0,))


def refusals(rank, size):
    with pytest.raises(RuntimeError, match="doesn't have any parameters that require a gradient"):
        DDP(nn.ReLU())
    with pytest.raises(ValueError, match="device_ids"):
        DDP(nn.Linear(1, 1), device_ids=[0])
    with pytest.raises(ValueError, match="mixed_precision is not supported"):
        DDP(nn.Linear(1, 1), mixed_precision=object())
    ignoring = nn.Linear(2, 2).double()
    DDP._set_params_and_buffers_to_ignore_for_model(ignoring, ["bias"])
    with torch.no_grad():
        ignoring.bias.fill_(float(rank))
    model = DDP(ignoring)
    model(torch.full((1, 2), float(rank), dtype=F64)).sum().backward()
    assert model.module.bias[0].item() == rank
    torch.testing.assert_close(model.module.weight.grad, torch.full((2, 2), 0.5, dtype=F64))


def test_refusals_and_ignored_parameters():
    run(refusals, 2)


def test_without_a_group_it_says_so():
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DDP(nn.Linear(1, 1))
