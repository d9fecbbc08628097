"""What programs about graphs share."""

import pytest


class Programs(list):
    """Collects programs as a decorator; each is a case of a test."""

    def __call__(self, function):
        self.append(pytest.param(function, id=function.__name__))
        return function


def filled(library, module):
    """The module with numbers that do not depend on the library."""
    with library.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(library.arange(p.numel()).reshape(p.shape) * 0.1 - 0.05 * k)
    return module.double()


def ramp(library, *shape):
    count = 1
    for size in shape:
        count *= size
    return (library.arange(float(count), dtype=library.float64) / 7 - 0.5).reshape(shape)


def net(library):
    nn = library.nn

    class Block(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU())
            self.scale = nn.Parameter(library.ones(width))
            self.register_buffer("shift", library.full((width,), 0.25))

        def forward(self, x):
            return self.inner(x) * self.scale + self.shift

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Block(3)
            self.second = Block(3)
            self.shared = self.first
            self.constant = library.tensor([1.0, 2.0, 3.0])

        def forward(self, x, *, gain: float = 2.0):
            y = self.shared(self.first(x))
            a, b = y.split(1)
            z = library.cat([a, b], dim=0).view(y.size(0), -1)
            return self.second(z) * gain + self.constant

    return filled(library, Net())


def texts(traced):
    nodes = [(n.op, n.name, str(n.args), str(n.kwargs)) for n in traced.graph.nodes]
    return traced.code, str(traced.graph), nodes
