"""Recurrent networks and packed sequences against PyTorch."""

import numpy as np
import pytest

from oracle.derivatives import assert_same_derivatives, normal
from oracle.harness import LIBRARIES, assert_same_outcome, from_numpy, to_numpy

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
STEPS, BATCH, INPUT, HIDDEN = 4, 3, 5, 6
every_network = pytest.mark.parametrize("name", GATES)


def weights(name, layers=1, directions=1, biases=True):
    size, found = GATES[name] * HIDDEN, []
    for layer in range(layers):
        for _ in range(directions):
            width = INPUT if layer == 0 else HIDDEN * directions
            found += [normal(size, width) / 2, normal(size, HIDDEN) / 2]
            found += [normal(size), normal(size)] if biases else []
    return found


def states(name, *shape):
    return [normal(*shape) for _ in range(2 if name == "lstm" else 1)]


def split(name, tensors):
    """The hidden states as the operation takes them, and the parameters."""
    return (tensors[:2], tensors[2:]) if name == "lstm" else (tensors[0], tensors[1:])


@every_network
@pytest.mark.parametrize(
    ("layers", "bidirectional", "biases", "batch_first"),
    [(1, False, True, False), (2, True, True, True), (2, False, False, True)],
)
def test_networks(name, layers, bidirectional, biases, batch_first):
    directions = 1 + bidirectional

    def run(library, x, *rest):
        hx, params = split(name, rest)
        f = getattr(library, name)
        return f(x, hx, params, biases, layers, 0.0, False, bidirectional, batch_first)

    shape = (BATCH, STEPS, INPUT) if batch_first else (STEPS, BATCH, INPUT)
    hidden = states(name, layers * directions, BATCH, HIDDEN)
    params = weights(name, layers, directions, biases)
    assert_same_derivatives(run, normal(*shape), *hidden, *params, rtol=1e-7, atol=1e-8)


@every_network
@pytest.mark.parametrize("bidirectional", [False, True])
def test_packed_sequences(name, bidirectional):
    directions, sizes = 1 + bidirectional, np.array([3, 2, 2, 1])

    def run(library, x, *rest):
        hx, params = split(name, rest)
        f = getattr(library, name)
        return f(x, from_numpy(library, sizes), hx, params, True, 1, 0.0, False, bidirectional)

    hidden = states(name, directions, BATCH, HIDDEN)
    params = weights(name, 1, directions)
    assert_same_derivatives(run, normal(8, INPUT), *hidden, *params, rtol=1e-7, atol=1e-8)


@every_network
def test_cells(name):
    def run(library, x, *rest):
        hx, params = split(name, rest)
        return getattr(library, f"{name}_cell")(x, hx, *params)

    for biases in (True, False):
        hidden = states(name, BATCH, HIDDEN)
        assert_same_derivatives(run, normal(BATCH, INPUT), *hidden, *weights(name, biases=biases))


def test_projections():
    def run(library, x, h, c, *params):
        return library.lstm(x, (h, c), list(params), True, 1, 0.0, False, True, False)

    one = [normal(24, 5), normal(24, 2), normal(24), normal(24), normal(2, 6)]
    other = [normal(*w.shape) for w in one]
    assert_same_derivatives(run, normal(4, 3, 5), normal(2, 3, 2), normal(2, 3, 6), *one, *other)


@every_network
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_narrow_dtypes_and_many_rows(name, dtype):
    arrays = [normal(7, 40, INPUT), *states(name, 1, 40, HIDDEN), *weights(name)]

    def run(library):
        x, *rest = [from_numpy(library, a).to(getattr(library, dtype)) for a in arrays]
        hx, params = split(name, [t.requires_grad_() for t in rest])
        y = getattr(library, name)(x, hx, params, True, 1, 0.0, False, False, False)
        y[0].float().square().mean().backward()
        return [*y, *(p.grad for p in params)]

    tolerance = 2e-5 if dtype == "float32" else 6e-2
    for a, b in zip(*(run(library) for library in LIBRARIES), strict=True):
        assert str(a.dtype) == str(b.dtype)
        scale = max(1, np.abs(to_numpy(b)).max())
        np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol=tolerance, atol=tolerance * scale)


