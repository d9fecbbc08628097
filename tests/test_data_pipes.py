"""Data pipes: passes that end others, files, copies, and parts for workers."""

import os
import pickle
import subprocess
import sys

import pytest

import rushlight as torch
from processes import needs_mpi, run
from rushlight.utils import data
from rushlight.utils.data.datapipes.iter import FileLister, FileOpener, IterableWrapper
from rushlight.utils.data.graph_settings import apply_sharding


def test_a_pass_ends_the_one_before_it():
    pipe = IterableWrapper(range(3)).map(float)
    first = iter(pipe)
    assert next(first) == 0.0
    assert list(pipe) == [0.0, 1.0, 2.0]
    with pytest.raises(RuntimeError, match="has been invalidated"):
        next(first)


def test_a_part_that_begins_again_ends_the_others():
    a, b = IterableWrapper(range(3)).fork(2)
    assert [next(iter(a)), list(b)] == [0, [0, 1, 2]]
    first = iter(b)
    next(first)
    list(b)
    with pytest.raises(RuntimeError, match="has been invalidated"):
        next(first)


def test_an_error_names_the_steps_it_came_through():
    pipe = IterableWrapper([1, 0]).map(lambda x: 1 / x).batch(2)
    with pytest.raises(ZeroDivisionError) as caught:
        list(pipe)
    notes = caught.value.__notes__
    assert [note.split()[-1] for note in notes] == ["MapperIterDataPipe", "BatcherIterDataPipe"]


def test_what_cannot_be_copied_is_told():
    pipe = IterableWrapper(x for x in range(2))
    with pytest.warns(UserWarning, match="can not be deepcopied"):
        assert list(pipe) == [0, 1]


def test_steps_of_a_program():
    @data.functional_datapipe("doubled_for_this_test")
    class Doubled(data.IterDataPipe):
        def __init__(self, source):
            self.source, self.passes = source, 0

        def reset(self):
            self.passes += 1

        def __iter__(self):
            for x in self.source:
                yield 2 * x

    try:
        pipe = IterableWrapper(range(3)).doubled_for_this_test()
        assert (list(pipe), list(pipe), pipe.passes) == ([0, 2, 4], [0, 2, 4], 2)
        assert "doubled_for_this_test" in dir(pipe)
        with pytest.raises(TypeError, match="expected a class of IterDataPipes"):
            data.functional_datapipe("x")(int)
    finally:
        del data.IterDataPipe.functions["doubled_for_this_test"]


def test_a_pipe_that_is_its_own_iterator():
    class Counts(data.IterDataPipe):
        def reset(self):
            self.count = 0

        def __next__(self):
            self.count += 1
            if self.count > 2:
                raise StopIteration
            return self.count

    pipe = Counts()
    assert (list(pipe), list(pipe.map(str))) == ([1, 2], ["1", "2"])


def test_only_what_is_deterministic_is_made():
    with data.guaranteed_datapipes_determinism():
        FileLister(".")
        with pytest.raises(TypeError, match="is non-deterministic"):
            FileLister(".", non_deterministic=True)
    FileLister(".", non_deterministic=True)
    with pytest.raises(TypeError, match="Only `IterDataPipe`"):
        data.non_deterministic(int)


def test_pipes_are_pickled():
    a, b = IterableWrapper(range(4)).shuffle().set_seed(1).batch(2).fork(2)
    again = pickle.loads(pickle.dumps([a, b]))
    assert [list(x) for x in again] == [list(a), list(b)]


class TestFiles:
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "sub").mkdir()
        (tmp_path / "b.txt").write_text("two")
        (tmp_path / "a.txt").write_text("one")
        (tmp_path / "c.csv").write_text("1")
        (tmp_path / "sub" / "d.txt").write_text("three")
        return tmp_path

    def test_names(self, folder):
        def names(*args, **options):
            return [os.path.relpath(p, folder) for p in FileLister(str(folder), *args, **options)]

        assert names() == ["a.txt", "b.txt", "c.csv"]
        assert names("*.txt", recursive=True) == ["a.txt", "b.txt", "sub/d.txt"]
        assert names(["a*", "*.csv"]) == ["a.txt", "c.csv"]
        assert len(FileLister(str(folder), length=3)) == 3
        with pytest.raises(TypeError, match="valid length"):
            len(FileLister(str(folder)))
        with pytest.raises(FileNotFoundError):
            list(FileLister(str(folder / "nowhere")))

    def test_contents(self, folder):
        files = IterableWrapper([str(folder)]).list_files("*.txt").open_files()
        texts = list(files.read_from_stream())
        assert [text for _, text in texts] == ["one", "two"]
        pieces = FileOpener([str(folder / "a.txt")], mode="b").read_from_stream(chunk=2)
        assert [piece for _, piece in pieces] == [b"on", b"e"]
        _, stream = next(iter(FileOpener([str(folder / "a.txt")])))
        with stream:
            assert list(stream) == ["one"]
        assert stream.closed


class TestParts:
    def test_two_divisions_lose_samples(self):
        pipe = IterableWrapper(range(4)).sharding_filter().batch(1).sharding_filter()
        with pytest.raises(RuntimeError, match="Sharding twice"):
            apply_sharding(pipe, 2, 0)

    def test_processes_first_and_then_workers(self):
        from rushlight.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES as PRIORITIES

        found = []
        for rank in range(2):
            for worker in range(2):
                pipe = IterableWrapper(range(8)).sharding_filter()
                pipe.apply_sharding(2, worker, PRIORITIES.MULTIPROCESSING)
                pipe.apply_sharding(2, rank, PRIORITIES.DISTRIBUTED)
                found.append(list(pipe))
        assert found == [[0, 4], [2, 6], [1, 5], [3, 7]]
        with pytest.raises(RuntimeError, match="cannot mix"):
            pipe.apply_sharding(2, 0)

    def test_a_loader_shuffles_where_nothing_else_does(self):
        torch.manual_seed(0)
        with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
            loader = data.DataLoader(IterableWrapper(range(99)), batch_size=99, shuffle=True)
        (order,) = loader
        assert order.tolist() != list(range(99))
        assert sorted(order.tolist()) == list(range(99))


def divided(rank, size):
    torch.manual_seed(rank)
    found = []
    for workers in (0, 2):
        pipe = IterableWrapper(range(8)).shuffle().sharding_filter()
        loader = data.DataLoader(pipe, batch_size=None, num_workers=workers)
        found.append([int(x) for x in loader])
    return found


@needs_mpi
def test_processes_of_a_group_shuffle_alike_and_take_parts():
    for parts in zip(*run(divided, 2), strict=True):
        assert [len(part) for part in parts] == [4, 4]
        assert sorted(parts[0] + parts[1]) == list(range(8))


def test_pipes_are_loaded_when_they_are_used():
    program = """
import sys
import rushlight.utils.data as data
list(data.DataLoader([1, 2]))
assert not any("datapipes" in name for name in sys.modules)
assert issubclass(data.IterDataPipe, data.IterableDataset)
assert list(data.datapipes.iter.IterableWrapper("ab")) == ["a", "b"]
"""
    subprocess.run([sys.executable, "-c", program], check=True)
