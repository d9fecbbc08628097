"""Sample inputs of recurrent networks; `samples` imports this module."""

import rushlight as torch
from samples import Maker, floating, sample, samples

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


def weights(make, gates, inputs, hidden, biases=True):
    both = [make(gates * hidden, inputs), make(gates * hidden, hidden)]
    return both + ([make(gates * hidden), make(gates * hidden)] if biases else [])


def network(name, gates):
    def state(make, *shape):
        return (make(*shape), make(*shape)) if name == "lstm" else make(*shape)

    @samples(name)
    @floating
    def networks(dtype, seed):
        make = Maker(dtype, seed)
        plain = (1, 0.0, False, False, False)
        yield sample(make(2, 1, 1), state(make, 1, 1, 1), weights(make, gates, 1, 1), True, *plain)
        yield sample(
            make.transposed(2, 3, 2), state(make, 1, 3, 2), weights(make, gates, 2, 2, False),
            False, 1, 0.0, True, False, False,
        )  # fmt: skip
        params = [w for width in (1, 1, 2, 2) for w in weights(make, gates, width, 1)]
        yield sample(make(1, 2, 1), state(make, 4, 1, 1), params, True, 2, 0.0, False, True, True)
        yield sample(
            make(3, 1), torch.tensor([2, 1]), state(make, 1, 2, 1), weights(make, gates, 1, 1),
            True, 1, 0.0, False, False,
        )  # fmt: skip

    @samples(f"{name}_cell")
    @floating
    def cells(dtype, seed):
        make = Maker(dtype, seed)
        yield sample(make(1, 2), state(make, 1, 1), *weights(make, gates, 2, 1))
        yield sample(make.transposed(3, 2), state(make, 3, 2), *weights(make, gates, 2, 2))
        yield sample(make(2, 1), state(make, 2, 1), *weights(make, gates, 1, 1, False))


for name, gates in GATES.items():
    network(name, gates)
