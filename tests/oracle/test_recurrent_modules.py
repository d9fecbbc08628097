"""Recurrent modules: states that are given, packed sequences, dropout, and what they refuse."""

import importlib
import warnings

import numpy as np
import pytest
import torch as reference

import rushlight as torch

LIBRARIES = (torch, reference)


def arrays(value, library):
    if isinstance(value, library.Tensor):
        return [value.detach().numpy()]
    if isinstance(value, (tuple, list)):
        return [a for v in value for a in arrays(v, library)]
    return []


def compare(make, call):
    """The same results and gradients from modules with the same weights."""
    results, state = [], None
    for library in reversed(LIBRARIES):
        module = make(library).to(library.float64)
        if state is None:
            state = {k: v.numpy() for k, v in module.state_dict().items()}
        module.load_state_dict({k: library.tensor(v) for k, v in state.items()})
        inputs, outputs = call(library, module)
        floats = [t for t in tensors(outputs, library) if t.requires_grad]
        sum((t * t).sum() for t in floats).backward()
        grads = [t.grad for t in inputs] + [p.grad for p in module.parameters()]
        results.append(arrays([outputs, grads], library))
    theirs, ours = results
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def tensors(value, library):
    if isinstance(value, library.Tensor):
        return [value]
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v, library)]
    return []


def data(library, *shape, seed=0):
    return library.tensor(np.random.default_rng(seed).standard_normal(shape), requires_grad=True)


def state_for(library, name, *shape, cell=None):
    h = data(library, *shape, seed=1)
    if name != "LSTM":
        return h, [h]
    c = data(library, *(cell or shape), seed=2)
    return (h, c), [h, c]


NAMES = ("RNN", "GRU", "LSTM")
OPTIONS = ({}, {"num_layers": 2, "bidirectional": True}, {"bias": False, "batch_first": True})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("options", OPTIONS)
def test_given_states(name, options):
    layers = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)

    def call(t, module):
        x = data(t, *((3, 5) if options.get("batch_first") else (5, 3)), 4)
        hx, leaves = state_for(t, name, layers, 3, 6)
        return [x, *leaves], module(x, hx)

    compare(lambda t: getattr(t.nn, name)(4, 6, **options), call)


@pytest.mark.parametrize("name", NAMES)
def test_unbatched_states(name):
    def call(t, module):
        x = data(t, 5, 4)
        hx, leaves = state_for(t, name, 1, 6)
        return [x, *leaves], module(x, hx)

    compare(lambda t: getattr(t.nn, name)(4, 6), call)


def test_projections_with_states():
    def call(t, module):
        x = data(t, 5, 3, 4)
        hx, leaves = state_for(t, "LSTM", 2, 3, 2, cell=(2, 3, 6))
        return [x, *leaves], module(x, hx)

    compare(lambda t: t.nn.LSTM(4, 6, proj_size=2, bidirectional=True), call)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_packed_sequences(name, ordered, given):
    lengths = [5, 3, 2] if ordered else [2, 5, 3]

    def call(t, module):
        rnn = t.nn.utils.rnn
        x = data(t, 5, 3, 4)
        packed = rnn.pack_padded_sequence(x, t.tensor(lengths), enforce_sorted=ordered)
        hx, leaves = state_for(t, name, 4, 3, 6) if given else (None, [])
        output, hidden = module(packed, hx)
        padded, sizes = rnn.pad_packed_sequence(output)
        return [x, *leaves], [padded, sizes, hidden]

    compare(lambda t: getattr(t.nn, name)(4, 6, 2, bidirectional=True), call)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("batched", [True, False])
def test_cells_with_states(name, batched):
    shape = (3, 6) if batched else (6,)

    def call(t, module):
        x = data(t, *((3, 4) if batched else (4,)))
        hx, leaves = state_for(t, name, *shape)
        return [x, *leaves], module(x, hx)

    compare(lambda t: getattr(t.nn, f"{name}Cell")(4, 6), call)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_between_layers(name):
    module = getattr(torch.nn, name)(4, 6, 2, dropout=0.5)
    x = torch.randn(5, 3, 4)
    assert not torch.equal(module(x)[0], module(x)[0])
    module.eval()
    assert torch.equal(module(x)[0], module(x)[0])


