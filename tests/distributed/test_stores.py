"""Stores and the ways to meet: one process, no MPI."""

import os
import subprocess
import sys
import threading
import time
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def pair(request, tmp_path):
    """Two handles of one store."""
    if request.param == "hash":
        store = dist.HashStore()
        return store, store
    if request.param == "file":
        path = str(tmp_path / "store")
        return dist.FileStore(path, 2), dist.FileStore(path, 2)
    first = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    second = dist.TCPStore("127.0.0.1", first.port, is_master=False)
    if request.param == "tcp":
        return first, second
    return dist.PrefixStore("a", first), dist.PrefixStore("a", second)


def test_what_one_writes_the_other_reads(pair):
    one, other = pair
    one.set("key", "value")
    assert other.get("key") == b"value"
    one.set("key", b"\0\xff")
    assert other.get("key") == b"\0\xff"
    assert one.add("count", 3) == 3
    assert other.add("count", -1) == 2
    assert other.get("count") == b"2"
    one.append("key", "more")
    assert other.get("key") == b"\0\xffmore"
    assert other.check(["key", "count"])
    assert not other.check(["key", "none"])
    assert one.delete_key("key")
    assert not other.delete_key("key")
    one.multi_set(["x", "y"], ["1", "2"])
    assert other.multi_get(["y", "x"]) == [b"2", b"1"]
    assert one.compare_set("z", "", "first") == b"first"
    assert other.compare_set("z", "wrong", "second") == b"first"
    assert other.compare_set("z", "first", "second") == b"second"
    assert one.compare_set("none", "expected", "x") == b"expected"
    one.queue_push("q", "a")
    one.queue_push("q", "b")
    assert other.queue_len("q") == 2
    assert [other.queue_pop("q"), one.queue_pop("q")] == [b"a", b"b"]
    with pytest.raises(dist.QueueEmptyError, match="q"):
        one.queue_pop("q", block=False)
    assert one.num_keys() == other.num_keys()


def test_a_reader_waits_for_the_writer(pair):
    one, other = pair

    def write():
        time.sleep(0.05)
        other.set("late", "here")

    thread = threading.Thread(target=write)
    thread.start()
    one.wait(["late"], timedelta(seconds=10))
    assert one.get("late") == b"here"
    thread.join()


def test_a_key_that_never_comes_is_named(pair):
    one, _ = pair
    with pytest.raises(dist.DistStoreError, match=r"wait timeout after 50ms, keys: .*never"):
        one.wait(["never"], timedelta(milliseconds=50))
    one.set_timeout(timedelta(milliseconds=50))
    with pytest.raises(dist.DistStoreError, match="never"):
        one.get("never")
    one.set("after", "1")
    assert one.get("after") == b"1"


def test_a_server_that_is_not_there():
    from processes import free_port

    port = free_port()
    with pytest.raises(dist.DistNetworkError, match=rf"connect to \(127.0.0.1, {port}\)"):
        dist.TCPStore("127.0.0.1", port, 2, False, timeout=timedelta(seconds=0.2))


def test_a_port_that_is_taken():
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    with pytest.raises(dist.DistNetworkError, match="failed to listen"):
        dist.TCPStore("127.0.0.1", store.port, is_master=True)


def test_a_server_ignores_strangers():
    """Something else that speaks to the port: a web browser, say."""
    import socket

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x04\0\0\0\xff\xff\xff\xff"):
        with socket.create_connection(("127.0.0.1", store.port)) as link:
            link.sendall(data)
            link.settimeout(1)
            link.shutdown(socket.SHUT_WR)
            while link.recv(100):
                pass
    store.set("still", "here")
    assert store.get("still") == b"here"


def test_missing_workers_are_counted():
    with pytest.raises(dist.DistStoreError, match="1/2 clients joined"):
        dist.TCPStore("127.0.0.1", 0, 2, True, timeout=timedelta(seconds=0.1))


@pytest.fixture
def clean_environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("RANK", "WORLD", "MASTER", "SLURM", "PMI", "OMPI", "TORCHELASTIC")):
            monkeypatch.delenv(name)


@pytest.mark.usefixtures("clean_environment")
def test_what_is_missing_in_the_environment_is_named(monkeypatch):
    values = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    for name, value in values.items():
        with pytest.raises(ValueError, match=f"environment variable {name} expected"):
            dist.init_process_group("gloo")
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match="No rendezvous handler for http://"):
        dist.init_process_group("gloo", init_method="http://x", rank=0, world_size=1)
    with pytest.raises(ValueError, match="Invalid backend: 'fancy'"):
        dist.init_process_group("fancy")


@pytest.mark.usefixtures("clean_environment")
@pytest.mark.parametrize(
    ("nodes", "host"),
    [("node7", "node7"), ("a,b", "a"), ("gpu[03-05,9],x1", "gpu03"), ("n[1,5]", "n1")],
)
def test_the_first_machine_of_a_slurm_job(monkeypatch, nodes, host):

    rendezvous = sys.modules["rushlight.distributed.rendezvous"]

    monkeypatch.setenv("SLURM_JOB_NODELIST", nodes)
    monkeypatch.setenv("SLURM_JOB_ID", "41234")
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "8")
    assert rendezvous._slurm_host() == host
    assert rendezvous._slurm_port() == "21234"
    assert rendezvous._numbers(-1, -1, "env://") == (3, 8)


@pytest.mark.usefixtures("clean_environment")
def test_one_process_needs_no_engine():
    """A group of one works without MPI, and every collective is a copy."""
    dist.init_process_group(rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="twice"):
            dist.init_process_group(rank=0, world_size=1)
        t = torch.arange(3.0)
        assert dist.all_reduce(t, async_op=True).wait()
        dist.all_reduce(t, dist.ReduceOp.AVG)
        out = [torch.empty(3)]
        dist.all_gather(out, t)
        assert out[0].tolist() == [0, 1, 2]
        dist.scatter(t, [t + 1])
        assert t.tolist() == [1, 2, 3]
        got = [None]
        dist.all_gather_object(got, "x")
        assert got == ["x"]
        assert dist.get_process_group_ranks(dist.new_group([0])) == [0]
        with pytest.raises(ValueError, match="distinct"):
            dist.new_group([0, 1])
        with pytest.raises(TypeError, match="Expected parameter `tensor`"):
            dist.all_reduce([1.0])
        with pytest.raises(TypeError, match="op must be a ReduceOp"):
            dist.all_reduce(t, "sum")
        with pytest.raises(ValueError, match="one tensor for each of the 1"):
            dist.all_gather([t, t], t)
        with pytest.raises(ValueError, match="different dtypes"):
            dist.all_gather([t.double()], t)
    finally:
        dist.destroy_process_group()


def test_several_processes_without_mpi_say_what_to_install():
    program = """
import sys
sys.modules["mpi4py"] = None
import rushlight.distributed as dist
where = "tcp://127.0.0.1:%s"
dist.init_process_group("gloo", init_method=where, rank=int(sys.argv[1]), world_size=2)
"""
    from processes import free_port

    command = [sys.executable, "-c", program % free_port()]
    texts = [  # one after the other: none waits for one that could not start
        subprocess.run([*command, str(r)], stderr=subprocess.PIPE, text=True, timeout=60).stderr
        for r in (0, 1)
    ]
    assert all("pip install 'rushlight[mpi]'" in text for text in texts), texts
