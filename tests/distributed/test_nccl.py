"""The NCCL backend between real processes, on emulated devices and an emulated NCCL."""

import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

import rushlight as torch
import rushlight.distributed as dist
from processes import needs_mpi, run, run_script, start
from rushlight import nn
from rushlight.distributed import ReduceOp
from test_cuda import emulator, needs_compiler, settings

sys.path.insert(0, str(Path(__file__).parent))  # in a rank, which finds this file by its path
import test_collectives as cpu

NCCL = {"backend": "nccl"}
__all__ = ["emulator"]


@pytest.fixture
def devices(emulator):
    """What ranks find in their environment."""
    names = ("RUSHLIGHT_CUDA_PATH", "RUSHLIGHT_CACHE")
    return {name: settings(emulator)[name] for name in names}


def collectives(rank, size):
    torch.set_default_device("cuda")
    floats = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
    names = ("SUM", "AVG", "PRODUCT", "MIN", "MAX")
    cases = [(d, o) for d in floats for o in names]
    cases += [(d, o) for d in (torch.uint8, torch.int32, torch.int64) for o in names if o != "AVG"]
    cases += [(torch.complex64, "SUM"), (torch.complex128, "AVG")]
    cases += [(torch.bool, o) for o in ("SUM", "MAX", "MIN", "BOR", "BAND")]
    for dtype, name in cases:
        op = getattr(ReduceOp, name)
        want = cpu.expected(name, [cpu.values(r, dtype) for r in range(size)])
        t = cpu.values(rank, dtype)
        dist.all_reduce(t, op)
        cpu.same(t, want)
        t = cpu.values(rank, dtype)
        dist.reduce(t, dst=size - 1, op=op)
        cpu.same(t, want if rank == size - 1 else cpu.values(rank, dtype))
        parts = [cpu.values(rank + r, dtype) for r in range(size)]
        out = torch.empty_like(parts[0])
        dist.reduce_scatter(out, parts, op)
        cpu.same(out, cpu.expected(name, [cpu.values(r + rank, dtype) for r in range(size)]))
        dist.reduce_scatter_tensor(out, torch.stack(parts), op)
        cpu.same(out, cpu.expected(name, [cpu.values(r + rank, dtype) for r in range(size)]))
    uneven = [torch.full((r + 1,), float(rank)) for r in range(size)]
    out = torch.empty(rank + 1)
    dist.reduce_scatter(out, uneven)
    assert out.tolist() == [size * (size - 1) / 2] * (rank + 1)
    cpu.movements(rank, size)
    cpu.objects(rank, size)
    cpu.groups(rank, size)
    messages(rank, size)
    dist.barrier()
    dist.destroy_process_group()
    dist.init_process_group("nccl")  # once more
    t = torch.ones(2)
    dist.all_reduce(t)
    assert t.tolist() == [size] * 2
    return rank


def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    for count in (3, 1 << 16):
        got = torch.empty(count)
        sent = dist.P2POp(dist.isend, torch.full((count,), float(rank)), right)
        for work in dist.batch_isend_irecv([sent, dist.P2POp(dist.irecv, got, left)]):
            work.wait()
        assert bool((got == left).all())
    works = [dist.isend(torch.full((2,), float(rank)), right), dist.irecv(got[:2], left)]
    assert works[1].source_rank() == left
    assert got[:2].tolist() == [left] * 2
    if rank == 0:
        dist.send_object_list([{"a": 1}, "b"], 1)
    if rank == 1:
        objects = [None, None]
        assert dist.recv_object_list(objects, 0) == 0
        assert objects == [{"a": 1}, "b"]


@needs_compiler
@pytest.mark.parametrize("size", [2, 3])
def test_collectives(devices, size):
    assert run(collectives, size, env=devices, init=NCCL) == list(range(size))


def losses(rank, size, device):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 2)).double().to(device)
    model = nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.0001)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4 * size, 6, dtype=torch.float64).to(device)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(x[rank::size]).square().mean()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@needs_compiler
@needs_mpi
def test_ddp_as_on_cpus(devices):
    on_device = run(losses, 2, "cuda", env=devices, init=NCCL)
    on_cpu = run(losses, 2, "cpu")
    assert all(a == pytest.approx(b, rel=1e-12) for a, b in zip(on_device, on_cpu, strict=True))


def both(rank, size):
    assert dist.get_backend_config() == "cpu:gloo,cuda:nccl"
    x, y = torch.ones(2), torch.ones(2, device="cuda")
    dist.all_reduce(x)
    dist.all_reduce(y)
    dist.barrier()
    dist.barrier(device_ids=[0])
    return x.tolist() + y.tolist()


@needs_compiler
@needs_mpi
def test_two_backends(devices):
    init = {"backend": "cpu:gloo,cuda:nccl"}
    assert run(both, 2, env=devices, init=init) == [[2.0] * 4] * 2


def cpus_later(rank, size):
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(x)
    dist.all_reduce(x, group=dist.new_group(backend="gloo"))
    with open("/proc/self/maps") as file:  # nothing stays behind, however the processes end
        assert not [line for line in file if re.search("/dev/shm/[^ ]*$", line)]
    return x.tolist()


@needs_compiler
@needs_mpi
def test_a_group_of_cpus_beside_nccl(devices):
    assert run(cpus_later, 2, env=devices, init=NCCL) == [[2.0] * 2] * 2


def killed(rank, size):
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_reduce(x)


def differ(rank, size):
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    dist.all_reduce(x) if rank == 0 else dist.broadcast(x, 0)


