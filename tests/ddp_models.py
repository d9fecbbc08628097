"""Models and batches for tests of DistributedDataParallel."""

import rushlight as torch
from rushlight import nn

F64 = torch.float64


def close(actual, expected, atol=1e-12):
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a, e, rtol=0, atol=atol)


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 7), nn.Tanh(), nn.Linear(7, 3)).double()


def batches(size, seed=1):
    """A batch for each rank, of different lengths."""
    torch.manual_seed(seed)
    return [torch.randn(2 + 3 * r, 4, dtype=F64) for r in range(size)]


class Branches(nn.Module):
    """Which layers a call uses depends on the rank and the step; ``never`` is not used at all."""

    def __init__(self, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)]).double()
        self.never = nn.Linear(4, 4).double()

    def forward(self, x, which):
        return self.layers[which](self.layers[0](x))
