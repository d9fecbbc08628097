"""Training functions on a real Ray cluster of this machine."""

import os
import signal
import warnings

import pytest

import rushlight as torch
import rushlight.distributed as dist
from processes import needs_mpi
from rushlight import nn
from rushlight.distributed.ray import run

ray = pytest.importorskip("ray", reason="Ray is not installed: pip '.[ray]'")
pytestmark = needs_mpi


@pytest.fixture(scope="module")
def cluster():
    with warnings.catch_warnings(action="ignore"):
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


# What workers unpickle must not name this module, which they cannot import.
def training():
    def train(context, steps, dies_at=None):
        torch.manual_seed(0)
        model = nn.Linear(4, 1).double()
        ddp = nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
        data = torch.randn(steps, 6, 4, dtype=torch.float64)
        first = 0
        if (state := context.load()) is not None:
            model.load_state_dict(state["model"])
            first = state["step"] + 1
        losses = {}
        for step in range(first, steps):
            if (context.attempt, step, context.rank) == (0, dies_at, 1):
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            loss = (ddp(data[step][context.rank :: context.world_size]) - 1).square().mean()
            loss.backward()
            optimizer.step()
            losses[step] = loss.item()
            context.save({"model": model.state_dict(), "step": step})
        return context.attempt, losses

    return train


def test_a_lost_worker_costs_nothing(cluster, tmp_path):
    plain = run(training(), 2, args=(6,), storage=tmp_path / "plain")
    assert [attempt for attempt, _ in plain] == [0, 0]
    again = run(training(), 2, args=(6, 3), storage=tmp_path / "again", max_restarts=2)
    for (_, want), (attempt, got) in zip(plain, again, strict=True):
        assert attempt == 1
        assert got == {step: want[step] for step in (3, 4, 5)}


def test_failures_reach_the_program(cluster, tmp_path):
    def lost(context):
        if context.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()

    with pytest.raises(ray.exceptions.RayActorError):
        run(lost, 2)

    def wrong(context):
        if context.rank == 1:
            raise KeyError(f"attempt {context.attempt}")
        dist.barrier()

    with pytest.raises(KeyError, match="attempt 1"):
        run(wrong, 2, max_restarts=1)
    with pytest.raises(ValueError, match="no place for checkpoints"):
        run(lambda context: context.save({}))


def test_a_cluster_of_its_own():
    if ray.is_initialized():
        ray.shutdown()
    with warnings.catch_warnings(action="ignore"):
        found = run(lambda context: context.rank * dist.get_world_size(), 3)
    assert found == [0, 3, 6]
    assert not ray.is_initialized()