def late(rank, size):
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    if rank == 1:
        time.sleep(60)
    dist.all_reduce(x)


@needs_compiler
@pytest.mark.parametrize(
    ("worker", "text"),
    [
        (killed, "all_reduce: rank 1 has died; rank 0 waits for it at"),
        (differ, "rank 0 calls all_reduce(float32[4], op=SUM)"),
        (late, "all_reduce: Timed out waiting 1500ms on rank 0"),
    ],
)
def test_faults_are_named(devices, worker, text):
    from datetime import timedelta

    init = NCCL | {"timeout": timedelta(seconds=1.5 if worker is late else 60)}
    with start(worker, 2, env=devices, init=init) as ranks:
        end = time.monotonic() + 40
        while ranks.processes[0].poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        assert ranks.processes[0].poll() == 1
        assert text in ranks.output(0)
        assert "test_nccl.py" in ranks.output(0)


def test_a_failure_on_the_device_is_raised_in_the_program(emulator):
    """After an abort a program would go on with numbers that are wrong: it does not."""
    from test_cuda import run as run_program

    program = """
import time
import rushlight as torch, rushlight.distributed as dist
from rushlight.distributed import _nccl
dist.init_process_group("nccl", rank=0, world_size=1)
x = torch.ones(2, device="cuda")
dist.all_reduce(x)
from rushlight.distributed._stream_work import Point
Point.Test = lambda self, status=None: False  # the device does not come to the end
_nccl.Communicator.trouble = lambda self: "remote process exited"
dist.all_reduce(x)
try:
    while True:
        time.sleep(0.01)
except dist.DistBackendError as error:
    print(type(error).__name__, error)
"""
    text = run_program(emulator, program)
    assert text.startswith("DistBackendError all_reduce: NCCL failed on rank 0")
    assert "remote process exited" in text


SCRIPT = """
import os, rushlight as torch, rushlight.distributed as dist
from rushlight import nn
from rushlight.nn.parallel import DistributedDataParallel
local_rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local_rank)
dist.init_process_group("nccl", device_id=torch.device("cuda", local_rank))
model = nn.Linear(2, 1, bias=False).to(f"cuda:{local_rank}")
model = DistributedDataParallel(model, device_ids=[local_rank])
model(torch.full((1, 2), float(local_rank))).sum().backward()
dist.barrier()
grad = model.module.weight.grad
print(torch.cuda.current_device(), grad.device, grad.tolist())
assert torch.cuda.memory_reserved(1 - local_rank) == 0
dist.destroy_process_group()
"""


@needs_compiler
def test_each_process_takes_its_device(devices, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    outputs = run_script(path, 2, env=devices | {"EMULATED_CUDA_DEVICES": "2"})
    assert outputs == ["0 cuda:0 [[0.5, 0.5]]\n", "1 cuda:1 [[0.5, 0.5]]\n"]


def on_both(rank, size):
    """The device of the tensors counts, and not the one in use."""
    for number in (1 - rank, rank):
        x = torch.full((3,), float(rank + 1), device=f"cuda:{number}")
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        assert x.tolist() == [3.0] * 3
        parts = [torch.empty(3, device=x.device) for _ in range(size)]
        dist.all_gather(parts, x[::1] * 2)
        assert [p.tolist() for p in parts] == [[6.0] * 3] * 2
        y = torch.empty(3, device=x.device)
        ops = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, y, 1 - rank)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        assert y.tolist() == [3.0] * 3
        dist.barrier(device_ids=[number])
        assert torch.cuda.current_device() == 0
    torch.cuda.set_device(rank)
    objects = [rank]
    dist.broadcast_object_list(objects, 0)
    assert objects == [0]
    mesh = dist.init_device_mesh("cuda", (size,))
    return mesh.size()


@needs_compiler
def test_collectives_on_the_device_of_the_tensors(devices):
    env = devices | {"EMULATED_CUDA_DEVICES": "2"}
    assert run(on_both, 2, env=env, init=NCCL) == [2, 2]


def test_without_a_device():
    if torch.cuda.is_available():
        pytest.skip("there is a device")
    for backend in ("nccl", "cpu:gloo,cuda:nccl"):
        with pytest.raises((RuntimeError, ValueError), match=r"NCCL built in|no GPUs found"):
            dist.init_process_group(backend, rank=0, world_size=1)
    for backend in ("ucx", "cpu:nccl", "tpu:gloo"):
        with pytest.raises(ValueError, match=f"Invalid backend: '{backend}'"):
            dist.init_process_group(backend, rank=0, world_size=1)
    dist.init_process_group(rank=0, world_size=1)
    assert dist.get_backend_config() == "cpu:gloo,cuda:gloo"
    dist.destroy_process_group()


@needs_compiler
def test_a_device_without_nccl(emulator):
    from test_cuda import run as run_program

    program = """
import rushlight as torch, rushlight.distributed as dist
from rushlight.distributed import _nccl
_nccl._library = lambda: None
try:
    dist.init_process_group("nccl", rank=0, world_size=1)
except RuntimeError as error:
    print(error)
dist.init_process_group(rank=0, world_size=1)
x = torch.ones(2, device="cuda")
dist.all_reduce(x)
print(dist.get_backend_config(), x.tolist())
"""
    first, second = run_program(emulator, program).splitlines()
    assert "doesn't have NCCL built in" in first
    assert second == "cpu:gloo,cuda:gloo [1.0, 1.0]"
