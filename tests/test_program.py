"""Recorded programs: run again on other numbers, they do what eager code does, bit for bit."""

import copy

import numpy as np
import pytest

import rushlight as torch
from registry import sample_makers
from rushlight import nn
from rushlight._program import record
from rushlight.nn import functional as F
from samples import DIFFERENTIATED, function
from support import values

# Ops that read elements on the way to their result.
READS = {
    "Tensor.__getitem__", "argwhere", "bincount", "equal", "gru", "histc", "index_put", "lstm",
    "masked_scatter", "masked_select", "nn.functional.one_hot", "nonzero", "prod",
    "repeat_interleave", "rnn_relu", "rnn_tanh", "tensor_split", "unique", "unique_consecutive",
}  # fmt: skip
READS_IN_GRADIENTS = {"max", "median", "min"}  # how many elements share the extreme one


def tensors_in(values_):
    for value in values_:
        if isinstance(value, (tuple, list)):
            yield from tensors_in(value)
        elif isinstance(value, torch.Tensor):
            yield value


def others(tensors):
    """Other numbers that the op takes too: floats a little smaller, the rest as they are."""
    for t in tensors:
        yield t * 0.875 if t.is_floating_point() or t.is_complex() else t.clone()


def replaced(value, new):
    if isinstance(value, (tuple, list)):
        return (
            type(value)(replaced(v, new) for v in value) if type(value) in (tuple, list) else value
        )
    return new.get(id(value), value)


def same(a, b):
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        np.testing.assert_array_equal(values(a), values(b))
    elif isinstance(a, (tuple, list)):
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert a == b


CASES = list(sample_makers())


@pytest.mark.parametrize(
    ("name", "make"), CASES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CASES)]
)
def test_replay_is_eager(name, make):
    compared = compare_replays(function(name), make, (torch.float32, torch.int64), name in READS)
    assert compared or name in READS


@pytest.mark.parametrize(
    ("name", "make"), CASES, ids=[f"{name}-{i}" for i, (name, _) in enumerate(CASES)]
)
def test_replayed_gradients_are_eager(name, make):
    f = DIFFERENTIATED.get(name, lambda op: op)(function(name))

    def backward(*args, **kwargs):
        return gradients(f, args, kwargs)

    compare_replays(backward, make, [torch.float32], name in READS | READS_IN_GRADIENTS)


def gradients(f, args, kwargs):
    """Of all results by all arguments that can have one, as far as there are any."""
    given = list(tensors_in([args, list(kwargs.values())]))
    leaves = {
        id(t): t.detach().requires_grad_() for t in given if t.is_floating_point() or t.is_complex()
    }
    result = f(*replaced(args, leaves), **{k: replaced(v, leaves) for k, v in kwargs.items()})
    tops = [t for t in tensors_in([result]) if t.requires_grad]
    if not tops:
        return []
    into = list(leaves.values())
    weights = [torch.full_like(t, 0.75) for t in tops]
    return [g for g in torch.autograd.grad(tops, into, weights, allow_unused=True) if g is not None]


def compare_replays(f, make, dtypes, reads):
    """How many samples were recorded and run again."""
    compared = 0
    for dtype in dtypes:
        for args, kwargs in make(dtype, 0):
            every = list(tensors_in([args, list(kwargs.values())]))
            news = list(others(every))
            new = {id(t): n for t, n in zip(every, news, strict=True)}
            try:
                expected = f(
                    *replaced(args, new), **{k: replaced(v, new) for k, v in kwargs.items()}
                )
            except (NotImplementedError, RuntimeError):
                continue  # not for this dtype
            own = {id(t): t.clone() for t in every}
            held = [own[id(t)] for t in every]

            def call(*_, own=own, args=args, kwargs=kwargs):
                return f(*replaced(args, own), **{k: replaced(v, own) for k, v in kwargs.items()})

            try:
                program = record(call, *held)
            except RuntimeError as error:
                if reads and "recording" in str(error):
                    continue
                raise
            same(program(*news), expected)
            compared += 1
    return compared


