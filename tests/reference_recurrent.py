"""NumPy's answer for recurrent networks; `references` imports it."""

import numpy as np


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(name, x, state, w_ih, w_hh, b_ih=0.0, b_hh=0.0):
    """The next state, as a list of one array or two."""
    a, b = x @ w_ih.T + b_ih, state[0] @ w_hh.T + b_hh
    if name == "lstm":
        i, f, g, o = np.split(a + b, 4, axis=1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(c), c]
    if name == "gru":
        (r, z, n), (hr, hz, hn) = np.split(a, 3, axis=1), np.split(b, 3, axis=1)
        r, z = sigmoid(r + hr), sigmoid(z + hz)
        return [(1 - z) * np.tanh(n + r * hn) + z * state[0]]
    return [np.tanh(a + b) if name == "rnn_tanh" else np.maximum(a + b, 0)]


def layer(name, steps, states, params, reverse):
    """What one direction gives for every step, and the states it ends with."""
    states, outs = [s.copy() for s in states], []
    for x in reversed(steps) if reverse else steps:
        now = step(name, x, [s[: len(x)] for s in states], *params)
        for s, new in zip(states, now, strict=True):
            s[: len(x)] = new
        outs.append(now[0])
    return outs[::-1] if reverse else outs, states


def network(name, steps, hx, params, biases, layers, bidirectional):
    hx, each, directions = list(hx), 4 if biases else 2, 1 + bidirectional
    ends = [[] for _ in hx]
    for at in range(layers):
        sides = []
        for side in range(directions):
            k = at * directions + side
            own = params[k * each : (k + 1) * each]
            outs, last = layer(name, steps, [h[k] for h in hx], own, side == 1)
            sides.append(outs)
            for end, s in zip(ends, last, strict=True):
                end.append(s)
        steps = [np.concatenate(parts, axis=1) for parts in zip(*sides, strict=True)]
    return steps, [np.stack(end) for end in ends]


def networks(name):
    def f(x, second, *rest):
        packed = isinstance(rest[0], (tuple, np.ndarray)) and not isinstance(second, tuple)
        packed = packed and second.dtype.kind == "i"
        if packed:
            hx, params, biases, layers, _, _, bidirectional = rest
            steps = np.split(x, np.cumsum(second)[:-1])
        else:
            hx, (params, biases, layers, _, _, bidirectional, batch_first) = second, rest
            steps = list(x.swapaxes(0, 1) if batch_first else x)
        hx = hx if name == "lstm" else (hx,)
        outs, ends = network(name, steps, hx, params, biases, layers, bidirectional)
        if packed:
            return np.concatenate(outs), *ends
        y = np.stack(outs)
        return y.swapaxes(0, 1) if batch_first else y, *ends

    return f


def cells(name):
    def f(x, hx, *params):
        states = step(name, x, hx if name == "lstm" else (hx,), *params)
        return tuple(states) if name == "lstm" else states[0]

    return f


NAMES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
REFERENCES = {
    **{name: networks(name) for name in NAMES},
    **{f"{name}_cell": cells(name) for name in NAMES},
}
