"""Datasets, samplers, collating and the loader without workers."""

import collections
import random

import numpy as np
import pytest

import rushlight as torch
from rushlight.utils import data
from rushlight.utils.data import DataLoader, TensorDataset
from spawned import Numbers


class Stream(data.IterableDataset):
    def __init__(self, length, said=None):
        self.length = length
        self.said = said

    def __iter__(self):
        return iter(range(self.length))

    def __len__(self):
        if self.said is None:
            raise TypeError("no length")
        return self.said


class TestDatasets:
    def test_tensors(self):
        dataset = TensorDataset(torch.arange(6).reshape(3, 2), torch.arange(3))
        assert len(dataset) == 3
        assert [t.tolist() for t in dataset[1]] == [[2, 3], 1]
        assert [t.tolist() for t in dataset[-1]] == [[4, 5], 2]
        assert [len(t) for t in dataset[:2]] == [2, 2]
        with pytest.raises(AssertionError, match=r"Size mismatch between tensors.*\[3, 2\]"):
            TensorDataset(torch.zeros(3), torch.zeros(2))
        with pytest.raises(IndexError):
            dataset[3]

    def test_stacked(self):
        assert data.StackDataset([1, 2], "ab")[1] == (2, "b")
        assert data.StackDataset(x=[1, 2], y="ab").__getitems__([0, 1]) == [
            {"x": 1, "y": "a"},
            {"x": 2, "y": "b"},
        ]
        inner = data.Subset([5, 6, 7], [2, 0])
        assert data.StackDataset(inner, "ab").__getitems__([1, 0]) == [(5, "b"), (7, "a")]
        with pytest.raises(ValueError, match="Size mismatch"):
            data.StackDataset([1], [1, 2])
        with pytest.raises(ValueError, match="both types"):
            data.StackDataset([1], x=[1])
        with pytest.raises(ValueError, match="At least one"):
            data.StackDataset()

        class Short(list):
            def __getitems__(self, indices):
                return [0]

        with pytest.raises(ValueError, match="output size mismatch"):
            data.StackDataset(Short([1, 2])).__getitems__([0, 1])

    def test_concatenated(self):
        dataset = Numbers(3) + Numbers(2)
        assert isinstance(dataset, data.ConcatDataset)
        assert [dataset[i][1] for i in range(5)] == [0, 1, 2, 0, 1]
        assert dataset[-1][1] == 1
        assert dataset.cumulative_sizes == [3, 5]
        for bad in (5, 100):
            with pytest.raises(IndexError):
                dataset[bad]
        with pytest.raises(ValueError, match="absolute value"):
            dataset[-6]
        with pytest.raises(AssertionError, match="empty iterable"):
            data.ConcatDataset([])
        with pytest.raises(AssertionError, match="IterableDataset"):
            data.ConcatDataset([Stream(3)])

    def test_chained(self):
        chain = Stream(2, 2) + Stream(3, 3)
        assert list(chain) == [0, 1, 0, 1, 2]
        assert len(chain) == 5
        with pytest.raises(AssertionError, match="only supports IterableDataset"):
            list(data.ChainDataset([[1]]))

    def test_subset(self):
        subset = data.Subset(Numbers(10), [3, 5, 7])
        assert subset[1][1] == 5
        assert [s[1] for s in subset.__getitems__([2, 0])] == [7, 3]
        assert len(subset) == 3

        class Half(data.Subset):
            def __getitem__(self, index):
                return 0

        with pytest.raises(NotImplementedError, match="__getitems__"):
            Half([1], [0])

    def test_bases_say_what_is_missing(self):
        with pytest.raises(NotImplementedError, match="__getitem__"):
            data.Dataset()[0]
        with pytest.raises(NotImplementedError, match="__iter__"):
            iter(data.IterableDataset())
        with pytest.raises(NotImplementedError, match="__iter__"):
            iter(data.Sampler())

    def test_generic_aliases(self):
        assert issubclass(data.Dataset[int].__origin__, data.Dataset)
        assert issubclass(data.DataLoader[int].__origin__, DataLoader)