def train(model, loss, optimizer, batches, recorded):
    """The parameters after a step on each batch."""

    def step(*batch):
        optimizer.zero_grad()
        value = loss(model, *batch)
        value.backward()
        optimizer.step()
        return value

    losses = []
    if recorded:
        first = [t.clone() for t in batches[0]]
        program = record(step, *first)
        losses.append(program.result.item())
        for batch in batches[1:]:
            losses.append(program(*batch).item())
    else:
        losses = [step(*batch).item() for batch in batches]
    return [p.detach().clone() for p in model.parameters()], losses


def mlp():
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    data = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(5)]
    return model, lambda m, x, y: F.cross_entropy(m(x), y), data


def convolutions():
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(36, 5),
    )  # fmt: skip
    data = [(torch.randn(6, 1, 8, 8), torch.randint(0, 5, (6,))) for _ in range(4)]
    return model, lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1), data


def attention():
    model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.25, batch_first=True)
    data = [(torch.randn(3, 5, 16), torch.randn(3, 5, 16)) for _ in range(4)]
    return model, lambda m, x, y: F.mse_loss(m(x), y), data


def recurrent():
    model = nn.LSTM(3, 6, batch_first=True)
    data = [(torch.randn(4, 7, 3), torch.randn(4, 7, 6)) for _ in range(4)]
    return model, lambda m, x, y: F.smooth_l1_loss(m(x)[0], y), data


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop"])
@pytest.mark.parametrize(
    "make", [mlp, convolutions, attention, recurrent], ids=lambda f: f.__name__
)
def test_training_steps(make, kind):
    torch.manual_seed(0)
    model, loss, batches = make()
    found = []
    for recorded in (False, True):
        twin = copy.deepcopy(model)
        optimizer = getattr(torch.optim, kind)(twin.parameters(), lr=0.01)
        torch.manual_seed(1)
        found.append(train(twin, loss, optimizer, batches, recorded))
    same(found[0], found[1])


def test_a_schedule_of_the_learning_rate_is_followed():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def step(x):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    program = record(step, torch.ones(1, 2))
    optimizer.param_groups[0]["lr"] = 0.0
    before = model.weight.detach().clone()
    program(torch.ones(1, 2))
    assert torch.equal(model.weight, before)


def test_it_prints():
    program = record(lambda x, y: (x @ y).relu().sum(), torch.ones(2, 3), torch.ones(3, 4))
    lines = str(program).split("\n")
    assert [line.split("(")[0] for line in lines] == ["gemm", "relu", "sum"]
    assert "$0" in lines[0]
    assert "$1" in lines[0]


def test_numbers_and_dtypes_are_printed():
    def step(x, y):
        return F.leaky_relu(torch.add(x, y.t().double(), alpha=0.25), 0.125)

    text = str(record(step, torch.ones(4, 3, dtype=torch.float64), torch.ones(3, 4)))
    assert "[4, 3], float32 -> float64" in text
    assert "[4, 3], 0.25, float64 -> float64" in text
    assert "[12], 0.125)" in text


def test_writes_count():
    x = torch.zeros(3)
    program = record(lambda t: t.add_(1), x)
    version = x._version
    program(x)
    assert x.tolist() == [2, 2, 2]
    assert x._version == version + 1


def test_reads_do_not_count():
    x, w = torch.ones(2, 3), torch.ones(3, 2)
    program = record(lambda t: (t @ w).relu(), x)
    version = w._version
    program(x)
    assert w._version == version


def test_random_numbers_are_new():
    torch.manual_seed(3)
    program = record(lambda x: x + torch.rand(4), torch.zeros(4))
    first = program.result.clone()
    second = program(torch.zeros(4)).clone()
    torch.manual_seed(3)
    assert torch.equal(first, torch.rand(4))
    assert torch.equal(second, torch.rand(4))


def test_a_state_of_the_generator_is_set_again():
    def step(x):
        with torch.random.fork_rng():
            first = torch.rand_like(x)
        return first, torch.rand_like(x), torch.rand_like(x)

    program = record(step, torch.zeros(3))
    first, again, new = program(torch.zeros(3))
    assert torch.equal(first, again)
    assert not torch.equal(first, new)
    eager = step(torch.zeros(3))
    assert not torch.equal(first, eager[0])