@every_network
def test_empty_batches(name):
    def run(library, x, *rest):
        hx, params = split(name, rest)
        return getattr(library, name)(x, hx, params, True, 1, 0.0, False, False, False)

    arrays = [normal(STEPS, 0, INPUT), *states(name, 1, 0, HIDDEN), *weights(name)]
    assert_same_derivatives(run, *arrays, second=False)


def test_dropout_between_layers():
    import rushlight as torch

    layer = torch.nn.LSTM(4, 8, num_layers=3, dropout=0.5)
    x = torch.randn(5, 2, 4)
    assert not torch.equal(layer(x)[0], layer(x)[0])
    layer.eval()
    assert torch.equal(layer(x)[0], layer(x)[0])


SEQUENCES = """
[p.data, p.batch_sizes, p.sorted_indices, p.unsorted_indices]
r.pad_packed_sequence(p)
r.pad_packed_sequence(p, batch_first=True, padding_value=-1.5, total_length=6)
r.unpack_sequence(p)
r.unpad_sequence(r.pad_sequence(s), torch.tensor([2, 4, 1]))
r.pad_sequence(s, batch_first=True, padding_value=2.0)
r.pad_sequence(s, padding_side="left")
[p.double().data, p.long().data, p.batch_sizes]
r.invert_permutation(torch.tensor([3, 0, 2, 1]))
r.pack_sequence(s)
r.pack_sequence([])
r.pad_sequence(torch.zeros(2, 3, 1))
r.pad_sequence(3)
r.pad_sequence([torch.zeros(2, 3), torch.zeros(2, 4)])
r.pad_packed_sequence(p, total_length=2)
r.pack_padded_sequence(torch.zeros(3, 2), [1, 2])
r.pack_padded_sequence(torch.zeros(3, 2), [2, 0])
r.pack_padded_sequence(torch.zeros(3, 2), [2])
r.pack_padded_sequence(torch.zeros(3, 0), [])
list(r.pack_padded_sequence(torch.arange(6.0).reshape(3, 2), [3, 1]))[:2]
list(r.pack_padded_sequence(torch.arange(6.0).reshape(2, 3), [1, 3], True, False))
""".strip().splitlines()


@pytest.mark.parametrize("source", SEQUENCES)
def test_packing(source):
    def program(library):
        import importlib

        r = importlib.import_module(f"{library.__name__}.nn.utils.rnn")
        s = [library.arange(2.0), library.arange(4.0) + 10, library.ones(1)]
        names = {"torch": library, "r": r, "s": s, "p": r.pack_sequence(s, enforce_sorted=False)}
        return eval(source, names)

    assert_same_outcome(program)


def test_gradients_pass_through_packing():
    def run(library, x):
        import importlib

        r = importlib.import_module(f"{library.__name__}.nn.utils.rnn")
        packed = r.pack_padded_sequence(x * x, [2, 4, 1], enforce_sorted=False)
        return r.pad_packed_sequence(packed)[0]

    assert_same_derivatives(run, normal(4, 3, 2))


BAD = """
torch.lstm(z(2, 3, 4), (z(1, 3, 5),), w(4), True, 1, 0.0, False, False, False)
torch.gru(z(2, 3), z(1, 3, 5), w(3), True, 1, 0.0, False, False, False)
torch.gru(z(0, 3, 4), z(1, 3, 5), w(3), True, 1, 0.0, False, False, False)
torch.gru(z(2, 3, 4), z(1, 3, 5), w(3)[:3], True, 1, 0.0, False, False, False)
torch.gru(z(2, 3, 7), z(1, 3, 5), w(3), True, 1, 0.0, False, False, False)
torch.gru_cell(z(3, 7), z(3, 5), *w(3))
torch.gru_cell(z(3, 4), z(3, 6), *w(3))
torch.gru_cell(z(3, 4), z(2, 5), *w(3))
torch.lstm_cell(z(3, 4), (z(2, 5), z(3, 5)), *w(4))
""".strip().splitlines()


@pytest.mark.parametrize("source", BAD)
def test_bad_input_raises_the_same_class(source):
    def program(library):
        z = library.zeros
        names = {"torch": library, "z": z}
        names["w"] = lambda g: [z(g * 5, 4), z(g * 5, 5), z(g * 5), z(g * 5)]
        return eval(source, names)

    assert_same_outcome(program)