def test_weights_by_layer():
    for t in LIBRARIES:
        module = t.nn.LSTM(2, 3, 2, bidirectional=True)
        assert [len(w) for w in module.all_weights] == [4, 4, 4, 4]
        assert module.all_weights[0][0] is module.weight_ih_l0
        module.flatten_parameters()
        module.weight_ih_l0 = t.nn.Parameter(t.zeros(12, 2))
        assert module.all_weights[0][0] is module.weight_ih_l0


BAD = [
    lambda t: t.nn.RNN(0, 3),
    lambda t: t.nn.RNN(2, 0),
    lambda t: t.nn.RNN(2, 3, 0),
    lambda t: t.nn.RNN(2.0, 3),
    lambda t: t.nn.RNN(2, 3, bias=1),
    lambda t: t.nn.RNN(2, 3, batch_first=1),
    lambda t: t.nn.RNN(2, 3, dropout=2),
    lambda t: t.nn.RNN(2, 3, dropout=True),
    lambda t: t.nn.RNN(2, 3, nonlinearity="sine"),
    lambda t: t.nn.RNN(2, 3, proj_size=1),
    lambda t: t.nn.GRU(2, 3, proj_size=1),
    lambda t: t.nn.LSTM(2, 3, proj_size=3),
    lambda t: t.nn.LSTM(2, 3, proj_size=-1),
    lambda t: t.nn.RNNBase("X", 2, 3),
    lambda t: t.nn.GRU(2, 3)(t.ones(1)),
    lambda t: t.nn.GRU(2, 3)(t.ones(1, 1, 5)),
    lambda t: t.nn.GRU(2, 3)(t.ones(1, 1, 2, dtype=t.float64)),
    lambda t: t.nn.GRU(2, 3)(t.ones(1, 1, 2), t.ones(1, 3)),
    lambda t: t.nn.GRU(2, 3)(t.ones(1, 2), t.ones(1, 1, 3)),
    lambda t: t.nn.GRU(2, 3)(t.ones(1, 1, 2), t.ones(1, 1, 5)),
    lambda t: t.nn.LSTM(2, 3)(t.ones(1, 1, 2), (t.ones(1, 3), t.ones(1, 3))),
    lambda t: t.nn.LSTM(2, 3)(t.ones(1, 1, 2), (t.ones(1, 1, 3), t.ones(1, 1, 5))),
    lambda t: t.nn.GRUCell(2, 3)(t.ones(1, 1, 2)),
    lambda t: t.nn.GRUCell(2, 3)(t.ones(1, 2), t.ones(1, 1, 3)),
    lambda t: t.nn.GRUCell(2, 3)(t.ones(1, 5)),
    lambda t: t.nn.LSTMCell(2, 3)(t.ones(1, 2), (t.ones(1, 1, 3), t.ones(1, 3))),
    lambda t: t.nn.RNNCell(2, 3, nonlinearity="x")(t.ones(1, 2)),
]


@pytest.mark.parametrize("call", BAD)
def test_same_errors(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            call(reference)
        with pytest.raises(theirs.type):
            call(torch)


def test_dropout_of_a_single_layer_warns():
    with pytest.warns(UserWarning, match="expects num_layers greater than 1"):
        torch.nn.GRU(2, 3, dropout=0.5)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "make",
    [
        lambda t: (t.nn.GRU(4, 8, 2, bidirectional=True), t.ones(5, 2, 4)),
        lambda t: (t.nn.RNN(4, 8, nonlinearity="relu"), t.ones(5, 2, 4)),
        lambda t: (t.nn.LSTM(4, 8, 2, batch_first=True, proj_size=3), t.ones(2, 5, 4)),
        lambda t: (t.nn.LSTMCell(4, 8), t.ones(2, 4)),
        lambda t: (t.nn.GRUCell(4, 8), t.ones(2, 4)),
        lambda t: (t.nn.RNNCell(4, 8), t.ones(2, 4)),
    ],
    ids=["GRU", "RNN", "LSTM", "LSTMCell", "GRUCell", "RNNCell"],
)
def test_the_arithmetic_is_counted_alike(make, grad):
    """Of an LSTM without projections PyTorch counts nothing: oneDNN hides it."""
    counts = []
    for library in LIBRARIES:
        counting = importlib.import_module(f"{library.__name__}.utils.flop_counter")
        module, x = make(library)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with counting.FlopCounterMode(display=False) as counter:
                output = module(x.requires_grad_(grad))
                forward = counter.get_total_flops()
                tensors(output, library)[0].sum().backward()
        counts.append((forward, counter.get_total_flops()))
    assert counts[0] == counts[1]
    assert counts[0][0] > 0
