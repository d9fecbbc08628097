"""DataLoader with worker processes: the same batches, errors, deaths, ends, and no leftovers."""

import contextlib
import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
import types
import warnings
from multiprocessing import forkserver, resource_tracker

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils.data import DataLoader, IterableDataset, TensorDataset, get_worker_info
from rushlight.utils.data._utils import workers
from spawned import Numbers

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(autouse=True, scope="module")
def helpers_of_multiprocessing():
    """They stay once started."""
    resource_tracker.ensure_running()
    forkserver.ensure_running()


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Neither processes nor descriptors; shared memory here has no name that could stay."""
    before = descriptors()
    yield
    after = descriptors()
    assert multiprocessing.active_children() == []
    assert after <= before


class Wide(Numbers):
    """Batches of these travel in shared memory."""

    def __init__(self, length=20):
        super().__init__(length, 20_000)


class TestBatches:
    @pytest.mark.parametrize("dataset", [Numbers(11), Wide(11)], ids=["small", "wide"])
    @pytest.mark.parametrize("workers", [1, 2, 3])
    def test_the_same_as_without_workers(self, dataset, workers):
        expected = list(DataLoader(dataset, batch_size=2))
        found = list(DataLoader(dataset, batch_size=2, num_workers=workers))
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert torch.equal(a[0], b[0])
            assert a[1].tolist() == b[1].tolist()

    @pytest.mark.parametrize("method", ["spawn", "forkserver"])
    def test_fresh_processes(self, method):
        loader = DataLoader(
            Numbers(5, 10_000), batch_size=2, num_workers=2, multiprocessing_context=method
        )
        assert [b[1].tolist() for b in loader] == [[0, 1], [2, 3], [4]]

    def test_shuffled_order_is_that_of_the_main_process(self):
        def order(workers):
            g = torch.Generator().manual_seed(5)
            loader = DataLoader(Numbers(20), 3, shuffle=True, generator=g, num_workers=workers)
            return [b[1].tolist() for _ in range(2) for b in loader]

        assert order(0) == order(2)

    def test_collected_batches_keep_their_values(self):
        batches = [b[0] for b in DataLoader(Wide(200), batch_size=2, num_workers=2)]
        for i, b in enumerate(batches):
            assert b[0, 0] == 2 * i
            assert b[1, -1] == 2 * i + 1

    def test_batches_can_be_written(self):
        for x, _ in DataLoader(Wide(8), batch_size=2, num_workers=1):
            x.zero_()
            assert x.sum() == 0
        for x, _ in DataLoader(Numbers(8), batch_size=2, num_workers=1):
            x.add_(1)

    def test_tensors_of_a_batch_have_versions_of_their_own(self):
        """One may be changed while the graph needs the other."""

        class Pair(Numbers):
            def __getitem__(self, i):
                return torch.full((20_000,), float(i)), torch.full((20_000,), float(i))

        for a, b in DataLoader(Pair(2), batch_size=2, num_workers=1):
            w = torch.ones(20_000, requires_grad=True)
            loss = (a * w).sum()
            b.zero_()
            loss.backward()
            assert w.grad[0] == 1

    def test_kinds_of_data(self):
        class Mixed(Numbers):
            def __getitem__(self, i):
                return {
                    "bf16": torch.ones(5000, dtype=torch.bfloat16),
                    "bool": torch.tensor([True, False]),
                    "empty": torch.zeros(0),
                    "text": "x" * i,
                    "array": np.full(3000, i),
                }

        (batch,) = DataLoader(Mixed(4), batch_size=4, num_workers=1)
        assert batch["bf16"].dtype is torch.bfloat16
        assert batch["bool"].tolist() == [[True, False]] * 4
        assert batch["empty"].shape == (4, 0)
        assert batch["text"] == ["", "x", "xx", "xxx"]
        assert batch["array"][3, 0] == 3

    def test_what_a_collate_function_returns(self):
        def collate(samples):
            t = torch.arange(40_000).reshape(2, 20_000).t()
            leaf = torch.ones(3, requires_grad=True)
            leaf.note = "mine"
            array = np.arange(50_000.0)
            return [t, leaf, array, array[::2], torch.nn.Parameter(torch.ones(2)), None, {"s": {1}}]

        (batch,) = DataLoader(range(2), batch_size=2, num_workers=1, collate_fn=collate)
        assert batch[0].stride() == (1, 20_000)
        assert batch[0][2, 1] == 20_002
        assert batch[1].requires_grad
        assert batch[1].note == "mine"
        batch[2][0] = 5
        assert batch[3][1] == 2
        assert type(batch[4]) is torch.nn.Parameter
        assert batch[5:] == [None, {"s": {1}}]

    def test_many_texts(self):
        class Texts(Numbers):
            def __getitem__(self, i):
                return "word " * 10_000

        batches = list(DataLoader(Texts(20), batch_size=5, num_workers=2))
        assert [len(b) for b in batches] == [5] * 4
        assert batches[3][4] == "word " * 10_000

    def test_long_lists_of_indices(self):
        """Requests larger than a connection holds."""
        dataset = TensorDataset(torch.arange(300_000))
        batches = list(DataLoader(dataset, batch_size=100_000, num_workers=2, prefetch_factor=3))
        assert [int(b[0][0]) for b in batches] == [0, 100_000, 200_000]

    def test_any_order(self):
        class Uneven(Numbers):
            def __getitem__(self, i):
                if i == 0:
                    time.sleep(1.0)
                return i

        loader = DataLoader(Uneven(12), batch_size=1, num_workers=2, in_order=False)
        found = [b.item() for b in loader]
        assert sorted(found) == list(range(12))
        assert found[0] != 0
        loader = DataLoader(Uneven(4), batch_size=1, num_workers=2)
        assert [b.item() for b in loader] == [0, 1, 2, 3]

    def test_without_batches(self):
        found = [i for _, i in DataLoader(Numbers(5), batch_size=None, num_workers=2)]
        assert found == [0, 1, 2, 3, 4]

    def test_more_workers_than_batches(self):
        assert len(list(DataLoader(Numbers(2), num_workers=5))) == 2
        assert list(DataLoader([], num_workers=2)) == []


class Shards(IterableDataset):
    def __init__(self, lengths):
        self.lengths = lengths

    def __iter__(self):
        info = get_worker_info()
        assert info.dataset is self
        return iter(range(100 * info.id, 100 * info.id + self.lengths[info.id]))


class TestStreams:
    def test_each_worker_has_its_own(self):
        loader = DataLoader(Shards([3, 6]), batch_size=2, num_workers=2)
        assert [b.tolist() for b in loader] == [[0, 1], [100, 101], [2], [102, 103], [104, 105]]

    @pytest.mark.parametrize("lengths", [[0, 0], [0, 5], [5, 0], [1, 1, 9], [9, 1, 0]])
    @pytest.mark.parametrize("persistent", [False, True])
    def test_any_lengths(self, lengths, persistent):
        n = len(lengths)
        loader = DataLoader(
            Shards(lengths), batch_size=2, num_workers=n, persistent_workers=persistent
        )
        for _ in range(2):
            found = sorted(i for b in loader for i in b.tolist())
            assert found == sorted(100 * w + i for w, k in enumerate(lengths) for i in range(k))

    def test_length_warnings(self):
        class Said(Shards):
            def __len__(self):
                return 2

        loader = DataLoader(Said([2, 2]), batch_size=None, num_workers=2)
        assert len(loader) == 2
        with pytest.warns(UserWarning, match="replica at each worker"):
            assert len(list(loader)) == 4


class Draws(Numbers):
    def __getitem__(self, i):
        info = get_worker_info()
        return (
            torch.rand(1).item(),
            random.random(),
            np.random.rand(),  # noqa: NPY002
            info.seed,
            info.id,
            info.num_workers,
            torch.get_num_threads(),
        )


def draws(seed, **options):
    torch.manual_seed(seed)
    loader = DataLoader(Draws(8), batch_size=None, num_workers=2, **options)
    return list(loader)


class TestSeeds:
    def test_equal_seeds_give_equal_draws(self):
        assert draws(1) == draws(1)
        a, b = draws(1), draws(2)
        assert all(x[k] != y[k] for x, y in zip(a, b, strict=True) for k in range(3))

    def test_workers_and_epochs_differ(self):
        first = draws(1)
        assert len({d[0] for d in first}) == len({d[1] for d in first}) == 8
        assert len({d[2] for d in first}) == 8
        loader = DataLoader(Draws(4), batch_size=None, num_workers=2)
        assert [d[0] for d in loader] != [d[0] for d in loader]

    def test_what_a_worker_knows(self):
        found = draws(3)
        seeds = {d[4]: d[3] for d in found}
        assert seeds[1] == seeds[0] + 1
        assert {d[5] for d in found} == {2}
        assert {d[6] for d in found} == {1}
        assert get_worker_info() is None

    def test_init_functions_run_after_seeding(self):
        def init(worker):
            assert get_worker_info().id == worker
            torch.manual_seed(7)

        found = draws(1, worker_init_fn=init)
        assert found[0][0] == found[1][0]


class TestPersistentWorkers:
    def test_processes_stay(self):
        class Pid(Numbers):
            def __getitem__(self, i):
                return os.getpid()

        loader = DataLoader(Pid(4), num_workers=2, persistent_workers=True)
        epochs = [{b.item() for b in loader} for _ in range(3)]
        assert epochs[0] == epochs[1] == epochs[2]
        assert len(epochs[0]) == 2
        del loader

    def test_abandoned_epochs(self):
        loader = DataLoader(Wide(20), batch_size=2, num_workers=2, persistent_workers=True)
        for stop in (0, 3, 7):
            for k, (_, labels) in enumerate(loader):
                if k == stop:
                    assert labels.tolist() == [2 * stop, 2 * stop + 1]
                    break
        assert [b[1].tolist() for b in loader] == [[2 * k, 2 * k + 1] for k in range(10)]
        del loader, labels

    def test_segments_are_used_again(self):
        loader = DataLoader(Wide(200), batch_size=2, num_workers=1, persistent_workers=True)
        for _ in loader:
            pass
        count = len(loader._iterator._workers[0].end._segments)
        for _ in loader:
            pass
        assert len(loader._iterator._workers[0].end._segments) == count <= 5
        del loader

    def test_a_new_start_after_a_death(self):
        class Fragile(Numbers):
            def __getitem__(self, i):
                if i == 3 and os.path.exists(self.mark):
                    os.unlink(self.mark)
                    os.kill(os.getpid(), signal.SIGKILL)
                return i

        dataset = Fragile(6)
        dataset.mark = f"/tmp/rushlight-mark-{os.getpid()}"
        with open(dataset.mark, "w"):
            pass
        loader = DataLoader(dataset, num_workers=1, persistent_workers=True)
        with pytest.raises(RuntimeError, match="exited unexpectedly"):
            list(loader)
        assert [b.item() for b in loader] == list(range(6))
        del loader


class Own(Exception):
    pass


class Picky(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


class Failing(Numbers):
    def __init__(self, make):
        super().__init__(4)
        self.make = make

    def __getitem__(self, i):
        if i == 2:
            raise self.make()
        return i


class TestErrors:
    @pytest.mark.parametrize(
        ("make", "kind"),
        [
            (lambda: ValueError("text of mine"), ValueError),
            (lambda: KeyError("text of mine"), KeyError),
            (lambda: Own("text of mine"), Own),
            (lambda: Picky(1, "text of mine"), RuntimeError),
            (lambda: type("Local", (Exception,), {})("text of mine"), RuntimeError),
            (lambda: FileNotFoundError(2, "text of mine"), FileNotFoundError),
        ],
        ids=["value", "key", "own", "two arguments", "local class", "file"],
    )
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    def test_exceptions_come_with_their_traceback(self, make, kind):
        with pytest.raises(kind) as caught:
            list(DataLoader(Failing(make), num_workers=2))
        text = str(caught.value)
        assert (
            "in DataLoader worker process 0.\nOriginal Traceback (most recent call last):" in text
        )
        assert "raise self.make()" in text
        assert "text of mine" in text
        del caught

    def test_the_other_batches_still_come(self):
        iterator = iter(DataLoader(Failing(lambda: ValueError("x")), num_workers=2))
        assert [next(iterator).item() for _ in range(2)] == [0, 1]
        with contextlib.suppress(ValueError):
            next(iterator)
        assert next(iterator).item() == 3
        assert list(iterator) == []

    def test_in_init_collate_and_iter(self):
        def bad(*args):
            raise Own("from here")

        class BadStream(IterableDataset):
            def __iter__(self):
                raise Own("from here")

        for loader in (
            DataLoader(Numbers(), num_workers=1, worker_init_fn=bad),
            DataLoader(Numbers(), num_workers=1, collate_fn=bad),
            DataLoader(BadStream(), num_workers=1),
        ):
            with pytest.raises(Own, match="from here"):
                list(loader)

    def test_batches_that_cannot_be_pickled(self):
        with pytest.raises(Exception, match="sending its batch"):
            list(DataLoader(range(2), num_workers=1, collate_fn=lambda b: lambda: b))
        grad = torch.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="Cowardly refusing"):
            list(DataLoader(range(2), num_workers=1, collate_fn=lambda b: grad * 2))

    def test_classes_that_only_the_worker_has(self):
        class Hidden(Numbers):
            def __getitem__(self, i):
                module = types.ModuleType("only_here")
                module.Error = type("Error", (ValueError,), {"__module__": "only_here"})
                sys.modules["only_here"] = module
                raise module.Error("text of mine")

        with pytest.raises(RuntimeError, match=r"Caught Error in(.|\n)*text of mine"):
            list(DataLoader(Hidden(), num_workers=1))

    def test_datasets_that_cannot_be_pickled(self):
        dataset = Numbers()
        dataset.function = lambda: 1
        with pytest.raises(Exception, match="pickle"):
            iter(DataLoader(dataset, num_workers=1, multiprocessing_context="spawn"))

    def test_deaths(self):
        class Dying(Numbers):
            def __getitem__(self, i):
                if i == 2:
                    os.kill(os.getpid(), signal.SIGKILL)
                return i

        with pytest.raises(RuntimeError, match=r"pid\(s\) \d+\) exited unexpectedly.*SIGKILL"):
            list(DataLoader(Dying(), num_workers=2))

        class Leaving(Numbers):
            def __getitem__(self, i):
                os._exit(4)

        with pytest.raises(RuntimeError, match="exited unexpectedly with exit code 4"):
            list(DataLoader(Leaving(), num_workers=1))

    def test_timeouts(self, monkeypatch):
        monkeypatch.setattr(workers, "_PATIENCE", 0.1)

        class Slow(Numbers):
            def __getitem__(self, i):
                time.sleep(100 * i)
                return i

        iterator = iter(DataLoader(Slow(2), num_workers=1, timeout=2))
        assert next(iterator).item() == 0
        with pytest.raises(RuntimeError, match=r"timed out after 2 seconds"):
            next(iterator)
        del iterator


def test_forks_beside_our_threads_do_not_warn(monkeypatch):
    def fork(real=os.fork):
        text = "This process (pid=1) is multi-threaded, use of fork() may lead to deadlocks"
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return real()

    monkeypatch.setattr(os, "fork", fork)
    monkeypatch.setattr(workers, "_FORK_WARNS", True)
    filters = list(warnings.filters)
    context = multiprocessing.get_context("fork")
    loader = DataLoader(Numbers(4), num_workers=1, multiprocessing_context=context)
    assert len(list(loader)) == 4
    assert warnings.filters == filters


class TestEnds:
    def test_an_iterator_that_is_left(self):
        iterator = iter(DataLoader(Wide(100), batch_size=2, num_workers=2))
        next(iterator)
        processes = [w.process for w in iterator._workers]
        del iterator
        gc.collect()
        assert all(p.exitcode == 0 for p in processes)

    def test_workers_that_do_not_listen(self, monkeypatch):
        monkeypatch.setattr(workers, "_PATIENCE", 0.3)

        class Deaf(Numbers):
            def __getitem__(self, i):
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                while True:
                    time.sleep(1)

        iterator = iter(DataLoader(Deaf(), num_workers=1))
        (worker,) = iterator._workers
        process = worker.process
        time.sleep(0.2)
        start = time.monotonic()
        del iterator, worker
        assert process.exitcode == -signal.SIGKILL
        assert time.monotonic() - start < 4

    def test_in_a_fork_of_the_main_process(self):
        """A child that inherits the iterator leaves the workers alone."""
        iterator = iter(DataLoader(Numbers(8), num_workers=1))
        next(iterator)
        child = multiprocessing.get_context("fork").Process(target=iterator.__del__)
        child.start()
        child.join()
        assert child.exitcode == 0
        assert len(list(iterator)) == 7


def run(program, **options):
    return subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        **options,
    )


def wait_until_gone(pids):
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline, f"{pids} still run"
        time.sleep(0.02)


PROGRAM = """
import os, sys, time
import rushlight as torch
from rushlight.utils.data import DataLoader
from spawned import Numbers

