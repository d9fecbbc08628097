"""What happens to the others when a process dies, hangs, or calls something else."""

import os
import re
import signal
import time
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
from processes import needs_mpi, start
from rushlight.distributed.fsdp import fully_shard

pytestmark = needs_mpi
HERE = os.path.basename(__file__)


def outcome(function, size, *arguments, limit=20.0, env=None, init=None):
    """The exit statuses and the outputs; every process must have ended by itself."""
    with start(function, size, *arguments, env=env, init=init) as ranks:
        codes = ranks.wait(60, patience=limit)
        outputs = [ranks.output(r) for r in range(size)]
        assert ranks.late == [], (codes, outputs)
    return codes, outputs


def last_line(output):
    return [line for line in output.splitlines() if "rror" in line][-1]


def killed_in_a_collective(rank, size):
    dist.all_reduce(torch.ones(4))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    since = time.monotonic()
    try:
        dist.all_reduce(torch.ones(4))
    finally:
        print("waited", time.monotonic() - since)


def test_a_killed_process_ends_the_others_within_seconds():
    codes, outputs = outcome(killed_in_a_collective, 3)
    assert codes[1] == -signal.SIGKILL
    for rank in (0, 2):
        assert codes[rank] == 1
        assert re.search(
            rf"DistBackendError: all_reduce: rank 1 has died; rank {rank} waits for it at "
            rf".*{HERE}:\d+",
            outputs[rank],
        ), outputs[rank]
        assert float(re.search(r"waited (\S+)", outputs[rank])[1]) < 5


class Dies(torch.autograd.Function):
    """Kills the process where it is, forward or back."""

    @staticmethod
    def forward(ctx, x, where):
        ctx.where = where
        if where == "forward":
            os.kill(os.getpid(), signal.SIGKILL)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.where == "backward":
            os.kill(os.getpid(), signal.SIGKILL)
        return grad, None


def killed_in_training(rank, size, where, kind):
    layers = [torch.nn.Linear(4, 4) for _ in range(3)]
    model = torch.nn.Sequential(*layers)
    if kind == "DDP":
        model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1e-5)
    else:
        for layer in layers:
            fully_shard(layer)
        fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4):
        if rank == 1 and step == 2:
            layers[1].register_forward_hook(lambda m, i, output: Dies.apply(output, where))
        since = time.monotonic()
        try:
            model(torch.ones(2, 4)).sum().backward()
        except dist.DistBackendError:
            print("waited", time.monotonic() - since)
            raise
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("kind", ["DDP", "fully_shard"])
@pytest.mark.parametrize("where", ["forward", "backward"])
def test_a_process_killed_in_a_pass_ends_the_others(where, kind):
    codes, outputs = outcome(killed_in_training, 3, where, kind)
    assert codes == [1, -signal.SIGKILL, 1]
    told = [last_line(outputs[rank]) for rank in (0, 2)]
    assert any("rank 1 has died; rank" in line for line in told), told
    assert all("DistBackendError" in line and "has died" in line for line in told), told
    for rank in (0, 2):
        assert float(re.search(r"waited (\S+)", outputs[rank])[1]) < 5


def first_rank_killed(rank, size):
    dist.barrier()
    if rank == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.all_gather_object([None] * size, rank)


def test_the_process_that_holds_the_store_may_die():
    codes, outputs = outcome(first_rank_killed, 2)
    assert codes == [-signal.SIGKILL, 1]
    assert "rank 0 has died; rank 1 waits for it" in last_line(outputs[1])


def raises(rank, size):
    if rank == 1:
        raise ValueError("no such file")
    dist.barrier()


def test_an_exception_in_one_process_ends_the_others():
    codes, outputs = outcome(raises, 2)
    assert codes == [1, 1]
    assert last_line(outputs[1]) == "ValueError: no such file"
    assert "barrier: rank 1 has died; rank 0 waits for it" in last_line(outputs[0])


def leaves(rank, size):
    if rank == 1:
        dist.destroy_process_group()
        return
    dist.barrier()


def test_a_process_that_leaves_early_is_named():
    codes, outputs = outcome(leaves, 2)
    assert codes == [1, 0]
    assert "barrier: rank 1 has left the group; rank 0 waits for it" in last_line(outputs[0])


def hangs(rank, size):
    t = torch.ones(2)
    dist.all_reduce(t)
    if rank == 1:
        time.sleep(4)
        os._exit(0)
    dist.broadcast(t, src=1)


def test_a_hanging_process_is_named_with_the_collective():
    codes, outputs = outcome(hangs, 2, init={"backend": "gloo", "timeout": timedelta(seconds=1.5)})
    assert codes == [1, 0]
    text = last_line(outputs[0])
    assert re.search(
        rf"broadcast: Timed out waiting 1500ms on rank 0, called at .*{HERE}:\d+: rank 1 is 1 "
        rf"behind, after all_reduce\(float32\[2\], op=SUM\) at .*{HERE}:\d+",
        text,
    ), text


