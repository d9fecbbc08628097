"""torch_streams(): a seed gives PyTorch's own numbers, bit for bit, whatever was drawn before."""

import copy
import pickle

import numpy as np
import pytest
import torch

import rushlight
from oracle.harness import to_numpy
from rushlight.random import torch_streams

FLOATS = ("float32", "float64", "float16", "bfloat16")
SIZES = (1, 5, 15, 16, 17, 40, 1000)


def empty(L, *size, dtype="float32"):
    return L.empty(*size, dtype=getattr(L, dtype))


DRAWS = {
    "rand": lambda L: L.rand(7),
    "rand many": lambda L: L.rand(3, 700),
    "rand double": lambda L: L.rand(9, dtype=L.float64),
    "rand complex": lambda L: L.rand(9, dtype=L.complex64),
    "rand_like": lambda L: L.rand_like(L.zeros(3, 4)),
    "uniform_": lambda L: empty(L, 50).uniform_(-0.3, 0.7),
    "uniform_ transposed": lambda L: empty(L, 4, 5).t().uniform_(),
    "uniform_ of every other": lambda L: L.zeros(4, 6)[:, ::2].uniform_(),
    "uniform_ of a permuted slice": lambda L: L.zeros(4, 6, 3).permute(2, 0, 1)[1:].uniform_(),
    "randn few": lambda L: L.randn(3),
    "randn odd": lambda L: L.randn(15),
    "randn block": lambda L: L.randn(16),
    "randn blocks and tail": lambda L: L.randn(5, 9),
    "randn double": lambda L: L.randn(33, dtype=L.float64),
    "randn complex": lambda L: L.randn(12, dtype=L.complex128),
    "randn transposed": lambda L: empty(L, 6, 7).t().normal_(),
    "randn_like": lambda L: L.randn_like(L.zeros(4, 5)),
    "normal_": lambda L: empty(L, 20).normal_(3.0, 0.5),
    "normal_ complex": lambda L: empty(L, 9, dtype="complex64").normal_(2.0, 0.5),
    "normal of means": lambda L: L.normal(L.arange(1.0, 20.0), 0.5),
    "normal of deviations": lambda L: L.normal(2.0, L.arange(1.0, 20.0)),
    "normal of both": lambda L: L.normal(L.arange(1.0, 5.0), L.arange(1.0, 5.0)),
    "normal of a size": lambda L: L.normal(1.0, 2.0, (3, 3)),
    "randint": lambda L: L.randint(10, (30,)),
    "randint negative": lambda L: L.randint(-5, 1000, (30,)),
    "randint 28 bits": lambda L: L.randint(0, 2**28, (9,)),
    "randint 28 bits less one": lambda L: L.randint(0, 2**28 - 1, (9,)),
    "randint 40 bits": lambda L: L.randint(0, 2**40, (9,)),
    "randint 64 bits": lambda L: L.randint(-(2**63), 2**63 - 1, (9,)),
    "randint of floats": lambda L: L.randint(0, 100, (9,), dtype=L.float32),
    "randint_like": lambda L: L.randint_like(L.zeros(7), 3, 9),
    "random_ int64": lambda L: empty(L, 9, dtype="int64").random_(),
    "random_ int32": lambda L: empty(L, 9, dtype="int32").random_(),
    "random_ from": lambda L: empty(L, 9, dtype="int64").random_(5, None),
    "random_ to": lambda L: empty(L, 9).random_(50),
    "randperm": lambda L: L.randperm(23),
    "randperm none": lambda L: L.randperm(0),
    "bernoulli": lambda L: L.bernoulli(L.full((30,), 0.3)),
    "bernoulli double": lambda L: L.bernoulli(L.full((30,), 0.3, dtype=L.float64)),
    "bernoulli transposed": lambda L: L.bernoulli(L.linspace(0, 1, 30).view(5, 6).t()),
    "bernoulli_": lambda L: empty(L, 30).bernoulli_(0.2),
    "bernoulli_ tensor": lambda L: empty(L, 3, 4).bernoulli_(L.tensor([0.1, 0.5, 0.9, 1.0])),
    "bernoulli p": lambda L: L.bernoulli(L.zeros(30), 0.7),
    "multinomial": lambda L: L.multinomial(L.arange(1.0, 9.0), 1),
    "multinomial several": lambda L: L.multinomial(L.arange(1.0, 21.0).view(4, 5), 3),
    "multinomial replaced": lambda L: L.multinomial(L.arange(1.0, 9.0), 40, replacement=True),
    "multinomial double": lambda L: L.multinomial(L.arange(1.0, 9.0, dtype=L.float64), 4),
    "exponential_": lambda L: empty(L, 30).exponential_(1.5),
    "log_normal_": lambda L: empty(L, 30).log_normal_(0.2, 0.5),
    "log_normal_ few": lambda L: empty(L, 3).log_normal_(0.2, 0.5),
    "geometric_": lambda L: empty(L, 30).geometric_(0.2),
    "geometric_ ints": lambda L: empty(L, 30, dtype="int64").geometric_(0.2),
    "cauchy_": lambda L: empty(L, 30).cauchy_(1.0, 2.0),
    "dropout": lambda L: L.nn.functional.dropout(L.ones(5, 9), 0.4),
    "dropout transposed": lambda L: L.nn.functional.dropout(L.ones(5, 9).t(), 0.4),
    "dropout all": lambda L: L.nn.functional.dropout(L.ones(5, 9), 1.0),
    "dropout none": lambda L: L.nn.functional.dropout(L.ones(5, 9), 0.0),
    "dropout off": lambda L: L.nn.functional.dropout(L.ones(5, 9), 0.4, False),
    "dropout1d": lambda L: L.nn.functional.dropout1d(L.ones(5, 9, 2), 0.4),
    "dropout2d": lambda L: L.nn.functional.dropout2d(L.ones(5, 9, 2, 2), 0.4),
    "alpha_dropout": lambda L: L.nn.functional.alpha_dropout(L.ones(5, 9), 0.4, True),
    "empty": lambda L: L.rand(0),
}