def test_a_seed_is_set_again():
    program = record(lambda x: torch.manual_seed(3) and torch.rand_like(x), torch.zeros(3))
    first = program.result.clone()
    torch.rand(5)
    assert torch.equal(program(torch.zeros(3)), first)


def test_random_numbers_are_not_read():
    with pytest.raises(RuntimeError, match="the host reads elements"):
        record(lambda x: torch.rand(2)[0].item() * x, torch.zeros(3))


def test_what_is_the_same_in_every_run_may_be_read():
    program = record(lambda x: x * torch.arange(4).sum().item(), torch.ones(2))
    assert program(torch.tensor([1.0, 2.0])).tolist() == [6.0, 12.0]


def test_numbers_that_are_read_are_refused():
    for reads in (lambda x: x.sum().item(), lambda x: x[x > 0], lambda x: bool((x * 2).sum())):
        with pytest.raises(RuntimeError, match="recording"):
            record(reads, torch.ones(3))
    assert torch.ones(2).sum().item() == 2  # and all is as before


def test_an_error_ends_the_recording():
    with pytest.raises(KeyError):
        record(lambda x: {}[x], torch.ones(1))
    assert (torch.ones(2) * 2).tolist() == [2, 2]


def test_a_bad_index_is_found_again():
    program = record(lambda x, i: x[i], torch.arange(4.0), torch.tensor([0, 1]))
    assert program(torch.arange(4.0), torch.tensor([3, 2])).tolist() == [3, 2]
    with pytest.raises(IndexError, match="7"):
        program(torch.arange(4.0), torch.tensor([3, 7]))


def test_memory_that_moved_is_noticed():
    x = torch.ones(100)
    program = record(lambda t: t * 2, x)
    x.resize_(100_000)
    with pytest.raises(RuntimeError, match="has moved"):
        program(x)


def test_results_outlive_the_program():
    result = record(lambda x: x * 2, torch.ones(50)).result
    assert result.sum().item() == 100


def test_inputs_are_checked():
    program = record(torch.sin, torch.ones(3))
    with pytest.raises(TypeError, match="takes 1"):
        program()
    with pytest.raises(ValueError, match="shape"):
        program(torch.ones(4))


def test_a_tensor_from_outside_is_kept():
    def make():
        weight = torch.full((1000,), 3.0)
        return record(lambda x: x * weight, torch.ones(1000))

    program = make()
    noise = [torch.full((1000,), 9.0) for _ in range(10)]
    assert program(torch.ones(1000)).sum().item() == 3000
    assert len(noise) == 10


MASK, PLACES = torch.tensor([True, False, True]), torch.tensor([2, 0])
IN_PLACE = {
    "masked_fill_": lambda x: x.masked_fill_(MASK, 2.0),
    "index_add_": lambda x: x.index_add_(0, PLACES, torch.ones(2)),
    "index_copy_": lambda x: x.index_copy_(0, PLACES, x[:2] * 2),
    "index_fill_": lambda x: x.index_fill_(0, PLACES, 2.0),
    "scatter_": lambda x: x.scatter_(0, PLACES, x[:2] * 2),
    "scatter_ of a number": lambda x: x.scatter_(0, PLACES, 2.0),
    "scatter_add_": lambda x: x.scatter_add_(0, PLACES, x[:2] * 2),
    "index_put_": lambda x: x.index_put_((PLACES,), x[:2] * 2),
    "index_put_ that adds": lambda x: x.index_put_((PLACES,), x[:2] * 2, accumulate=True),
    "setitem": lambda x: (x.__setitem__(PLACES, x[:2] * 2), x)[1],
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_writes_in_place_keep_the_masks_and_indices_from_outside(name):
    program = record(lambda x: IN_PLACE[name](x * 1), torch.arange(3.0))
    x = torch.tensor([3.0, 5.0, 7.0])
    expected = IN_PLACE[name](x * 1)
    assert program(x).tolist() == expected.tolist()
