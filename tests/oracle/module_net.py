"""A model for programs about modules."""


def net(t):
    """A small model with all kinds of members."""

    class Block(t.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.linear = t.nn.Linear(width, width)
            self.register_buffer("seen", t.zeros(1))
            self.register_buffer("hidden", t.ones(2), persistent=False)
            self.scale = t.nn.Parameter(t.ones(width))
            self.register_parameter("nothing", None)

        def forward(self, x, factor=1.0):
            return self.linear(x) * self.scale * factor

    class Net(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Block(3)
            self.blocks = t.nn.ModuleList([Block(3), t.nn.ReLU()])
            self.again = self.first
            self.empty = None
            self.name = "net"

        def forward(self, x):
            for block in self.blocks:
                x = block(self.first(x))
            return x

        def extra_repr(self):
            return "two\nlines"

    model = Net()
    with t.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_((t.arange(p.numel()).reshape(p.shape) * 7 % 5 - 2 + i) / 4)
    return model