def different_collectives(rank, size):
    dist.barrier()
    if rank == 0:
        dist.all_reduce(torch.ones(4))
    else:
        dist.broadcast(torch.ones(4), src=0)


def different_shapes(rank, size):
    dist.barrier()
    if rank == 1:
        time.sleep(0.3)
    dist.all_reduce(torch.ones(4 + rank))


def different_dtypes(rank, size):
    dist.all_reduce(torch.ones(4, dtype=torch.float64 if rank else torch.float32))


def splits_that_disagree(rank, size):
    dist.all_to_all_single(torch.zeros(3), torch.arange(3.0) + 10 * rank, [1, 2], [1, 2])


def lists_that_disagree(rank, size):
    if rank == 1:
        time.sleep(0.3)
    outputs = [torch.zeros(1 + rank), torch.zeros(2)]
    dist.all_to_all(outputs, [torch.zeros(1), torch.zeros(1 + rank)])


def gathers_more_than_there_is_place(rank, size):
    places = [torch.zeros(2), torch.zeros(2)]
    dist.gather(torch.ones(2 + rank) * (rank + 1), places if rank == 0 else None)


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (splits_that_disagree, [r"sends \[1, 2\], receives \[1, 2\]", "sends 2 values to rank 1"]),
        (lists_that_disagree, [r"receives \[1, 2\]", "rank 0 sends 1 values to rank 1, which exp"]),
        (
            gathers_more_than_there_is_place,
            [r"\[2\], gather_list=\[\[2\], \[2\]\]", "sends 3 values to rank 0, which expects 2"],
        ),
    ],
)
def test_sizes_that_do_not_fit_those_of_the_others_are_named(function, texts):
    codes, outputs = outcome(function, 2)
    assert 1 in codes
    told = [last_line(output) for output, code in zip(outputs, codes, strict=True) if code]
    told = [line for line in told if "Detected mismatch" in line]
    for line in told:
        assert all(re.search(text, line) for text in texts[:1]), line
        assert re.search(rf"at .*{HERE}:\d+.*, but rank \d calls .* at .*{HERE}:\d+", line), line
    assert told
    assert any(re.search(texts[1], line) for line in told), told


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (different_collectives, [r"all_reduce\(float32\[4\], op=SUM\)", r"broadcast\(.*src=0\)"]),
        (different_shapes, [r"all_reduce\(float32\[4\], op=SUM\)", r"all_reduce\(float32\[5\]"]),
        (different_dtypes, [r"all_reduce\(float32\[4\]", r"all_reduce\(float64\[4\]"]),
    ],
)
def test_collectives_that_differ_are_named_at_once_with_both_lines(function, texts):
    codes, outputs = outcome(function, 2)
    assert codes == [1, 1]
    for rank in (0, 1):
        text = last_line(outputs[rank])
        if "has died" in text:  # the other was quicker, and this one heard of its end first
            continue
        assert f"rank {rank} calls" in text, text
        for part in texts:
            assert re.search(rf"{part}.* at .*{HERE}:\d+", text), text
    assert any("Detected mismatch" in output for output in outputs)


def waits_for_ever(rank, size):
    print("ready", flush=True)
    if rank == 0:
        dist.barrier()
    time.sleep(60)


def test_an_interrupt_ends_a_collective():
    with start(waits_for_ever, 2) as ranks:
        end = time.monotonic() + 30
        while not all("ready" in ranks.output(r) for r in (0, 1)):
            assert time.monotonic() < end
            time.sleep(0.02)
        time.sleep(0.2)
        for rank in (0, 1):
            ranks.signal(rank, signal.SIGINT)
        codes = ranks.wait(10)
        assert ranks.late == []
        assert codes == [-signal.SIGINT, -signal.SIGINT]
        assert "KeyboardInterrupt" in ranks.output(0)


def absent_at_a_barrier(rank, size):
    if rank != 1:
        dist.monitored_barrier(timeout=timedelta(seconds=1), wait_all_ranks=True)
    else:
        time.sleep(3)
        os._exit(0)


def test_a_monitored_barrier_names_who_is_missing():
    _, outputs = outcome(absent_at_a_barrier, 3)
    assert "[Rank 0]: Ranks 1 failed to pass monitoredBarrier in 1000 ms" in last_line(outputs[0])
    assert "Please check rank 0 logs" in last_line(outputs[2])


def never_comes(rank, size):
    if rank == 0:
        dist.init_process_group("gloo", timeout=timedelta(seconds=1))


def test_a_process_that_never_comes_is_named():
    with start(never_comes, 2, group=False) as ranks:
        ranks.wait(30)
        assert "rank 0 waited 1 s for rank 1 of 2" in ranks.output(0)