class TestRandomSplit:
    def test_lengths(self):
        parts = data.random_split(range(10), [3, 5, 2])
        assert [len(p) for p in parts] == [3, 5, 2]
        assert sorted(x for p in parts for x in p) == list(range(10))

    @pytest.mark.parametrize(
        ("fractions", "size", "expected"),
        [([0.5, 0.5], 5, [3, 2]), ([0.7, 0.2, 0.1], 10, [7, 2, 1]), ([1.0], 3, [3])],
    )
    def test_fractions(self, fractions, size, expected):
        assert [len(p) for p in data.random_split(range(size), fractions)] == expected

    def test_generators(self):
        def split(seed):
            g = torch.Generator().manual_seed(seed)
            return [p.indices for p in data.random_split(range(20), [10, 10], g)]

        assert split(1) == split(1)
        assert split(1) != split(2)

    def test_errors(self):
        with pytest.raises(ValueError, match="Sum of input lengths"):
            data.random_split(range(3), [1, 1])
        with pytest.raises(ValueError, match="Fraction at index 0"):
            data.random_split(range(3), [1.5, -0.5])
        with pytest.warns(UserWarning, match="index 1 is 0"):
            data.random_split(range(1), [0.9, 0.1])


class TestSamplers:
    def test_random(self):
        assert sorted(data.RandomSampler(range(100))) == list(range(100))
        sampler = data.RandomSampler(range(10), num_samples=25)
        drawn = list(sampler)
        assert len(sampler) == len(drawn) == 25
        assert sorted(drawn[:10]) == sorted(drawn[10:20]) == list(range(10))
        drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=100))
        assert len(drawn) == 100
        assert set(drawn) == {0, 1, 2}

    def test_seeds_decide(self):
        torch.manual_seed(3)
        first = [list(data.RandomSampler(range(50))) for _ in range(2)]
        torch.manual_seed(3)
        assert [list(data.RandomSampler(range(50))) for _ in range(2)] == first
        assert first[0] != first[1]

    def test_weighted(self):
        sampler = data.WeightedRandomSampler([0.0, 2.0, 1.0], 3000)
        counts = collections.Counter(sampler)
        assert counts[0] == 0
        assert 1800 < counts[1] < 2200
        assert sorted(data.WeightedRandomSampler([1.0, 1.0, 1.0], 3, replacement=False)) == [
            0,
            1,
            2,
        ]

    def test_subset(self):
        assert sorted(data.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]

    def test_batches(self):
        assert list(data.BatchSampler(range(5), 2, True)) == [[0, 1], [2, 3]]
        assert len(data.BatchSampler(range(5), 2, True)) == 2
        assert len(data.BatchSampler(range(5), 2, False)) == 3
        assert list(data.BatchSampler(range(4), 2, False)) == [[0, 1], [2, 3]]

    @pytest.mark.parametrize("drop_last", [False, True])
    @pytest.mark.parametrize("size", [1, 7, 8, 9])
    def test_distributed(self, size, drop_last):
        parts = [
            list(data.DistributedSampler(range(size), 4, r, shuffle=False, drop_last=drop_last))
            for r in range(4)
        ]
        assert len({len(p) for p in parts}) == 1
        together = {i for p in parts for i in p}
        assert together == set(range(size - size % 4 if drop_last else size))

    def test_distributed_epochs(self):
        sampler = data.DistributedSampler(range(20), 2, 0, seed=1)
        first = list(sampler)
        assert list(sampler) == first
        sampler.set_epoch(1)
        assert list(sampler) != first

    def test_errors(self):
        with pytest.raises(ValueError, match="num_samples=0"):
            data.RandomSampler([])
        with pytest.raises(TypeError, match="replacement=1"):
            data.RandomSampler([1], replacement=1)
        with pytest.raises(ValueError, match="positive integer"):
            data.WeightedRandomSampler([1.0], 0)
        with pytest.raises(ValueError, match="1d sequence"):
            data.WeightedRandomSampler([[1.0]], 1)
        with pytest.raises(ValueError, match="batch_size=True"):
            data.BatchSampler([1], True, False)
        with pytest.raises(ValueError, match="drop_last=3"):
            data.BatchSampler([1], 1, 3)
        with pytest.raises(ValueError, match="process group has not been initialized"):
            data.DistributedSampler([1])
        with pytest.raises(ValueError, match="Invalid rank 2"):
            data.DistributedSampler([1], 2, 2)


