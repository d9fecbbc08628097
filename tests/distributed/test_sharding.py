"""ZeRO and FSDP train as one process does on all the data."""

import copy

import pytest

import rushlight as torch
from processes import needs_mpi, run
from rushlight import distributed as dist
from rushlight import nn
from rushlight.distributed.fsdp import (
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    StateDictType,
    fully_shard,
)
from rushlight.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from rushlight.distributed.fsdp.wrap import ModuleWrapPolicy
from rushlight.distributed.optim import ZeroRedundancyOptimizer
from rushlight.distributed.tensor import DTensor
from rushlight.nn.parallel import DistributedDataParallel as DDP
from rushlight.utils.checkpoint import checkpoint

pytestmark = needs_mpi
F64 = torch.float64


def close(actual, expected, atol=1e-12):
    for a, e in zip(actual, expected, strict=True):
        a = a.full_tensor() if isinstance(a, DTensor) else a
        torch.testing.assert_close(a.detach(), e.detach(), rtol=0, atol=atol)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, 2 * width + 1)
        self.outer = nn.Linear(2 * width + 1, width)

    def forward(self, x):
        return x + self.outer(torch.tanh(self.inner(self.norm(x))))


class Net(nn.Module):
    """Rows that no number of processes divides evenly, and a weight used twice."""

    def __init__(self, width=5, depth=2, recompute=False):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(3, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(depth)])
        self.last = nn.Linear(width, width)
        self.again = nn.Linear(width, width)
        self.again.weight = self.last.weight
        self.recompute = recompute
        self.double()

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.again(self.last(x))


def parts(size):
    torch.manual_seed(1)
    return [torch.randn(2 + 3 * r, 3, dtype=F64) for r in range(size)]


def alone(size, optimizer, steps=3, clip=None, net=Net):
    """One process on the mean of all ranks' losses; parameters, losses and norms."""
    model, data = net(), parts(size)
    optimizer = optimizer(model.parameters())
    norms = []
    for step in range(steps):
        optimizer.zero_grad()
        (sum((model(x + step) ** 2).mean() for x in data) / size).backward()
        if clip:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip))
        optimizer.step()
    return list(model.parameters()), norms


def steps(model, optimizer, rank, size, count=3, clip=None):
    data = parts(size)[rank]
    norms = []
    for step in range(count):
        optimizer.zero_grad()
        (model(data + step) ** 2).mean().backward()
        if clip:
            norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
            norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        optimizer.step()
    return norms


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01)


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=0.05)


def zero(rank, size):
    rules = (
        (sgd, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}),
        (adam, torch.optim.AdamW, {"lr": 0.05}),
    )
    for views, (make, kind, options) in enumerate(rules):
        expected, _ = alone(size, make)
        model = DDP(Net())
        optimizer = ZeroRedundancyOptimizer(
            model.parameters(), kind, parameters_as_bucket_view=bool(views), **options
        )
        steps(model, optimizer, rank, size)
        close(model.parameters(), expected)
    # Each process keeps its own states, about as many numbers as the others.
    kept = sum(s["exp_avg"].numel() for s in optimizer.optim.state.values())
    total = sum(p.numel() for p in model.parameters())
    assert kept < 2 * total / size
    counts = torch.tensor([kept])
    dist.all_reduce(counts)
    assert counts.item() == total

    # A file of the whole state goes on with any number of processes, and with one.
    with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
        optimizer.state_dict()
    optimizer.consolidate_state_dict(to=0)
    box = [optimizer.state_dict() if rank == 0 else None]
    dist.broadcast_object_list(box, src=0)
    twin = DDP(Net())
    twin.load_state_dict(model.state_dict())
    again = ZeroRedundancyOptimizer(twin.parameters(), torch.optim.AdamW, lr=1.0)
    again.load_state_dict(box[0])
    assert again.param_groups[0]["lr"] == 0.05
    single = Net()
    single.load_state_dict(model.module.state_dict())
    whole = adam(single.parameters())
    whole.load_state_dict(copy.deepcopy(box[0]))
    steps(twin, again, rank, size, 1)
    data = parts(size)
    whole.zero_grad()
    (sum((single(x) ** 2).mean() for x in data) / size).backward()
    whole.step()
    close(twin.parameters(), single.parameters())
    # Groups can be added, and rates changed.
    extra = nn.Parameter(torch.ones(2, dtype=F64))
    again.add_param_group({"params": [extra], "lr": 0.5})
    again.param_groups[0]["lr"] = 0.0
    before = [p.detach().clone() for p in twin.parameters()]
    extra.grad = torch.ones(2, dtype=F64)
    again.step()
    assert (extra < 0.6).all()
    close(twin.parameters(), before)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_zero_redundancy_optimizer(size):
    run(zero, size)


