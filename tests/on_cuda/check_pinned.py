"""Pinned memory: copies that the host does not wait for, what is used anew and when, threads."""

import os
import threading

import pytest

import rushlight as torch

N = 1 << 16


def test_a_copy_goes_on_while_the_program_does():
    x, host = torch.arange(float(N)), torch.arange(float(N)).pin_memory()
    there = host.to("cuda", non_blocking=True)
    assert torch.equal((there * 2).cpu(), x * 2)
    there = torch.zeros(N, device="cuda").copy_(host, non_blocking=True)
    assert torch.equal(there.cpu(), x)
    assert torch.equal(host.cuda(non_blocking=True).cpu(), x)
    back = torch.zeros(N).pin_memory()
    back.copy_(there + 1, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    assert torch.equal(back, x + 1)


def test_what_lies_apart_and_other_types():
    x = torch.arange(float(N)).reshape(4, -1)
    host = x.pin_memory()
    for t, kept in ((host.T, x.T), (host[:, ::2], x[:, ::2]), (host[1], x[1])):
        assert torch.equal(t.to("cuda", non_blocking=True).cpu(), kept)
        assert torch.equal(t.to("cuda", torch.float16, non_blocking=True).cpu(), kept.half())
    back = torch.zeros(8, N // 4).pin_memory()
    back[::2].copy_(host.cuda(), non_blocking=True)  # not in one piece: it is waited for
    assert torch.equal(back[::2], x)


def test_memory_is_used_anew():
    first = torch.ones(11 * N).pin_memory()
    address = first.data_ptr()
    del first
    assert torch.ones(11 * N - 5).pin_memory().data_ptr() == address


def test_memory_is_not_used_anew_while_it_is_copied():
    found = []
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with stream:
        for i in range(20):
            host = torch.full((N,), float(i)).pin_memory()
            found.append(host.to("cuda", non_blocking=True))
            del host
    stream.synchronize()
    for i, t in enumerate(found):
        assert t.unique().tolist() == [float(i)]


def test_loops_take_little():
    torch.cuda.synchronize()
    taken = torch.cuda.host_memory_stats()["allocations.current"]
    for i in range(50):
        batch = torch.full((N,), float(i)).pin_memory()
        there = batch.to("cuda", non_blocking=True)
        assert there[5].item() == i
    stats = torch.cuda.host_memory_stats()
    assert stats["allocations.current"] <= taken + 3
    assert stats["active_bytes.peak"] >= 4 * N
    assert stats["active_bytes.current"] <= stats["allocated_bytes.current"]


def test_graphs_copy_at_every_launch():
    host, x = torch.ones(13 * N).pin_memory(), torch.zeros(13 * N, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.copy_(host, non_blocking=True)
        y = x * 3
    for value in (2.0, 5.0):
        host.fill_(value)
        graph.replay()
        assert y.unique().tolist() == [3 * value]
    address = host.data_ptr()
    del host
    torch.cuda.synchronize()
    assert torch.ones(13 * N).pin_memory().data_ptr() != address


def test_threads_go_on_while_one_waits():
    x = torch.ones(256, 256, device="cuda")
    found = []

    def work(seed):
        y = x * seed
        for step in range(20):
            y = y + 1
            found.append(y[step, 0].item() == seed + step + 1)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 80


def test_a_forked_process_is_told_so():
    x = torch.ones(3, device="cuda")
    host = torch.ones(3).pin_memory()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with pytest.raises(RuntimeError, match="Cannot re-initialize CUDA in forked subproc"):
                x + 1
            with pytest.raises(RuntimeError, match="must use the 'spawn' start method"):
                torch.ones(3, device="cuda")
            assert torch.cuda._is_in_bad_fork()
            assert (host + 1).tolist() == [2.0] * 3
            graph = torch.ones(3, requires_grad=True)
            (graph * 2).sum().backward()
            del x, host
            os.write(write, b"well")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    assert os.read(read, 10) == b"well"
    assert not torch.cuda._is_in_bad_fork()
    assert (x + 1).tolist() == [2.0] * 3