Point = collections.namedtuple("Point", ["x", "y"])


class Bag(dict):
    extra = 0


class TestCollate:
    def test_numbers_and_texts(self):
        assert data.default_collate([1, 2]).dtype is torch.int64
        assert data.default_collate([True, False]).dtype is torch.bool
        assert data.default_collate([1.0, 2.0]).dtype is torch.float64
        assert data.default_collate(["a", "b"]) == ["a", "b"]
        assert data.default_collate([b"a"]) == [b"a"]

    def test_numpy(self):
        batch = data.default_collate([np.ones(2, np.float32), np.zeros(2, np.float32)])
        assert batch.dtype is torch.float32
        assert batch.shape == (2, 2)
        assert data.default_collate([np.float32(1), np.float32(2)]).dtype is torch.float32
        assert data.default_collate([np.float64(1)]).dtype is torch.float64
        assert data.default_collate([np.bool_(True)]).dtype is torch.bool
        with pytest.raises(TypeError, match="must contain tensors"):
            data.default_collate([np.array(["a"])])
        assert data.default_convert(np.array(["a"])).dtype.kind == "U"
        assert data.default_convert(np.arange(3)).tolist() == [0, 1, 2]

    def test_containers_keep_their_kind(self):
        batch = data.default_collate([Point(1, [2.0, "a"]), Point(3, [4.0, "b"])])
        assert type(batch) is Point
        assert batch.x.tolist() == [1, 3]
        assert batch.y[1] == ("a", "b")
        bag = Bag(a=1)
        bag.extra = 5
        batch = data.default_collate([bag, Bag(a=2)])
        assert type(batch) is Bag
        assert batch.extra == 5
        assert batch["a"].tolist() == [1, 2]
        assert type(data.default_convert(Point(1, (2, 3)))) is Point
        assert data.default_convert((1, 2)) == [1, 2]
        assert data.default_convert({"a": (1,)}) == {"a": [1]}
        assert data.default_convert(range(2)) == [0, 1]

    def test_errors(self):
        with pytest.raises(TypeError, match=r"must contain tensors.*object"):
            data.default_collate([object()])
        with pytest.raises(RuntimeError, match="equal size"):
            data.default_collate([(1, 2), (1,)])
        with pytest.raises(RuntimeError, match="stack"):
            data.default_collate([torch.zeros(2), torch.zeros(3)])
        with pytest.raises(IndexError):
            data.default_collate([])

    def test_the_map_can_be_extended(self):
        from rushlight.utils.data._utils import collate

        kept = dict(collate.default_collate_fn_map)
        try:
            collate.default_collate_fn_map[torch.Tensor] = lambda batch, **_: "mine"
            loader = DataLoader(TensorDataset(torch.zeros(2)), batch_size=2)
            assert next(iter(loader)) == ["mine"]
        finally:
            collate.default_collate_fn_map.clear()
            collate.default_collate_fn_map.update(kept)