def same(ours, theirs):
    """Whether the values are equal to the last bit, NaNs included."""
    a, b = to_numpy(ours), to_numpy(theirs)
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b)


def assert_same_draws(names, seed):
    with torch_streams():
        rushlight.manual_seed(seed)
        torch.manual_seed(seed)
        for i, name in enumerate(names):
            ours, theirs = DRAWS[name](rushlight), DRAWS[name](torch)
            assert same(ours, theirs), (i, name, ours, theirs)
        assert rushlight.get_rng_state().tolist() == torch.get_rng_state().tolist(), names


@pytest.mark.parametrize("name", DRAWS)
def test_a_draw(name):
    for seed in (0, 1234, 2**63 + 5):
        assert_same_draws([name], seed)


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_draws(seed):
    order = np.random.default_rng(seed).choice(list(DRAWS), 60)
    assert_same_draws([str(name) for name in order], seed)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", SIZES)
def test_every_size_and_type(dtype, size):
    fills = {
        "uniform": lambda t: t.uniform_(-1, 2),
        "normal": lambda t: t.normal_(0.5, 2),
        "exponential": lambda t: t.exponential_(),
        "bernoulli": lambda t: t.bernoulli_(0.4),
        "cauchy": lambda t: t.cauchy_(),
        "geometric": lambda t: t.geometric_(0.3),
        "log_normal": lambda t: t.log_normal_(),
        "random": lambda t: t.random_(),
    }
    with torch_streams():
        for name, fill in fills.items():
            rushlight.manual_seed(size)
            torch.manual_seed(size)
            ours, theirs = (fill(empty(L, size, dtype=dtype)) for L in (rushlight, torch))
            assert same(ours, theirs), name
            assert same(rushlight.rand(3), torch.rand(3)), name


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_integers_of_every_type(dtype):
    with torch_streams():
        rushlight.manual_seed(3)
        torch.manual_seed(3)
        for fill in ("random_", "bernoulli_"):
            ours, theirs = (getattr(empty(L, 50, dtype=dtype), fill)() for L in (rushlight, torch))
            assert same(ours, theirs)


def test_generators_and_their_states():
    with torch_streams():
        ours, theirs = (L.Generator().manual_seed(99) for L in (rushlight, torch))
        assert same(rushlight.randn(3, generator=ours), torch.randn(3, generator=theirs))
        state = rushlight.tensor(theirs.get_state().tolist(), dtype=rushlight.uint8)
        assert ours.get_state().tolist() == state.tolist()
        fresh = rushlight.Generator()
        fresh.set_state(state)
        assert fresh.initial_seed() == theirs.initial_seed() == 99
        expected = torch.randn(3, generator=theirs)
        for g in (fresh, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), ours.clone_state()):
            assert same(rushlight.randn(3, generator=g), expected)


