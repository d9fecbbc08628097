"""Data pipes as in PyTorch: the same samples, orders and parts, and errors of the same class."""

import importlib
import inspect
import warnings

import pytest
import torch

import rushlight
from oracle.harness import run, same

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class Pipes:
    """The steps of one of the libraries."""

    def __init__(self, library):
        name = f"{library.__name__}.utils.data"
        self.iter = importlib.import_module(f"{name}.datapipes.iter")
        self.map = importlib.import_module(f"{name}.datapipes.map")
        self.data = importlib.import_module(name)
        self.library = library

    def stream(self, source=range(5)):
        return self.iter.IterableWrapper(source)

    def table(self, source=range(5)):
        return self.map.SequenceWrapper(source)


def text(value):
    """What a pipe is compared by: two libraries' tensors are equal as lists."""
    return value.tolist() if hasattr(value, "tolist") else value


PAIRS = [(1, 2), (3, 4)]
ROWS = [{"a": 1, "b": 2}]
NESTED = [[1, [2]], [3]]
SAMPLES = {
    "batches": lambda p: list(p.stream().batch(2)),
    "whole batches": lambda p: list(p.stream().batch(2, drop_last=True, wrapper_class=tuple)),
    "length": lambda p: [len(p.stream().batch(2)), len(p.stream().shuffle()), len(p.table())],
    "unbatched": lambda p: list(p.stream([[1, 2], [3]]).unbatch()),
    "to the ground": lambda p: list(p.stream(NESTED).unbatch(unbatch_level=-1)),
    "forked": lambda p: [list(x) for x in p.stream().fork(2)],
    "forked twice": lambda p: [list(x) for _ in range(2) for x in p.stream().fork(3)],
    "forked once": lambda p: list(p.stream().fork(1)),
    "sorted out": lambda p: [list(x) for x in p.stream().demux(2, lambda x: x % 2)],
    "dropped": lambda p: [list(x) for x in p.stream().demux(2, lambda x: None, drop_none=True)],
    "in turn": lambda p: list(p.stream().mux(p.stream("ab"), p.stream([9] * 9))),
    "in turn, length": lambda p: len(p.stream().mux(p.stream("ab"), p.stream([9] * 9))),
    "pairs": lambda p: list(p.stream().zip(p.stream("ab"))),
    "in a row": lambda p: list(p.stream().concat(p.stream("ab"))),
    "groups": lambda p: list(p.stream(range(9)).groupby(lambda x: x % 3)),
    "groups with keys": lambda p: list(
        p.stream(range(9)).groupby(lambda x: x % 3, keep_key=True, group_size=2)
    ),
    "groups of a small buffer": lambda p: list(
        p.stream(range(9)).groupby(
            lambda x: x % 3, buffer_size=4, group_size=3, guaranteed_group_size=2
        )
    ),
    "groups that are dropped": lambda p: list(
        p.stream(range(9)).groupby(lambda x: x, buffer_size=4, group_size=2, drop_remaining=True)
    ),
    "single groups": lambda p: list(p.stream().groupby(lambda x: x, buffer_size=2)),
    "a column": lambda p: list(p.stream(PAIRS).map(lambda x: -x, input_col=1)),
    "to a column": lambda p: list(p.stream(PAIRS).map(lambda x: -x, input_col=1, output_col=0)),
    "a new column": lambda p: list(p.stream(PAIRS).map(lambda x: -x, input_col=1, output_col=-1)),
    "two columns": lambda p: list(p.stream(PAIRS).map(lambda x, y: x - y, input_col=[0, 1])),
    "lists": lambda p: list(p.stream([[1, 2]]).map(lambda x, y: x - y, input_col=[1, 0])),
    "dicts": lambda p: list(p.stream(ROWS).map(lambda x: -x, input_col="a", output_col="c")),
    "two of a dict": lambda p: list(p.stream(ROWS).map(lambda x, y: x, input_col=["a", "b"])),
    "chosen": lambda p: list(p.stream(PAIRS).filter(lambda x: x > 2, input_col=1)),
    "collated": lambda p: [text(b) for b in p.stream().batch(2).collate()],
    "seeded": lambda p: list(p.stream(range(8)).shuffle().set_seed(5)),
    "small buffer": lambda p: list(p.stream(range(8)).shuffle(buffer_size=2).set_seed(5)),
    "not shuffled": lambda p: list(p.stream().shuffle().set_shuffle(False)),
    "shuffled deep": lambda p: list(p.stream(PAIRS).shuffle(unbatch_level=0).set_seed(1)),
    "random": lambda p: [list(p.stream().shuffle()), list(p.table().shuffle())],
    "indices": lambda p: list(p.iter.Sampler(p.stream("abc"))),
    "table": lambda p: [p.table().map(str)[2], *p.table().batch(2), len(p.table().batch(2))],
    "tables": lambda p: [*p.table().zip(p.table("abcde")), *p.table().concat(p.table("ab"))],
    "shuffled table": lambda p: list(p.table().shuffle().set_seed(1)),
    "chosen of a table": lambda p: list(p.table().shuffle(indices=[3, 0]).set_seed(0)),
    "text": lambda p: [repr(p.stream().map(str)), str(p.table()), repr(p.table().map(str))],
}
MISTAKES = {
    "no batch": lambda p: p.stream().batch(0),
    "no batch of a table": lambda p: p.table().batch(0),
    "no length": lambda p: len(p.stream(iter("ab"))),
    "no length left": lambda p: len(p.stream().filter(bool)),
    "too deep": lambda p: list(p.stream([[1], 2]).unbatch(unbatch_level=2)),
    "wrong level": lambda p: list(p.stream([[1], 2]).unbatch(unbatch_level=-2)),
    "full": lambda p: list(p.stream().fork(2, buffer_size=2)[0]),
    "full of others": lambda p: list(p.stream().demux(2, lambda x: x % 2, buffer_size=1)[0]),
    "no part": lambda p: p.stream().fork(0),
    "unknown copy": lambda p: p.stream().fork(2, copy="x"),
    "wrong class": lambda p: list(p.stream().demux(2, lambda x: x)[0]),
    "no class": lambda p: list(p.stream().demux(2, lambda x: None)[0]),
    "not a pipe": lambda p: p.stream().concat([3]),
    "nothing": lambda p: p.iter.Concater(),
    "group larger than the buffer": lambda p: p.stream().groupby(str, buffer_size=1, group_size=2),
    "guarantee without a size": lambda p: p.stream().groupby(str, guaranteed_group_size=2),
    "no group": lambda p: list(p.stream().groupby(str, buffer_size=3, group_size=2)),
    "output alone": lambda p: p.stream().map(str, output_col=1),
    "two outputs": lambda p: p.stream().map(str, input_col=0, output_col=[1, 2]),
    "too many parameters": lambda p: p.stream().map(lambda a, b: a),
    "no parameters": lambda p: p.stream().map(lambda: 1),
    "keyword": lambda p: p.stream().map(lambda a, *, k: 1),
    "too many columns": lambda p: p.stream().map(lambda a: 1, input_col=[0, 1]),
    "no function": lambda p: p.stream().map(3),
    "not a bool": lambda p: list(p.stream().filter(lambda x: 3)),
    "empty buffer": lambda p: p.stream().shuffle(buffer_size=0),
    "part out of range": lambda p: p.stream().sharding_filter().apply_sharding(2, 2),
    "a name that is taken": lambda p: p.data.functional_datapipe("batch")(
        type("Mine", (p.data.IterDataPipe,), {})
    ),
    "an unknown step": lambda p: p.stream().nope(),
    "mode": lambda p: p.iter.FileOpener(p.stream(), mode="x"),
    "encoding": lambda p: p.iter.FileOpener(p.stream(), mode="rb", encoding="utf8"),
    "index": lambda p: p.table().concat(p.table("a"))[9],
    "batch of a table": lambda p: p.table().batch(2)[9],
    "shorter table": lambda p: p.table().zip(p.table("a"))[2],
    "no elements": lambda p: list(p.stream(3)),
    "base": lambda p: list(p.data.IterDataPipe()),
}


