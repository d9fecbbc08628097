"""Communication hooks of DistributedDataParallel, and the older names of its parts."""

import pytest

import rushlight as torch
from ddp_models import F64, Branches, batches, close, net
from processes import needs_mpi, run
from rushlight import distributed as dist
from rushlight import nn
from rushlight.nn.parallel import DistributedDataParallel as DDP
from rushlight.nn.parallel import _buckets

pytestmark = needs_mpi


def hooks(rank, size):
    from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    parts = batches(size)
    expected = net()
    sum((expected(p) ** 2).mean() for p in parts).div(size).backward()

    def grads(state, hook, passes=1):
        model = DDP(net(), bucket_cap_mb=1e-4)
        model.register_comm_hook(state, hook)
        for _ in range(passes):
            model.zero_grad()
            (model(parts[rank]) ** 2).mean().backward()
        seen = [None] * size
        dist.all_gather_object(seen, [p.grad.tolist() for p in model.parameters()])
        assert all(s == seen[0] for s in seen)
        return [p.grad for p in model.parameters()]

    wanted = [p.grad for p in expected.parameters()]
    close(grads(None, default_hooks.allreduce_hook, 2), wanted)
    close(grads(None, default_hooks.fp16_compress_hook), wanted, atol=2e-3)
    close(grads(None, default_hooks.bf16_compress_hook), wanted, atol=2e-2)
    wrapped = default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)
    close(grads(None, wrapped), wanted, atol=2e-3)
    for hook in (powerSGD_hook.powerSGD_hook, powerSGD_hook.batched_powerSGD_hook):
        whole = powerSGD_hook.PowerSGDState(None, 8, start_powerSGD_iter=2, min_compression_rate=0)
        close(grads(whole, hook, 5), wanted, atol=1e-8)  # of full rank, nothing is left out
    low = powerSGD_hook.PowerSGDState(None, 1, start_powerSGD_iter=2, min_compression_rate=0.5)
    grads(low, powerSGD_hook.powerSGD_hook, 4)
    assert low.compression_stats()[0] > 1

    model = DDP(net())
    with pytest.raises(TypeError, match="must be callable"):
        model.register_comm_hook(None, 1)
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    with pytest.raises(RuntimeError, match="only be called once"):
        model.register_comm_hook(None, default_hooks.allreduce_hook)
    used = DDP(Branches())
    used.register_comm_hook(None, default_hooks.allreduce_hook)
    used(parts[rank], 1).sum().backward()
    assert used.module.never.weight.grad is None


def hooks_of_large_gradients(rank, size):
    _buckets.ALONE = 1  # each would be summed where it lies
    hooks(rank, size)


@pytest.mark.parametrize("work", [hooks, hooks_of_large_gradients])
def test_communication_hooks(work):
    run(work, 2)


def older_names(rank, size):
    from rushlight.distributed._composable import checkpoint as recomputed
    from rushlight.distributed._composable import replicate
    from rushlight.distributed.algorithms.ddp_comm_hooks import (
        DDPCommHookType,
        register_ddp_comm_hook,
    )

    x = batches(size)[rank]
    expected = net()
    sum((expected(part) ** 2).mean() for part in batches(size)).div(size).backward()
    own = net()
    (own(x) ** 2).mean().backward()

    def gradients(model):
        (model(x) ** 2).mean().backward()
        return [p.grad for p in model.parameters()]

    wanted = [p.grad for p in expected.parameters()]
    for kind in (DDPCommHookType.ALLREDUCE, DDPCommHookType.NOOP):
        model = DDP(net())
        register_ddp_comm_hook(kind, model)
        alone = [p.grad for p in own.parameters()]
        close(gradients(model), wanted if kind.name == "ALLREDUCE" else alone)
    model = DDP(net())
    model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    close(gradients(model), wanted, 1e-2)
    model = DDP(net())
    register_ddp_comm_hook(DDPCommHookType.QUANTIZE_PER_TENSOR, model)
    with pytest.raises(RuntimeError, match="leaves this part of torch"):
        gradients(model)

    model = DDP(net())
    model._set_static_graph()
    close(gradients(model), wanted)
    told = model._get_ddp_logging_data()
    assert (told["world_size"], told["static_graph"], told["iteration"]) == (size, True, 1)
    assert not model.will_sync_module_buffers()
    assert DDP(nn.BatchNorm1d(2)).will_sync_module_buffers()
    assert model.to_kwargs((x,), {"k": x}, 0)[0][0][0] is x

    plain = net(seed=rank)  # the numbers of rank 0 count
    recomputed(plain[0])
    assert replicate(plain) is plain
    close(gradients(plain), wanted)
    assert type(plain) is nn.Sequential
    with pytest.raises(AssertionError, match="only be applied to a module once"):
        replicate(plain)


def test_older_names_of_hooks_and_methods():
    run(older_names, 2)


def powersgd_learns(rank, size):
    """What a step leaves out comes with a later one: the sum of steps is the sum of gradients."""
    from rushlight.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import (
        PowerSGDState,
        powerSGD_hook,
    )

    torch.manual_seed(3)
    target = torch.randn(6, 6, dtype=F64)
    model = DDP(nn.Linear(6, 6, bias=False).double())
    model.register_comm_hook(PowerSGDState(None, 1, 2, min_compression_rate=0), powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x = torch.eye(6, dtype=F64)[rank::size]
    for _ in range(200):
        optimizer.zero_grad()
        (size * (model(x) - target.T[rank::size]) ** 2).sum().div(4).backward()
        optimizer.step()
    torch.testing.assert_close(model.module.weight.detach(), target, rtol=0, atol=1e-3)


def test_powersgd_gets_there_with_rank_1():
    run(powersgd_learns, 2)
