"""NCCL between as many processes as there are devices here: one. All that groups do runs on it."""

import copy
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
from rushlight import nn
from rushlight.distributed import ReduceOp, _nccl
from rushlight.nn.parallel import DistributedDataParallel

pytestmark = pytest.mark.skipif(not _nccl.is_available(), reason="NCCL is not installed")

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8,
    torch.int32, torch.int64, torch.complex64, torch.complex128, torch.bool,
]  # fmt: skip


@pytest.fixture(params=["nccl", "cpu:gloo,cuda:nccl", None])
def group(request, monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    dist.init_process_group(request.param, rank=0, world_size=1)
    yield dist.group.WORLD
    if dist.is_initialized():
        dist.destroy_process_group()


@pytest.fixture
def alone(monkeypatch):
    dist.init_process_group("nccl", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def numbers(dtype, *shape):
    count = torch.Size(shape).numel()
    return (torch.arange(count, device="cuda") % 5 + 1).to(dtype).reshape(shape)


def engine():
    return dist.group.WORLD._engines["cuda"]


def test_backends(group):
    text = dist.get_backend_config()
    assert text in ("cuda:nccl", "cpu:gloo,cuda:nccl")
    assert dist.get_backend() in ("nccl", "cpu:gloo,cuda:nccl")
    assert dist.is_nccl_available()
    assert dist.is_backend_available("nccl")
    x = torch.ones(3, device="cuda")
    dist.all_reduce(x)
    assert engine()._channels  # it went by NCCL
    if text == "cuda:nccl":
        with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
            dist.all_reduce(torch.ones(2))
    else:
        y = torch.ones(2)
        dist.all_reduce(y)
        assert y.tolist() == [1, 1]
        with pytest.raises(ValueError, match="different devices"):
            dist.all_gather([torch.ones(2)], torch.ones(2, device="cuda"))
    with pytest.raises(RuntimeError, match="device type meta"):
        dist.all_reduce(torch.ones(2, device="meta"))
    dist.barrier()
    dist.barrier(device_ids=[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_collectives(alone, dtype):
    x = numbers(dtype, 2, 3)
    want = x.clone()
    ops = [ReduceOp.SUM]
    if not dtype.is_complex:
        ops += [ReduceOp.MIN, ReduceOp.MAX, ReduceOp.PRODUCT]
    if dtype != torch.bool:
        ops.append(ReduceOp.AVG)
    for op in ops:
        dist.all_reduce(x, op)
        dist.reduce(x, 0, op)
        for out in (torch.zeros_like(x), torch.zeros_like(x).t().contiguous().t()):
            dist.reduce_scatter(out, [x], op)
            assert torch.equal(out, want)
            dist.reduce_scatter_tensor(out.zero_(), x, op)
            assert torch.equal(out, want)
    moves = [
        lambda out: dist.all_gather([out], x),
        lambda out: dist.all_gather_into_tensor(out, x),
        lambda out: dist.gather(x, [out]),
        lambda out: dist.scatter(out, [x]),
        lambda out: dist.all_to_all([out], [x]),
        lambda out: dist.all_to_all_single(out, x),
        lambda out: dist.all_gather_coalesced([[out]], [x]),
    ]
    dist.broadcast(x, 0)
    dist.all_reduce_coalesced([x, numbers(dtype, 4)])
    assert torch.equal(x, want)
    for move in moves:
        out = torch.zeros_like(x)
        move(out)
        assert torch.equal(out, want)


def test_layouts_and_sizes(alone):
    for shape in ((), (0,), (5,), (1 << 20,)):
        x = torch.ones(shape, device="cuda")
        dist.all_reduce(x)
        assert x.shape == shape
        assert bool((x == 1).all())
    x = torch.arange(24.0, device="cuda").reshape(4, 6)
    part = x.t()[1:]
    want = part.clone()
    dist.all_reduce(part, ReduceOp.AVG)
    assert torch.equal(part, want)
    dist.all_reduce(part, dist._reductions._make_nccl_premul_sum(2.0))
    assert torch.equal(part, want * 2)
    conjugate = (torch.ones(2, device="cuda") * 1j).conj()
    dist.all_reduce(conjugate)
    assert conjugate.tolist() == [-1j, -1j]


def test_what_nccl_has_not(alone):
    for x, op in ((torch.ones(2), "BXOR"), (torch.ones(2).int(), "BAND")):
        with pytest.raises(ValueError, match=op):
            dist.all_reduce(x.cuda(), getattr(ReduceOp, op))
    with pytest.raises(TypeError, match="not supported for NCCL"):
        dist.all_reduce(torch.ones(2, dtype=torch.int16, device="cuda"))
    out = torch.zeros(2, dtype=torch.int16, device="cuda")  # what is only moved may be anything
    dist.all_gather_into_tensor(out, torch.ones(2, dtype=torch.int16, device="cuda"))
    assert out.tolist() == [1, 1]
    with pytest.raises(ValueError, match="same as the rank of the current process"):
        dist.isend(torch.ones(2, device="cuda"), 0)
    with pytest.raises(ValueError, match="name it by src"):
        dist.irecv(torch.ones(2, device="cuda"))


def test_work(alone):
    x = torch.ones(1 << 20, device="cuda")
    works = []
    for _ in range(20):
        x.mul_(2)
        works.append(dist.all_reduce(x, async_op=True))
        works[-1].wait()
    x.sub_(1)
    assert bool((x == 2**20 - 1).all())
    assert works[-1].wait(timedelta(seconds=30))
    assert works[-1].is_completed()
    assert works[-1].is_success()
    assert works[-1].result()[0] is x
    doubled = dist.all_reduce(x, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    assert float(doubled.wait().amax()) == 2.0**21 - 2
    failed = dist.all_reduce(x, async_op=True).get_future().then(lambda f: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        failed.wait()
    dist.barrier(async_op=True).wait()


def test_streams(alone):
    """What another stream has to do comes before, and what follows there after."""
    side = torch.cuda.Stream()
    x = torch.zeros(1 << 22, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(10):
            x.add_(1)
            dist.all_reduce(x, ReduceOp.AVG)
            x.mul_(2)
    side.synchronize()
    assert bool((x == 2046).all())


def test_a_collective_in_a_graph(alone):
    x = torch.ones(64, device="cuda")
    dist.all_reduce(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.mul_(2)
        dist.all_reduce(x)
    for _ in range(3):
        graph.replay()
    assert x.tolist() == [8.0] * 64


def test_objects_and_groups(group):
    for own in (None, dist.new_group([0]), dist.new_group([0], backend="gloo")):
        every = [None]
        dist.all_gather_object(every, {"a": 1}, group=own)
        assert every == [{"a": 1}]
        every = [None]
        dist.gather_object("x", every, group=own)
        dist.broadcast_object_list(every, src=0, group=own)
        assert every == ["x"]
        dist.scatter_object_list(every, [[1, 2]], src=0, group=own)
        assert every == [[1, 2]]
        x = torch.ones(2, device="cuda")
        dist.all_reduce(x, group=own)
        dist.barrier(group=own)
        dist.monitored_barrier(group=own)
    mesh = dist.init_device_mesh("cuda", (1,))
    assert mesh.get_group() is dist.group.WORLD


def test_gradients_flow(alone):
    from rushlight.distributed.nn import functional as F

    x = torch.ones(3, device="cuda", requires_grad=True)
    out = F.all_reduce(x) + F.all_gather(x)[0] + F.broadcast(x, 0)
    out = out + F.all_to_all_single(torch.empty_like(x), x)
    (first,) = torch.autograd.grad((out**3).sum(), x, create_graph=True)
    assert first.tolist() == [192.0] * 3
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [384.0] * 3


def test_set_up_at_once():
    dist.init_process_group("nccl", rank=0, world_size=1, device_id=torch.device("cuda:0"))
    assert engine()._channels
    dist.destroy_process_group()


def steps(model, data, hook=None):
    if hook is not None:
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for x, y in data:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("options", [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}])
def test_ddp(alone, options):
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)).cuda()
    model = DistributedDataParallel(copy.deepcopy(plain), device_ids=[0], **options)
    data = [(torch.randn(32, 8, device="cuda"), torch.randn(32, 4, device="cuda"))] * 5
    assert steps(model, data) == steps(plain, data)
    for p, q in zip(plain.parameters(), model.module.parameters(), strict=True):
        assert torch.equal(p, q)


def test_ddp_with_hooks(alone):
    from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks

    torch.manual_seed(0)
    plain = nn.Linear(8, 4).cuda()
    data = [(torch.randn(32, 8, device="cuda"), torch.randn(32, 4, device="cuda"))] * 4
    want = steps(copy.deepcopy(plain), data)
    hooked = DistributedDataParallel(copy.deepcopy(plain))
    assert steps(hooked, data, default_hooks.allreduce_hook) == want
    halved = DistributedDataParallel(copy.deepcopy(plain))
    got = steps(halved, data, default_hooks.bf16_compress_hook)
    assert got == pytest.approx(want, rel=1e-2)


def test_unused_parameters(alone):
    model = nn.ModuleDict({"used": nn.Linear(2, 1), "unused": nn.Linear(2, 1)}).cuda()
    model.forward = lambda x: model["used"](x)
    ddp = DistributedDataParallel(model)
    for _ in range(2):
        ddp(torch.ones(4, 2, device="cuda")).sum().backward()
    assert model["unused"].weight.grad is None
    assert list(ddp.unused_parameters()) == ["unused.weight", "unused.bias"]


def test_versions():
    assert _nccl.version() >= (2, 10, 0)