class TestLoader:
    def test_batches(self):
        loader = DataLoader(Numbers(5), batch_size=2)
        assert len(loader) == 3
        batches = list(loader)
        assert [b[1].tolist() for b in batches] == [[0, 1], [2, 3], [4]]
        assert batches[1][0].tolist() == [[2.0] * 3, [3.0] * 3]
        assert len(DataLoader(Numbers(5), batch_size=2, drop_last=True)) == 2

    def test_without_batches(self):
        assert [s[1] for s in DataLoader(Numbers(3), batch_size=None)] == [0, 1, 2]
        assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]

    def test_shuffling_by_a_generator(self):
        def order(seed):
            g = torch.Generator().manual_seed(seed)
            loader = DataLoader(range(30), batch_size=30, shuffle=True, generator=g)
            return [b.tolist() for b in loader for _ in range(1)] + [next(iter(loader)).tolist()]

        assert order(1) == order(1)
        assert order(1)[0] != order(1)[1]
        assert order(1) != order(2)
        assert sorted(order(1)[0]) == list(range(30))

    def test_samplers(self):
        assert [b.tolist() for b in DataLoader(range(9), sampler=[3, 1])] == [[3], [1]]
        loader = DataLoader(range(9), batch_sampler=[[3, 1], [2]])
        assert [b.tolist() for b in loader] == [[3, 1], [2]]
        assert len(loader) == 2
        assert loader.batch_size is None

    def test_streams(self):
        loader = DataLoader(Stream(5), batch_size=2)
        assert [b.tolist() for b in loader] == [[0, 1], [2, 3], [4]]
        assert [b.tolist() for b in DataLoader(Stream(5), 2, drop_last=True)] == [[0, 1], [2, 3]]
        with pytest.raises(TypeError):
            len(loader)

    def test_lengths_of_streams(self):
        assert len(DataLoader(Stream(5, 5), batch_size=2)) == 3
        assert len(DataLoader(Stream(5, 5), batch_size=2, drop_last=True)) == 2
        assert len(DataLoader(Stream(5, 5), batch_size=None)) == 5
        loader = DataLoader(Stream(5, 2), batch_size=None)
        assert len(loader) == 2
        with pytest.warns(UserWarning, match="reported to be 2"):
            assert list(loader) == [0, 1, 2, 3, 4]

    def test_collate_functions(self):
        assert list(DataLoader(range(4), batch_size=2, collate_fn=sum)) == [1, 5]

    def test_datasets_that_fetch_many_at_once(self):
        class Many(Numbers):
            def __getitems__(self, indices):
                return [i * 10 for i in indices]

        assert next(iter(DataLoader(Many(), batch_size=3))).tolist() == [0, 10, 20]

    def test_pinned_memory_is_accepted(self):
        with pytest.warns(UserWarning, match="no accelerator"):
            list(DataLoader(range(2), pin_memory=True))

    def test_iterators_are_independent(self):
        loader = DataLoader(range(4))
        a, b = iter(loader), iter(loader)
        assert next(a).item() == next(b).item() == 0
        assert len(a) == 4
        with pytest.raises(NotImplementedError, match="cannot be pickled"):
            a.__getstate__()

    def test_an_empty_dataset(self):
        assert list(DataLoader([], batch_size=2)) == []
        with pytest.raises(ValueError, match="num_samples"):
            DataLoader([], shuffle=True)

    def test_the_users_error_is_its_own(self):
        class Bad(Numbers):
            def __getitem__(self, index):
                raise KeyError("boom")

        with pytest.raises(KeyError, match="boom"):
            list(DataLoader(Bad()))