def shard(model, **options):
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def fsdp(rank, size):
    for make, options in (
        (sgd, {"reshard_after_forward": False}),
        (adam, {"reshard_after_forward": True}),
    ):
        expected, norms = alone(size, make, clip=0.5)
        model = shard(Net(), **options)
        found = steps(model, make(model.parameters()), rank, size, clip=0.5)
        close(model.parameters(), expected)
        close(found, norms)
    recomputed = shard(Net(recompute=True))
    expected, _ = alone(size, adam)
    steps(recomputed, adam(recomputed.parameters()), rank, size)
    close(recomputed.parameters(), expected)

    # Between passes a process holds its own rows and no more; names and shapes stay.
    whole = dict(Net().named_parameters())
    assert list(whole) == [n for n, _ in recomputed.named_parameters()]
    for name, p in recomputed.named_parameters():
        assert isinstance(p, DTensor)
        assert isinstance(p, nn.Parameter)
        assert p.shape == whole[name].shape
        assert p.to_local().shape[0] <= -(-p.shape[0] // size)
    for module in recomputed.modules():
        if hasattr(module, "_fsdp_state"):
            group = module._fsdp_state.group
            assert all(q.padded.untyped_storage().nbytes() == 0 for q in group.parameters)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_fully_shard(size):
    run(fsdp, size)


class Partly(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.used = nn.Linear(3, 3).double()
        self.unused = nn.Linear(3, 3).double()
        self.frozen = nn.Linear(3, 3).double().requires_grad_(False)

    def forward(self, x):
        return self.frozen(torch.tanh(self.used(x)))


def fsdp_details(rank, size):
    data = parts(size)
    # What nobody uses has no gradient; what is frozen passes gradients on.
    plain, model = Partly(), fully_shard(Partly())
    (sum((plain(x) ** 2).mean() for x in data) / size).backward()
    (model(data[rank]) ** 2).mean().backward()
    assert model.unused.weight.grad is None
    assert model.frozen.weight.grad is None
    close([model.used.weight.grad], [plain.used.weight.grad])

    # Accumulation: whole gradients in each process until they are summed.
    plain, model = Net(), shard(Net())
    for step in range(2):
        (sum((plain(x + step) ** 2).mean() for x in data) / size).backward()
        model.set_requires_gradient_sync(step == 1)
        (model(data[rank] + step) ** 2).mean().backward()
    close([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])
    # A second pass adds.
    (sum((plain(x) ** 2).mean() for x in data) / size).backward()
    (model(data[rank]) ** 2).mean().backward()
    close([p.grad for p in model.parameters()], [p.grad for p in plain.parameters()])

    # Without gradients, and by hand.
    with torch.no_grad():
        close([model(data[0])], [plain(data[0])])
    assert isinstance(model.first.weight, DTensor)
    model.unshard()
    assert not isinstance(model.first.weight, DTensor)
    model.reshard()
    assert isinstance(model.first.weight, DTensor)

    half = fully_shard(Net(), mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    out = half(data[rank])
    assert out.dtype == torch.bfloat16
    out.float().square().mean().backward()
    assert half.first.weight.grad.dtype == F64
    with pytest.raises(ValueError, match="scalar parameters"):
        scalar = nn.Module()
        scalar.scale = nn.Parameter(torch.tensor(1.0))
        fully_shard(scalar)


def test_fully_shard_in_detail():
    run(fsdp_details, 2)


def wrapper(rank, size):
    expected, norms = alone(size, adam, clip=0.5)
    model = FullyShardedDataParallel(Net(), auto_wrap_policy=ModuleWrapPolicy({Block}))
    assert sum(isinstance(m, Block) and hasattr(m, "_fsdp_state") for m in model.modules()) == 2
    optimizer = adam(model.parameters())
    data = parts(size)[rank]
    for step in range(3):
        optimizer.zero_grad()
        (model(data + step) ** 2).mean().backward()
        close([model.clip_grad_norm_(0.5)], [norms[step]])
        optimizer.step()
    close(model.parameters(), expected)

    names = list(Net().state_dict())
    whole = model.state_dict()
    assert list(whole) == names
    assert not any(isinstance(t, DTensor) for t in whole.values())
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        assert all(isinstance(t, DTensor) for t in model.state_dict().values())
    config = FullStateDictConfig(rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
        assert len(model.state_dict()) == (len(names) if rank == 0 else 0)
    twin = FullyShardedDataParallel(Net(), auto_wrap_policy=ModuleWrapPolicy({Block}))
    twin.load_state_dict(whole)
    close(twin.parameters(), expected)
    state = FullyShardedDataParallel.optim_state_dict(model, optimizer)
    assert state["state"]["first.weight"]["exp_avg"].shape == (5, 3)
    other = adam(twin.parameters())
    state = copy.deepcopy(state)
    other.load_state_dict(FullyShardedDataParallel.optim_state_dict_to_load(twin, other, state))
    for one, opt in ((model, optimizer), (twin, other)):
        opt.zero_grad()
        (one(data) ** 2).mean().backward()
        opt.step()
    close(twin.parameters(), [p.full_tensor() for p in model.parameters()])
    with FullyShardedDataParallel.summon_full_params(twin):
        assert not isinstance(twin.module.first.bias, DTensor)
        with torch.no_grad():
            twin.module.first.bias.fill_(7.0)
    close([twin.module.first.bias], [torch.full((5,), 7.0, dtype=F64)])
    with model.no_sync():
        model(data).sum().backward()
    model.zero_grad()


def test_fully_sharded_data_parallel():
    run(wrapper, 2)


def from_meta(rank, size):
    """Shapes first, then the parts, then the numbers."""

    def net(device=None):
        layers = [nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)]
        if device is not None:
            with torch.device(device):
                layers = [nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)]
        return nn.Sequential(*layers)

    x = torch.ones(4, 3)
    torch.manual_seed(0)
    expected = net()
    model = net("meta")
    fully_shard(model[0])
    fully_shard(model)
    with pytest.raises(RuntimeError, match="parameters are on the meta device"):
        model(x)
    model.to_empty(device="cpu")
    torch.manual_seed(rank)  # the numbers of rank 0 count
    for layer in (model[0], model[2]):
        layer.reset_parameters()
    optimizers = [torch.optim.SGD(m.parameters(), 0.1) for m in (model, expected)]
    for _ in range(2):
        for m, optimizer in zip((model, expected), optimizers, strict=True):
            m(x).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    for p, e in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(p.full_tensor(), e, rtol=0, atol=1e-6)

    # Conversions and flags after fully_shard count, too.
    model.double()
    model[0].weight.requires_grad = False
    model(x.double()).sum().backward()
    assert model[0].weight.grad is None
    assert model[0].bias.grad.dtype == torch.float64
    model[0].weight.requires_grad = True
    model(x.double()).sum().backward()
    assert model[0].weight.grad is not None


def test_a_model_without_elements_is_sharded_and_then_made():
    run(from_meta, 2)


def told_what_to_gather(rank, size):
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(3)])
    expected = copy.deepcopy(model)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    model[0].set_modules_to_forward_prefetch([model[1], model[2]])
    model[2].set_modules_to_backward_prefetch([model[1], model[0]])
    model.set_unshard_in_backward(True)
    with pytest.raises(ValueError, match="can only prefetch"):
        model[0].set_modules_to_forward_prefetch([nn.Linear(1, 1)])
    for _ in range(2):
        for m in (model, expected):
            m(torch.ones(2, 4)).sum().backward()
    for p, e in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(p.grad.full_tensor(), e.grad, rtol=0, atol=1e-5)
    for container in (nn.ModuleList([nn.Linear(1, 1)]), nn.ModuleDict({"a": nn.Linear(1, 1)})):
        with pytest.raises(ValueError, match="containers that do not implement forward"):
            fully_shard(container)


