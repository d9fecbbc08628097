"""Data loading as in PyTorch: the same batches under the same random numbers, the same errors."""

import collections
import itertools
import warnings

import numpy as np
import pytest
import torch
import torch.utils.data

import rushlight
import rushlight.utils.data
from oracle.harness import run, same

LIBRARIES = (rushlight, torch)


def both(program):
    """What the program gives with each library, under the same random numbers."""
    with rushlight.random.torch_streams():
        ours = run(program, rushlight)
    return ours, run(program, torch)


def assert_same(program):
    ours, theirs = both(program)
    assert (ours.error is None) == (theirs.error is None), (ours, theirs)
    if theirs.error is None:
        assert same(ours.value, theirs.value), (ours, theirs)
    else:
        assert type(ours.error) is type(theirs.error), (ours, theirs)
    return ours, theirs


def dataset(library, length=23):
    rows = library.arange(length * 3.0).reshape(length, 3)
    return library.utils.data.TensorDataset(rows, library.arange(length))


SHUFFLES = {
    "plain": {},
    "shuffled": {"shuffle": True},
    "drop_last": {"shuffle": True, "drop_last": True},
    "single": {"shuffle": True, "batch_size": None},
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("generator", [False, True])
@pytest.mark.parametrize("options", SHUFFLES.values(), ids=SHUFFLES.keys())
def test_batches_of_two_epochs(options, generator, workers):
    def program(library):
        library.manual_seed(3)
        chosen = library.Generator().manual_seed(5) if generator else None
        loader = library.utils.data.DataLoader(
            dataset(library),
            **{"batch_size": 4, **options},
            generator=chosen,
            num_workers=workers,
        )
        return [list(loader), list(loader), library.rand(2)]

    assert_same(program)


@pytest.mark.parametrize("persistent", [False, True])
def test_random_numbers_in_workers(persistent):
    def program(library):
        class Draws(library.utils.data.Dataset):
            def __len__(self):
                return 9

            def __getitem__(self, index):
                info = library.utils.data.get_worker_info()
                return library.rand(2), np.random.rand(), info.seed  # noqa: NPY002

        library.manual_seed(1)
        loader = library.utils.data.DataLoader(
            Draws(), batch_size=2, num_workers=2, persistent_workers=persistent
        )
        return [list(loader), list(loader)]

    assert_same(program)


SAMPLERS = {
    "random": lambda d: d.RandomSampler(range(10)),
    "more": lambda d: d.RandomSampler(range(10), num_samples=25),
    "exactly twice": lambda d: d.RandomSampler(range(10), num_samples=20),
    "replacement": lambda d: d.RandomSampler(range(10), True, 70),
    "subset": lambda d: d.SubsetRandomSampler([5, 1, 9, 7]),
    "weighted": lambda d: d.WeightedRandomSampler([0.1, 2.0, 0.5, 0.0], 30),
    "weighted once": lambda d: d.WeightedRandomSampler([0.1, 2.0, 0.5, 1.0], 3, False),
    "distributed": lambda d: d.DistributedSampler(range(11), 3, 1, seed=2),
    "batches": lambda d: d.BatchSampler(d.RandomSampler(range(10)), 3, True),
    "few for many": lambda d: d.DistributedSampler(range(2), 5, 3, shuffle=False),
}


@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS.keys())
def test_samplers(make):
    def program(library):
        library.manual_seed(11)
        sampler = make(library.utils.data)
        return [list(sampler), list(sampler), len(sampler), library.rand(1)]

    assert_same(program)


@pytest.mark.parametrize("lengths", [[3, 7], [0.5, 0.5], [0.33, 0.33, 0.34], [0.9, 0.1], [10]])
def test_random_split(lengths):
    def program(library):
        library.manual_seed(4)
        split = library.utils.data.random_split
        g = library.Generator().manual_seed(1)
        return [
            [list(p.indices) for p in split(range(10), lengths)],
            [list(p) for p in split(range(10), lengths, g)],
        ]

    assert_same(program)


Point = collections.namedtuple("Point", ["x", "y"])

