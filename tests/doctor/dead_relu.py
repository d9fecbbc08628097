"""Units that are always 0."""

import rushlight as torch
from doctor.parts import batches, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(bias):
    torch.manual_seed(0)
    first, second = nn.Linear(8, 32), nn.Linear(32, 3)
    with torch.no_grad():
        first.bias.fill_(bias)
    model = nn.ModuleList([first, second])
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        hidden = F.relu(first(x))  # found
        F.cross_entropy(second(hidden), y).backward()
        optimizer.step()


def faulty():
    train(-20.0)


def clean():
    train(0.0)


ALSO = {"update-too-small", "vanishing-gradients"}
