"""What collectives compute, in real processes: against the same sums in one."""

import time

import pytest

import rushlight as torch
import rushlight.distributed as dist
from processes import needs_mpi, run
from rushlight.distributed import ReduceOp

pytestmark = needs_mpi

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]


def values(rank, dtype, shape=(2, 3)):
    """What a rank brings: exact in every dtype."""
    count = torch.Size(shape).numel()
    base = (torch.arange(count) + rank) % 3 + 1
    if dtype.is_complex:
        return torch.complex(base.double(), base.double() - 2).to(dtype).reshape(shape)
    if dtype == torch.bool:
        return (base % 2 == 0).reshape(shape)
    return base.to(dtype).reshape(shape)


def expected(op, parts):
    stacked = torch.stack(parts)
    if parts[0].dtype == torch.bool:
        return {"SUM": stacked.any(0), "MAX": stacked.any(0), "BOR": stacked.any(0)}.get(
            op, stacked.all(0)
        )
    wide = stacked.to(torch.complex128 if stacked.is_complex() else torch.float64)
    if op in ("BAND", "BOR", "BXOR"):
        out = parts[0].clone()
        for part in parts[1:]:
            out = {"BAND": out & part, "BOR": out | part, "BXOR": out ^ part}[op]
        return out
    result = {
        "SUM": lambda: wide.sum(0),
        "AVG": lambda: wide.mean(0),
        "PRODUCT": lambda: wide.prod(0),
        "MIN": lambda: wide.amin(0),
        "MAX": lambda: wide.amax(0),
    }[op]()
    return result.to(parts[0].dtype)


def same(got, want):
    assert got.dtype == want.dtype
    wide = torch.complex128 if got.is_complex() else torch.float64
    torch.testing.assert_close(got.to(wide), want.to(wide), rtol=1e-3, atol=0)


def reductions(rank, size):
    cases = [(d, o) for d in FLOATS for o in ("SUM", "AVG", "PRODUCT", "MIN", "MAX")]
    cases += [(d, o) for d in INTEGERS for o in ("SUM", "PRODUCT", "MIN", "BAND", "BOR", "BXOR")]
    cases += [(d, o) for d in COMPLEX for o in ("SUM", "AVG", "PRODUCT")]
    cases += [(torch.bool, o) for o in ("SUM", "PRODUCT", "MAX", "MIN", "BOR", "BAND")]
    for dtype, name in cases:
        op = getattr(ReduceOp, name)
        want = expected(name, [values(r, dtype) for r in range(size)])
        t = values(rank, dtype)
        dist.all_reduce(t, op)
        same(t, want)

        t = values(rank, dtype)
        dist.reduce(t, dst=size - 1, op=op)
        same(t, want if rank == size - 1 else t)

        parts = [values(rank + r, dtype) for r in range(size)]
        out = torch.empty_like(parts[0])
        dist.reduce_scatter(out, parts, op)
        same(out, expected(name, [values(r + rank, dtype) for r in range(size)]))

        whole = torch.stack(parts)
        dist.reduce_scatter_tensor(out, whole, op)
        same(out, expected(name, [values(r + rank, dtype) for r in range(size)]))

    for shape in ((), (0,), (5,)):
        t = torch.ones(shape)
        dist.all_reduce(t)
        assert t.shape == shape
        assert (t == size).all()
    t = torch.full((5 << 20,), float(rank + 1))  # combined in pieces
    dist.all_reduce(t, ReduceOp.AVG)
    assert (t == (size + 1) / 2).all()
    t = torch.ones(4, 6).t()[1:]  # not in one piece
    dist.all_reduce(t)
    assert (t == size).all()
    base = torch.zeros(3, 4)
    dist.all_reduce(base[1])
    base[:, 2] = rank
    dist.all_reduce(base[:, 2])
    assert base[:, 2].tolist() == [size * (size - 1) / 2] * 3
    many = [torch.full((3,), float(rank)), torch.ones(2)]
    dist.all_reduce_coalesced(many)
    assert many[0].tolist() == [size * (size - 1) / 2] * 3
    assert many[1].tolist() == [size] * 2
    t = torch.ones(3)
    dist.all_reduce(t, dist._reductions._make_nccl_premul_sum(2.0))
    assert t.tolist() == [2 * size] * 3
    for bad, op in ((torch.ones(2), ReduceOp.BAND), (torch.ones(2) * 1j, ReduceOp.MAX)):
        with pytest.raises(ValueError, match=op.name):
            dist.all_reduce(bad, op)