BATCHES = {
    "ints": lambda t: [1, 2],
    "bools": lambda t: [True, False],
    "floats": lambda t: [1.5, 2.5],
    "mixed numbers": lambda t: [1, 2.5],
    "texts": lambda t: ["a", "b"],
    "bytes": lambda t: [b"a", b"b"],
    "tensors": lambda t: [t.ones(2), t.zeros(2)],
    "tuples": lambda t: [(1, t.ones(2)), (2, t.zeros(2))],
    "named": lambda t: [Point(1, "a"), Point(2, "b")],
    "lists": lambda t: [[1, 2.0], [3, 4.0]],
    "dicts": lambda t: [{"a": 1, "b": [1]}, {"a": 2, "b": [2]}],
    "ordered": lambda t: [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    "arrays": lambda t: [np.ones(2, np.float32), np.zeros(2, np.float32)],
    "array numbers": lambda t: [np.float32(1), np.float32(2)],
    "doubles": lambda t: [np.float64(1), np.float64(2)],
    "array bools": lambda t: [np.bool_(True), np.bool_(False)],
    "array ints": lambda t: [np.int16(1), np.int16(2)],
    "0-d arrays": lambda t: [np.array(1), np.array(2)],
    "ranges": lambda t: [range(2), range(2)],
    "0-d tensors": lambda t: [t.tensor(1), t.tensor(2)],
    "empty tensors": lambda t: [t.zeros(0, 2), t.zeros(0, 2)],
    "none": lambda t: [None, None],
    "objects": lambda t: [object(), object()],
    "nothing": lambda t: [],
    "unequal lists": lambda t: [[1], [1, 2]],
    "unequal tensors": lambda t: [t.zeros(1), t.zeros(2)],
    "different dtypes": lambda t: [t.zeros(1), t.zeros(1, dtype=t.int64)],
    "unequal keys": lambda t: [{"a": 1}, {"b": 1}],
    "more keys": lambda t: [{"a": 1}, {"a": 2, "b": 1}],
    "text arrays": lambda t: [np.array(["a"]), np.array(["b"])],
    "sets": lambda t: [{1}, {2}],
    "nested": lambda t: [{"a": (1, [t.ones(1)])}, {"a": (2, [t.zeros(1)])}],
}


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES.keys())
def test_collate(make):
    assert_same(lambda t: t.utils.data.default_collate(make(t)))


@pytest.mark.parametrize("make", BATCHES.values(), ids=BATCHES.keys())
def test_convert(make):
    if make(rushlight) and type(make(rushlight)[0]) is object:
        pytest.skip("objects have an address")
    assert_same(lambda t: t.utils.data.default_convert(make(t)))


OPTIONS = {
    "num_workers": [0, -1, 1],
    "timeout": [0, -1],
    "prefetch_factor": [None, 2, -1],
    "persistent_workers": [False, True],
    "batch_size": [1, None, 0, 2],
    "drop_last": [False, True],
    "shuffle": [None, True],
    "sampler": [None, [0]],
    "batch_sampler": [None, [[0]]],
    "multiprocessing_context": [None, "fork", "none"],
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(OPTIONS, 2)))
def test_every_pair_of_options(first, second, stream):
    """Accepted or refused as PyTorch does, with the start of its text."""
    for a, b in itertools.product(OPTIONS[first], OPTIONS[second]):

        def program(library, options={first: a, second: b}):  # noqa: B006
            class Stream(library.utils.data.IterableDataset):
                def __iter__(self):
                    return iter(range(3))

            source = Stream() if stream else range(3)
            return library.utils.data.DataLoader(source, **options).batch_size

        ours, theirs = assert_same(program)
        if theirs.error is not None:
            words = " ".join(str(theirs.error).split()[:6])
            assert " ".join(str(ours.error).split()).startswith(words), (ours, theirs)


def test_errors_of_workers():
    def program(library):
        class Bad(library.utils.data.Dataset):
            def __len__(self):
                return 3

            def __getitem__(self, index):
                raise ValueError("text of mine")

        return list(library.utils.data.DataLoader(Bad(), num_workers=1))

    ours, theirs = both(program)
    assert type(ours.error) is type(theirs.error) is ValueError
    head = "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback"
    assert str(ours.error).startswith(head)
    assert str(theirs.error).startswith(head)
    assert str(ours.error).splitlines()[-1] == str(theirs.error).splitlines()[-1]


def test_streams_over_workers():
    def program(library):
        class Shards(library.utils.data.IterableDataset):
            def __iter__(self):
                info = library.utils.data.get_worker_info()
                return iter(range(info.id, 11, info.num_workers))

        loader = library.utils.data.DataLoader(Shards(), batch_size=2, num_workers=2)
        return [b.tolist() for b in loader]

    assert_same(program)


def test_warnings():
    def texts(library, make):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            make(library.utils.data)
        return [(w.category, " ".join(str(w.message).split()[:8])) for w in caught]

    class Base:
        def __iter__(self):
            return iter(range(3))

        def __len__(self):
            return 1

        def __repr__(self):
            return "Stream"

    def too_long(d):
        stream = type("Stream", (Base, d.IterableDataset), {})()
        loader = d.DataLoader(stream, batch_size=None)
        len(loader)
        list(loader)

    for make in (
        lambda d: d.random_split(range(1), [0.9, 0.1]),
        lambda d: list(d.DataLoader(range(2), pin_memory=True)),
        lambda d: d.DataLoader(range(2), num_workers=999),
        too_long,
    ):
        assert texts(rushlight, make) == texts(torch, make)


def test_names():
    theirs = {n for n in torch.utils.data.__all__ if not n.startswith("_")}
    pipes = {n for n in theirs if "pipe" in n.lower() or "valid" in n or "determin" in n}
    assert theirs - pipes - {"DataChunk"} <= set(rushlight.utils.data.__all__)
    for module in ("dataset", "sampler", "dataloader", "distributed", "_utils"):
        assert hasattr(rushlight.utils.data, module)