def outcome(program, library):
    def both(library):
        library.manual_seed(3)
        return program(Pipes(library))

    return run(both, library)


@pytest.mark.parametrize("program", SAMPLES.values(), ids=SAMPLES.keys())
def test_samples(program):
    with rushlight.random.torch_streams():
        ours = outcome(program, rushlight)
    theirs = outcome(program, torch)
    assert theirs.error is None, theirs
    assert same(ours.value, theirs.value), (ours, theirs)


@pytest.mark.parametrize("program", MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_raise_the_same_class(program):
    ours, theirs = (outcome(program, library) for library in (rushlight, torch))
    assert theirs.error is not None
    assert type(ours.error) is type(theirs.error), (ours, theirs)


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("shuffle", [None, True, False])
@pytest.mark.parametrize("workers", [0, 2])
def test_loaders_take_pipes(workers, shuffle, persistent):
    def program(library):
        p = Pipes(library)
        pipe = p.stream(range(7)).shuffle().sharding_filter()
        library.manual_seed(7)
        loader = p.data.DataLoader(
            pipe,
            batch_size=2,
            shuffle=shuffle,
            num_workers=workers,
            persistent_workers=persistent and workers > 0,
        )
        return [[b.tolist() for b in loader] for _ in range(3)], library.rand(1)

    with rushlight.random.torch_streams():
        ours = run(program, rushlight)
    theirs = run(program, torch)
    assert theirs.error is None
    assert same(ours.value, theirs.value), (ours, theirs)


def test_names_and_their_arguments():
    left_out = {"iter": {"RoutedDecoder"}, "map": set()}  # it decodes by packages for images
    for kind in ("iter", "map"):
        ours, theirs = (getattr(Pipes(library), kind) for library in (rushlight, torch))
        assert set(theirs.__all__) - set(ours.__all__) == left_out[kind]
        for name in ours.__all__:
            expected = list(inspect.signature(getattr(theirs, name)).parameters)
            assert list(inspect.signature(getattr(ours, name)).parameters) == expected, name


def test_hooks_between_chosen_tensors():
    def program(library):
        hooks = importlib.import_module(f"{library.__name__}.utils.hooks")
        log = []

        def after(module, grad_input, grad_output):
            log.append((module, grad_input, grad_output))

        def before(module, grad_output):
            log.append((module, grad_output))
            return tuple(10 * g for g in grad_output)

        hook = hooks.BackwardHook("first", [after], [before])
        x = library.ones(2, requires_grad=True)
        inside, other = hook.setup_input_hook((x, 3))
        hook.setup_output_hook(inside * 2).sum().backward()
        hook = hooks.BackwardHook("without inputs", [after], [])
        y, z = hook.setup_output_hook((x * 2, x * 3))
        (y.sum() + z.sum()).backward()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x.register_hook(print)
            x.register_hook(hooks.unserializable_hook(lambda grad: None))
            hooks.warn_if_has_hooks(x)
        return log, x.grad, other, [str(w.message) for w in caught]

    ours, theirs = run(program, rushlight), run(program, torch)
    assert theirs.error is None
    assert same(ours.value, theirs.value), (ours, theirs)