loader = DataLoader(Numbers(10**6, 20_000), batch_size=4, num_workers=2, persistent_workers={keep})
iterator = iter(loader)
next(iterator)
print(*[w.process.pid for w in iterator._workers], flush=True)
"""


class TestMainProcess:
    @pytest.mark.parametrize("keep", [False, True])
    def test_its_exit(self, keep):
        process = run(PROGRAM.format(keep=keep))
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0
        assert err == ""
        wait_until_gone(out.split())

    def test_its_death(self):
        process = run(PROGRAM.format(keep=False) + "os.kill(os.getpid(), 9)")
        out, err = process.communicate(timeout=30)
        assert err == ""
        wait_until_gone(out.split())

    def test_an_uncaught_error(self):
        process = run(PROGRAM.format(keep=False) + "raise SystemError('mine')")
        out, err = process.communicate(timeout=30)
        assert err.splitlines()[-1] == "SystemError: mine"
        wait_until_gone(out.split())

    def test_ctrl_c(self):
        """It goes to the whole group; only the main program speaks of it."""
        process = run(
            PROGRAM.format(keep=False) + "for b in iterator: pass", start_new_session=True
        )
        pids = process.stdout.readline().split()
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=30)
        assert err.splitlines()[-1] == "KeyboardInterrupt"
        assert err.count("Traceback") == 1
        wait_until_gone(pids)

    def test_ctrl_c_that_the_program_handles(self):
        program = PROGRAM.format(keep=False) + (
            "import signal\n"
            "stop = []\n"
            "signal.signal(signal.SIGINT, lambda *_: stop.append(1))\n"
            "print('set', flush=True)\n"
            "after = 0\n"
            "for b in iterator:\n"
            "    after += bool(stop)\n"
            "    if after > 20: break\n"
            "print('done')\n"
        )
        process = run(program, start_new_session=True)
        pids = process.stdout.readline().split()
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert (out, err) == ("done\n", "")
        wait_until_gone(pids)

    def test_ctrl_c_before_a_worker_runs(self):
        slow = (
            "import os, signal, time\n"
            "signal.signal(signal.SIGINT, lambda *_: None)\n"
            "def linger():\n"
            "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            "    print('forked', flush=True)\n"
            "    time.sleep(0.5)\n"
            "os.register_at_fork(after_in_child=linger)\n"
        )
        process = run(slow + PROGRAM.format(keep=False), start_new_session=True)
        process.stdout.readline()
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=30)
        assert err == ""
        wait_until_gone(out.splitlines()[-1].split())