def exchanges_of(count, rank, size):
    torch.manual_seed(0)
    rows = torch.randn(size, count, dtype=torch.float64)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        t = rows[rank].to(dtype, copy=True)
        want = rows.to(dtype, copy=True).double()
        version = t._version
        dist.all_reduce(t)
        assert t._version == version + 1
        error = 0.05 if dtype == torch.bfloat16 else 1e-5
        close = {"rtol": error, "atol": error}
        torch.testing.assert_close(t.double(), want.sum(0), **close)
        others = [torch.empty_like(t) for _ in range(size)]
        dist.all_gather(others, t)
        assert all(torch.equal(t, other) for other in others)  # to the last bit
        t = rows[rank].to(dtype, copy=True)
        dist.all_reduce(t, ReduceOp.AVG)
        torch.testing.assert_close(t.double(), want.mean(0), **close)

        whole = rows[rank, : count // size * size].to(dtype, copy=True).view(size, -1)
        kept, out = whole.clone(), torch.empty_like(whole[0])
        dist.reduce_scatter_tensor(out, whole)
        sums = want[:, : count // size * size].sum(0).view(size, -1)
        torch.testing.assert_close(out.double(), sums[rank], **close)
        assert torch.equal(whole, kept)
        dist.reduce_scatter_tensor(whole[0], whole)  # into the part of another
        assert torch.equal(whole[0], out)

        into = torch.empty(size, out.numel(), dtype=dtype)
        dist.all_gather_into_tensor(into, out)
        torch.testing.assert_close(into.double(), sums, **close)
        into[rank] = out
        dist.all_gather_into_tensor(into, into[rank])  # from its own place
        torch.testing.assert_close(into.double(), sums, **close)


def exchanges(rank, size):
    """Collectives of any size: from one on, floats go by messages of their own."""
    for count in (9, 3000, (1 << 18) + 5):
        exchanges_of(count, rank, size)
    # Several are under way, and are waited for in another order.
    several = [torch.full((1 << 18,), float(rank + i)) for i in range(6)]
    works = [dist.all_reduce(t, async_op=True) for t in several]
    for i in (3, 5, 0, 2, 1, 4) if rank == 0 else range(6):
        works[i].wait()
    for i, t in enumerate(several):
        assert (t == sum(r + i for r in range(size))).all()
    t = torch.ones(1 << 19).view(2, -1).t()  # not in one piece
    dist.all_reduce(t)
    assert (t == size).all()
    with torch.inference_mode():
        t = torch.ones(1 << 18)
        work = dist.all_reduce(t, ReduceOp.AVG, async_op=True)
        time.sleep(0.01)  # another thread ends it
        work.wait()
        assert (t == 1).all()


def movements(rank, size):
    for dtype in [*FLOATS, *INTEGERS, *COMPLEX, torch.bool]:
        t = values(rank, dtype)
        dist.broadcast(t, src=1)
        same(t, values(1, dtype))

        parts = [torch.empty_like(t) for _ in range(size)]
        dist.all_gather(parts, values(rank, dtype))
        for r in range(size):
            same(parts[r], values(r, dtype))

        parts = [torch.empty_like(t) for _ in range(size)] if rank == 0 else None
        dist.gather(values(rank, dtype), parts, dst=0)
        for r in range(size if rank == 0 else 0):
            same(parts[r], values(r, dtype))

        source = [values(r, dtype) for r in range(size)] if rank == 0 else None
        dist.scatter(t, source, src=0)
        same(t, values(rank, dtype))

        out = [torch.empty_like(t) for _ in range(size)]
        dist.all_to_all(out, [values(rank + r, dtype) for r in range(size)])
        for r in range(size):
            same(out[r], values(r + rank, dtype))

    into = torch.empty(size, 2, 3)
    dist.all_gather_into_tensor(into, values(rank, torch.float32))
    assert into.tolist() == [values(r, torch.float32).tolist() for r in range(size)]
    rows = list(torch.empty(size, 4).unbind(0))  # adjacent: written in place
    dist.all_gather(rows, torch.full((4,), float(rank)))
    assert [row.tolist() for row in rows] == [[r] * 4 for r in range(size)]
    uneven = [torch.empty(r + 1) for r in range(size)]
    dist.all_gather(uneven, torch.full((rank + 1,), float(rank)))
    assert [t.tolist() for t in uneven] == [[r] * (r + 1) for r in range(size)]
    lists = [[torch.empty(2) for _ in range(size)], [torch.empty(1) for _ in range(size)]]
    dist.all_gather_coalesced(lists, [torch.full((2,), float(rank)), torch.ones(1)])
    assert [t.tolist() for t in lists[0]] == [[r] * 2 for r in range(size)]

    sent = torch.arange(size * (rank + 1), dtype=torch.float32)  # rank + 1 values to each
    got = torch.empty(sum(r + 1 for r in range(size)))
    dist.all_to_all_single(got, sent, [r + 1 for r in range(size)], [rank + 1] * size)
    want = [[float(rank * (r + 1) + i) for i in range(r + 1)] for r in range(size)]
    assert got.tolist() == [x for part in want for x in part]

    work = dist.all_gather_into_tensor(into, torch.ones(2, 3), async_op=True)
    future = work.get_future()
    assert work.wait()
    assert work.is_completed()
    assert work.is_success()
    future.wait()
    assert (into == 1).all()
    works = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(20)]
    assert all(w.wait() for w in works)
    assert works[0].result()[0][0] == size

    w = torch.ones(2, requires_grad=True)
    y = (w * w).exp()
    dist.all_reduce(y)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


def messages(rank, size):
    right, left = (rank + 1) % size, (rank - 1) % size
    got = torch.empty(3)
    ops = [
        dist.P2POp(dist.isend, torch.full((3,), float(rank)), right),
        dist.P2POp(dist.irecv, got, left),
    ]
    for work in dist.batch_isend_irecv(ops):
        work.wait()
    assert got.tolist() == [left] * 3
    if rank == 0:
        for r in range(1, size):
            dist.send(torch.tensor([r * 10]), r, tag=5)
        dist.send_object_list([{"a": 1}, "b"], 1)
        big = torch.arange(1 << 19, dtype=torch.float64)
        dist.isend(big, 1).wait()
        dist.send(torch.ones(3), 1)
    else:
        got = torch.empty(1, dtype=torch.int64)
        assert dist.recv(got, tag=5) == 0
        assert got.item() == rank * 10
    if rank == 1:
        objects = [None, None]
        assert dist.recv_object_list(objects, 0) == 0
        assert objects == [{"a": 1}, "b"]
        big = torch.empty(1 << 19, dtype=torch.float64)
        dist.recv(big, 0)
        assert big.sum().item() == (1 << 19) * ((1 << 19) - 1) / 2
        with pytest.raises(RuntimeError, match="rank 0 sent 3 values, but the tensor has 4"):
            dist.recv(torch.empty(4), 0)
    with pytest.raises(ValueError, match="same as the rank of the current process"):
        dist.send(torch.ones(1), rank)


def objects(rank, size):
    every = [None] * size
    dist.all_gather_object(every, {"rank": rank, "text": "x" * rank})
    assert every == [{"rank": r, "text": "x" * r} for r in range(size)]
    at_last = [None] * size if rank == size - 1 else None
    dist.gather_object(rank, at_last, dst=size - 1)
    assert at_last in (None, list(range(size)))
    some = ["a", torch.ones(2)] if rank == 0 else [None, None]
    dist.broadcast_object_list(some, src=0)
    assert some[0] == "a"
    assert some[1].tolist() == [1, 1]
    own = [None]
    dist.scatter_object_list(own, [f"for {r}" * r for r in range(size)] if rank == 0 else None)
    assert own == [f"for {rank}" * rank]
    dist.monitored_barrier()


def groups(rank, size):
    evens = dist.new_group(range(0, size, 2))
    if rank % 2 == 0:
        t = torch.tensor([rank])
        dist.all_reduce(t, group=evens)
        assert t.item() == sum(range(0, size, 2))
        assert dist.get_rank(evens) == rank // 2
        last = dist.get_world_size(evens) - 1
        assert dist.get_global_rank(evens, last) == 2 * last
        dist.broadcast(t, group_src=last, group=evens)
        with pytest.raises(ValueError, match="not part of group"):
            dist.broadcast(t, src=1, group=evens)
    else:
        assert evens == dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(evens) == -1
    own, every = dist.new_subgroups_by_enumeration([[0], list(range(1, size))])
    t = torch.ones(1)
    dist.all_reduce(t, group=own)
    assert t.item() == (1 if rank == 0 else size - 1)
    assert len(every) == 2
    if rank > 0:
        local = dist.new_group(list(range(1, size)), use_local_synchronization=True)
        dist.barrier(group=local)


def everything(rank, size):
    for part in (reductions, exchanges, movements, messages, objects, groups):
        part(rank, size)
    dist.destroy_process_group()  # and once more, in the same processes
    dist.init_process_group("mpi")
    t = torch.ones(2)
    dist.all_reduce(t)
    assert t.tolist() == [size] * 2
    return rank


@pytest.mark.parametrize("size", [2, 3])
def test_collectives(size):
    assert run(everything, size) == list(range(size))


def sparse(rank, size):
    dense = torch.zeros(4, 3, 2)
    dense[rank % 2, rank] = rank + 1.0
    t = dense.to_sparse(2)
    parts = [torch.zeros(4, 3, 2) for _ in range(size)]
    dist.all_gather(parts, dense)
    dist.all_reduce(t)
    assert t.is_sparse
    assert torch.equal(t.to_dense(), sum(parts))
    empty = torch.zeros(3).to_sparse()
    assert dist.all_reduce(empty, async_op=True).wait()
    assert empty.to_dense().tolist() == [0.0] * 3
    with pytest.raises(ValueError, match="sparse tensors are summed"):
        dist.all_reduce(t, ReduceOp.MAX)
    with pytest.raises(ValueError, match=r"rank 0 has .*\(2,\).*, rank 1 has .*\(3,\)"):
        dist.all_reduce(torch.ones(2 + rank).to_sparse())


@pytest.mark.parametrize("size", [2, 3])
def test_sparse_tensors_are_summed(size):
    run(sparse, size)


def refusals(rank, size):
    t = torch.ones(2)
    with pytest.raises(ValueError, match="Must specify global_rank or group_rank"):
        dist.broadcast(t)
    with pytest.raises(ValueError, match="Must specify global_rank or group_rank"):
        dist.reduce(t)
    with pytest.raises(TypeError, match="PREMUL_SUM needs its factor"):
        dist.all_reduce(t, op=ReduceOp.PREMUL_SUM)
    with pytest.raises(ValueError, match="Invalid usage of tensors with different dtypes"):
        dist.all_reduce_coalesced([t, torch.ones(2, dtype=torch.int64)])
    assert t.tolist() == [1.0, 1.0]
    parts = [torch.zeros(2) for _ in range(size)]
    dist.gather(t, parts if rank == 0 else None)  # these have a default
    dist.scatter(torch.zeros(2), parts if rank == 0 else None)
    box = [rank]
    dist.broadcast_object_list(box)
    assert box == [0]


def test_what_collectives_refuse():
    run(refusals, 2)


def meshes(rank, size):
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    assert mesh.shape == (2, 2)
    assert mesh.get_coordinate() == [rank // 2, rank % 2]
    t = torch.tensor([rank])
    dist.all_reduce(t, group=mesh.get_group("model"))
    assert t.item() == (1 if rank < 2 else 5)
    t = torch.tensor([rank])
    dist.all_reduce(t, group=mesh["data"].get_group())
    assert t.item() == (2 if rank % 2 == 0 else 4)
    assert mesh["model"].get_local_rank() == rank % 2
    assert mesh["model"].mesh.tolist() == ([0, 1] if rank < 2 else [2, 3])
    flat = mesh._flatten("all")
    assert mesh["all"] is flat
    assert flat.size() == 4
    with pytest.raises(KeyError, match="pipe"):
        mesh["pipe"]
    line = dist.init_device_mesh("cpu", (4,))
    assert line.get_group() is dist.group.WORLD
    return rank


def test_meshes():
    assert run(meshes, 4) == [0, 1, 2, 3]


def gradients(rank, size):
    """Of the sum of all losses; compared with the same sum in one process."""
    from rushlight.distributed.nn import functional as F

    torch.manual_seed(0)
    xs = [torch.randn(3, dtype=torch.float64, requires_grad=True) for _ in range(size)]
    weight = torch.arange(1.0, 4.0, dtype=torch.float64)

    def check(parallel, single):
        """``parallel(x, rank)`` is this rank's loss; ``single(xs, rank)`` is the same."""
        x = xs[rank].detach().requires_grad_()
        (first,) = torch.autograd.grad(parallel(x, rank), x, create_graph=True)
        (second,) = torch.autograd.grad((first * first).sum() * (rank + 1), x)
        own = [t.detach().requires_grad_() for t in xs]
        total = sum(single(own, r) for r in range(size)) + sum((t**3 * 0).sum() for t in own)
        grads = torch.autograd.grad(total, own, create_graph=True)
        again = sum((g * g).sum() * (r + 1) for r, g in enumerate(grads))
        seconds = torch.autograd.grad(again, own)
        torch.testing.assert_close(first, grads[rank], rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(second, seconds[rank], rtol=1e-12, atol=1e-12)

    def loss(t, r):
        return (t**3 * weight).sum() * (r + 2)

    check(lambda x, r: loss(F.all_reduce(x), r), lambda v, r: loss(sum(v), r))
    check(lambda x, r: loss(F.broadcast(x, 1), r), lambda v, r: loss(v[1], r))
    check(
        lambda x, r: loss(torch.stack(F.all_gather(x)).prod(0), r),
        lambda v, r: loss(torch.stack(v).prod(0), r),
    )
    check(lambda x, r: loss(F.reduce(x, 0), r), lambda v, r: loss(sum(v) * (r == 0), r))
    check(
        lambda x, r: loss(F.reduce_scatter(x, [x * (k + 1) for k in range(size)]), r),
        lambda v, r: loss(sum(v) * (r + 1), r),
    )
    check(
        lambda x, r: loss(sum(F.all_to_all([x] * size, [x * (k + 1) for k in range(size)])), r),
        lambda v, r: loss(sum(v) * (r + 1), r),
    )
    check(
        lambda x, r: loss(torch.stack(F.gather(x, 0)).sum(0), r),
        lambda v, r: loss(sum(v) * (r == 0), r),
    )
    check(
        lambda x, r: loss(F.scatter([x * (k + 1) for k in range(size)], 0), r),
        lambda v, r: loss(v[0] * (r + 1), r),
    )
    check(
        lambda x, r: loss(F.all_reduce(x, ReduceOp.MAX), r),
        lambda v, r: loss(torch.stack(v).amax(0), r),
    )
    return rank


def test_gradients_flow_through_collectives_twice():
    assert run(gradients, 3) == [0, 1, 2]


def by_file_and_tcp(rank, size, path, port):
    for url in (f"file://{path}", f"tcp://127.0.0.1:{port}"):
        dist.init_process_group("mpi", init_method=url, rank=rank, world_size=size)
        t = torch.ones(3)
        dist.all_reduce(t)
        assert t.tolist() == [size] * 3
        dist.barrier()
        dist.destroy_process_group()
        assert not dist.is_initialized()


def test_rendezvous_by_a_file_and_an_address(tmp_path):
    from processes import free_port

    run(by_file_and_tcp, 2, str(tmp_path / "meet"), free_port(), group=False)
    assert not (tmp_path / "meet").exists()


def spawned(rank, size, port):
    import os

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=size)
    t = torch.tensor([float(rank)])
    dist.all_reduce(t)
    assert t.item() == 1
    dist.destroy_process_group()


def test_processes_that_spawn_made():
    from processes import free_port, run_script

    script = f"""
import sys; sys.path.insert(0, {str(__file__.rpartition("/")[0])!r})
import rushlight.multiprocessing as mp
from test_collectives import spawned
if __name__ == "__main__":
    mp.spawn(spawned, (2, {free_port()}), nprocs=2)
    print("both")
"""
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".py") as file:
        file.write(script)
        file.flush()
        (output,) = run_script(file.name, 1)
    assert output.splitlines()[-1] == "both"


def functional(rank, size):
    from rushlight.distributed import _functional_collectives as funcol

    mesh = dist.init_device_mesh("cpu", (size,))
    everyone = dist.group.WORLD
    x = torch.arange(2.0 * size, requires_grad=True)
    for group in (everyone, everyone.group_name, list(range(size)), mesh, (mesh, 0)):
        total = funcol.wait_tensor(funcol.all_reduce(x * (rank + 1), "sum", group))
        assert total.tolist() == (torch.arange(2.0 * size) * sum(range(size + 1))).tolist()
    rows = torch.tensor([[float(rank)]])
    assert funcol.all_gather_tensor(rows, 1, everyone).tolist() == [[*map(float, range(size))]]
    own = funcol.reduce_scatter_tensor_autograd(x, "avg", 0, everyone)
    assert own.tolist() == [2.0 * rank, 2.0 * rank + 1]
    own.sum().backward()
    torch.testing.assert_close(x.grad, torch.full((2 * size,), 1 / size))
    sent = funcol.all_to_all_single_autograd(x * 0 + rank, None, None, everyone)
    assert sent.tolist() == [float(r) for r in range(size) for _ in range(2)]
    turned = funcol.permute_tensor(rows, [(r + 1) % size for r in range(size)], everyone)
    assert turned.item() == (rank - 1) % size
    assert funcol.broadcast(rows, 1, everyone).item() == 1
    both = funcol.all_gather_into_tensor_coalesced([rows, rows[0]], everyone)
    assert [tuple(t.shape) for t in both] == [(size, 1), (size,)]
    with pytest.raises(ValueError, match="no process group"):
        funcol.all_reduce(x, "sum", "never")
    with pytest.raises(RuntimeError, match="no multiple"):
        funcol.reduce_scatter_tensor(x[1:], "sum", 0, everyone)


@pytest.mark.parametrize("size", [2, 3])
def test_functional_collectives(size):
    run(functional, size)


def test_waits_learn_how_long_to_test_before_they_sleep(monkeypatch):
    from rushlight.distributed._work import Patience

    monkeypatch.setattr(Patience, "tests", 60)
    monkeypatch.setattr(Patience, "neighbours", 1)
    monkeypatch.setattr("rushlight.distributed._work._CORES", torch.get_num_threads())
    seen = []
    for _ in range(8):
        Patience.learn(disturbed=False)
        seen.append(Patience.tests)
    assert seen == [120, 240, 480, 960, 1920, 2000, 2000, 2000]
    Patience.learn(disturbed=True)
    assert Patience.tests == 500
    Patience.neighbours = 2  # two processes, one core
    for _ in range(3):
        Patience.learn(disturbed=False)
    assert Patience.tests == 60
