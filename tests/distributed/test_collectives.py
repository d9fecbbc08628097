"""What collectives compute, in real processes."""

import pytest

import rushlight as torch
import rushlight.distributed as dist
from processes import needs_mpi, run

pytestmark = needs_mpi


def basics(rank, size):
    assert (dist.get_rank(), dist.get_world_size()) == (rank, size)
    t = torch.full((5,), rank + 1.0)
    dist.all_reduce(t)
    total = size * (size + 1) / 2
    assert t.tolist() == [total] * 5
    work = dist.all_reduce(t, async_op=True)
    assert work.wait() is True
    assert t.tolist() == [total * size] * 5

    t = torch.full((2, 3), float(rank))
    dist.broadcast(t, src=1)
    assert (t == 1).all()

    parts = [torch.empty(3) for _ in range(size)]
    dist.all_gather(parts, torch.full((3,), float(rank)))
    assert [p[0].item() for p in parts] == list(range(size))

    out = torch.empty(2)
    dist.reduce_scatter(out, [torch.full((2,), float(r)) for r in range(size)])
    assert out.tolist() == [rank * size] * 2

    into = torch.empty(size * 2)
    dist.all_gather_into_tensor(into, torch.full((2,), float(rank)))
    assert into.view(size, 2)[:, 0].tolist() == list(range(size))

    if rank == 0:
        dist.send(torch.arange(4), dst=1)
    elif rank == 1:
        got = torch.empty(4, dtype=torch.int64)
        assert dist.recv(got) == 0
        assert got.tolist() == [0, 1, 2, 3]
    dist.barrier()

    pair = dist.new_group([0, 1])
    if rank < 2:
        t = torch.ones(1)
        dist.all_reduce(t, group=pair)
        assert t.item() == 2
    return rank


@pytest.mark.parametrize("size", [2, 3])
def test_the_basic_collectives(size):
    assert run(basics, size) == list(range(size))


def test_rendezvous_by_a_file(tmp_path):
    for size in (2,):
        run(by_file, size, str(tmp_path / "meet"), group=False)
    assert not (tmp_path / "meet").exists()


def by_file(rank, size, path):
    dist.init_process_group("mpi", init_method=f"file://{path}", rank=rank, world_size=size)
    t = torch.ones(3)
    dist.all_reduce(t)
    assert t.tolist() == [size] * 3
    dist.destroy_process_group()
    assert not dist.is_initialized()
