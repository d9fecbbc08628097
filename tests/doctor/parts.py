"""What the programs for the doctor share: small data, models and optimizers."""

import rushlight as torch
from rushlight import nn

CLASSES = 3


def data(n=64, width=8, seed=0):
    """Inputs, and labels that depend on them."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=generator)
    y = x[:, :CLASSES].argmax(1)
    return x, y


def batches(steps=6, size=16):
    """Steps of training: a batch each."""
    x, y = data(steps * size)
    return list(zip(x.split(size), y.split(size), strict=True))


def classifier(width=8, hidden=16, *extra):
    torch.manual_seed(0)
    layers = (nn.Linear(width, hidden), nn.GELU(), *extra, nn.Linear(hidden, CLASSES))
    return nn.Sequential(*layers)


def sgd(model, lr=0.05):
    return torch.optim.SGD(model.parameters(), lr=lr)