def test_what_is_gathered_ahead_can_be_told():
    run(told_what_to_gather, 2)


def scaled(rank, size):
    """Every process skips a step for the infinity that one has in its part."""
    for scaler in (ShardedGradScaler("cpu", init_scale=4.0), torch.GradScaler("cpu", 4.0)):
        torch.manual_seed(0)
        model = fully_shard(nn.Linear(3, 4))
        optimizer = torch.optim.SGD(model.parameters(), 0.5)
        before = model.weight.full_tensor().detach().clone()
        scaler.scale(model(torch.ones(1, 3)).sum()).backward()
        scaler.unscale_(optimizer)
        assert (model.weight.grad.full_tensor() == 1).all()
        scaler.step(optimizer)
        scaler.update()
        after = model.weight.full_tensor().detach().clone()
        torch.testing.assert_close(after, before - 0.5)
        optimizer.zero_grad()
        weights = torch.tensor([1.0, 1.0, 1.0, float("inf")])  # of the last process's rows
        scaler.scale((model(torch.ones(1, 3)) * weights).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(model.weight.full_tensor(), after)
        assert scaler.get_scale() == 2.0


def test_loss_scaling():
    run(scaled, 2)


def passes_that_fail(rank, size):
    """What a pass left that ended in an error, halfway or late, is in no later gradient."""

    def fail(*_):
        raise ArithmeticError("failed")

    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    for i, p in enumerate(model.parameters()):
        nn.init.constant_(p, 0.01 + i)
    plain = copy.deepcopy(model)
    for x in range(size):
        plain(torch.full((1, 5), x + 1.0, dtype=torch.float64)).square().sum().div(size).backward()
    for layer in (model[0], model[2], model):
        fully_shard(layer)
    optimizer = torch.optim.SGD(model.parameters(), 0.0)
    for step in range(7):
        x = torch.full((1, 5), rank + 1.0, dtype=torch.float64, requires_grad=True) * 1
        hook = model[1].register_full_backward_hook(fail) if step in (2, 5) else None
        if step == 3:
            x.register_hook(fail)
        try:
            model(x).square().sum().backward()
        except ArithmeticError:
            optimizer.zero_grad()
            if hook is not None:
                hook.remove()
            continue
        assert step not in (2, 3, 5)
        for p, wanted in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(p.grad.full_tensor(), wanted.grad, rtol=0, atol=1e-12)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("size", [2, 3])
def test_passes_that_fail(size):
    run(passes_that_fail, size)