class TestRowsAtOnce:
    """A TensorDataset is fetched by index_select: the batches are those of single rows."""

    def dataset(self):
        return TensorDataset(torch.arange(40.0).reshape(10, 4), torch.arange(10))

    @pytest.mark.parametrize("indices", [[3, 1, 4], [0], [-1, 2], [5, 5]])
    def test_equal_to_single_rows(self, indices):
        dataset = self.dataset()
        expected = data.default_collate([dataset[i] for i in indices])
        for source in (dataset, data.Subset(dataset, range(10))):
            batch = next(iter(DataLoader(source, batch_sampler=[indices])))
            assert type(batch) is list
            for a, b in zip(batch, expected, strict=True):
                assert torch.equal(a, b)

    def test_of_parts_of_parts(self):
        outer = data.Subset(data.Subset(self.dataset(), [9, 8, 7]), [2, 0])
        assert next(iter(DataLoader(outer, batch_size=2)))[1].tolist() == [7, 9]

    def test_batches_are_copies(self):
        dataset = self.dataset()
        for batch in DataLoader(dataset, batch_size=10):
            batch[0].zero_()
        assert dataset.tensors[0].sum() == 780

    def test_subclasses_keep_their_own_way(self):
        class Doubled(TensorDataset):
            def __getitem__(self, index):
                return super().__getitem__(index)[1] * 2

        loader = DataLoader(Doubled(torch.zeros(3), torch.arange(3)), batch_size=3)
        assert next(iter(loader)).tolist() == [0, 2, 4]

    def test_errors_are_those_of_single_rows(self):
        dataset = self.dataset()
        with pytest.raises(IndexError) as direct:
            dataset[10]
        with pytest.raises(IndexError) as batched:
            list(DataLoader(dataset, batch_sampler=[[1, 10]]))
        assert str(batched.value) == str(direct.value)

    def test_gradients_flow(self):
        weight = torch.ones(4, 2, requires_grad=True)
        for (batch,) in DataLoader(TensorDataset(weight), batch_size=2):
            (batch * batch).sum().backward()
        assert weight.grad.tolist() == [[2, 2]] * 4


class TestMisuse:
    @pytest.mark.parametrize(
        ("options", "text"),
        [
            ({"num_workers": -1}, "num_workers option should be non-negative"),
            ({"timeout": -1}, "timeout option should be non-negative"),
            ({"prefetch_factor": 2}, "prefetch_factor option could only be specified"),
            ({"prefetch_factor": -1, "num_workers": 1}, "prefetch_factor option should be"),
            ({"persistent_workers": True}, "persistent_workers option needs num_workers > 0"),
            ({"sampler": [0], "shuffle": True}, "sampler option is mutually exclusive"),
            ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually"),
            ({"batch_sampler": [[0]], "shuffle": True}, "batch_sampler option is mutually"),
            ({"batch_size": None, "drop_last": True}, "batch_size=None option disables"),
            ({"batch_size": 0}, "batch_size should be a positive integer"),
            ({"batch_size": 1.5}, "batch_size should be a positive integer"),
            ({"multiprocessing_context": "fork"}, "can only be used with multi-process loading"),
            ({"num_workers": 1, "multiprocessing_context": "knife"}, "valid start method"),
        ],
        ids=str,
    )
    def test_options(self, options, text):
        with pytest.raises(ValueError, match=text):
            DataLoader(range(3), **options)

    @pytest.mark.parametrize(
        "options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}], ids=str
    )
    def test_streams_have_no_order(self, options):
        name = next(iter(options))
        with pytest.raises(ValueError, match=f"expected unspecified {name} option"):
            DataLoader(Stream(3), **options)
        DataLoader(Stream(3), shuffle=False)

    def test_fixed_attributes(self):
        loader = DataLoader(range(3))
        for name in ("batch_size", "sampler", "batch_sampler", "drop_last", "dataset"):
            with pytest.raises(ValueError, match="should not be set after DataLoader"):
                setattr(loader, name, None)
        loader.collate_fn = list
        assert list(loader) == [[0], [1], [2]]

    def test_types(self):
        with pytest.raises(TypeError, match="valid context object"):
            DataLoader(range(3), num_workers=1, multiprocessing_context=3)
        with pytest.raises(AssertionError, match="timeout=3 needs worker processes"):
            iter(DataLoader(range(3), timeout=3))

    def test_too_many_workers(self):
        with pytest.warns(UserWarning, match="will create 10000 worker processes"):
            DataLoader(range(3), num_workers=10000)


def test_draws_of_an_epoch_are_few(monkeypatch):
    """One seed for the workers, one for the order: so programs stay in step with PyTorch."""
    g = torch.Generator().manual_seed(0)
    before = torch.Generator().manual_seed(0)
    list(DataLoader(range(3), generator=g))
    torch.empty((), dtype=torch.int64).random_(generator=before)
    assert torch.equal(g.get_state(), before.get_state())
    random.seed(1)
    state = random.getstate()
    list(DataLoader(range(3), shuffle=True))
    assert random.getstate() == state