def test_a_state_of_torch_continues_torchs_sequence_without_the_switch():
    torch.manual_seed(4)
    torch.randn(3)
    state = rushlight.tensor(torch.get_rng_state().tolist(), dtype=rushlight.uint8)
    before = rushlight.get_rng_state()
    try:
        rushlight.set_rng_state(state)
        assert same(rushlight.randn(30), torch.randn(30))
    finally:
        rushlight.set_rng_state(before)


def test_the_switch_is_undone():
    rushlight.manual_seed(7)
    first = rushlight.rand(5).tolist()
    rushlight.manual_seed(7)
    with torch_streams():
        assert rushlight.default_generator._torch
        assert rushlight.Generator()._torch
        assert same(rushlight.rand(5), torch.rand(5, generator=torch.Generator().manual_seed(7)))
        with torch_streams(False):
            assert not rushlight.Generator()._torch
        assert rushlight.Generator()._torch
    assert not rushlight.default_generator._torch
    assert rushlight.rand(5).tolist() == first


def test_fork_rng_and_checkpoint_replay():
    from rushlight.utils.checkpoint import checkpoint

    def block(x):
        kept.append(rushlight.nn.functional.dropout(x, 0.5).detach().tolist())
        return rushlight.nn.functional.dropout(x, 0.5).exp()

    kept = []
    with torch_streams():
        rushlight.manual_seed(0)
        x = rushlight.ones(50, requires_grad=True)
        rushlight.rand(3)
        y = checkpoint(block, x, use_reentrant=False)
        after = rushlight.get_rng_state().tolist()
        (gradient,) = rushlight.autograd.grad(y.sum(), x)
        assert kept[0] == kept[1]
        assert rushlight.get_rng_state().tolist() == after
        expected = [2 * v if v != 1 else 0 for v in y.tolist()]
        assert gradient.tolist() == pytest.approx(expected)
        with rushlight.random.fork_rng():
            a = rushlight.rand(3).tolist()
        assert rushlight.rand(3).tolist() == a


def attention(L, **options):
    layer = L.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, **options)
    return layer(L.rand(2, 5, 8))


def attend(L):
    q, k, v = L.rand(3, 2, 2, 4, 8)
    return L.nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.3)


LAYERS = {
    "dropout": lambda L: L.nn.Dropout(0.3)(L.ones(4, 5)),
    "dropout in place": lambda L: L.nn.Dropout(0.3, inplace=True)(L.ones(4, 5)),
    "dropout of channels": lambda L: L.nn.Dropout2d(0.3)(L.ones(4, 5, 2, 2)),
    "alpha dropout": lambda L: L.nn.AlphaDropout(0.3)(L.ones(4, 5)),
    "alpha dropout of channels": lambda L: L.nn.FeatureAlphaDropout(0.3)(L.ones(4, 5, 2)),
    "encoder": attention,
    "encoder, batch first": lambda L: attention(L, batch_first=True),
    "encoder, norm first": lambda L: attention(L, batch_first=True, norm_first=True),
    "decoder": lambda L: L.nn.TransformerDecoderLayer(8, 2, 16)(L.rand(2, 5, 8), L.rand(3, 5, 8)),
    "attention": lambda L: L.nn.MultiheadAttention(8, 2, 0.4)(*L.rand(3, 2, 5, 8))[0],
    "attention function": attend,
    "rrelu": lambda L: L.nn.functional.rrelu(L.linspace(-1, 1, 20), training=True),
    "gumbel softmax": lambda L: L.nn.functional.gumbel_softmax(L.zeros(4, 5), tau=0.5),
    "lstm": lambda L: L.nn.LSTM(3, 4, 3, dropout=0.5, batch_first=True)(L.rand(2, 5, 3))[0],
    "gru": lambda L: L.nn.GRU(3, 4, 2, dropout=0.5, bidirectional=True)(L.rand(2, 5, 3))[0],
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_draw_the_same(name):
    with torch_streams():
        rushlight.manual_seed(21)
        torch.manual_seed(21)
        ours, theirs = (to_numpy(LAYERS[name](L)) for L in (rushlight, torch))
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
        assert rushlight.get_rng_state().tolist() == torch.get_rng_state().tolist()
