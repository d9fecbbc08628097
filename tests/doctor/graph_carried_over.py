"""A state that is kept from step to step."""

import rushlight as torch
from doctor.parts import batches
from rushlight import nn
from rushlight.nn import functional as F


def train(carry, retain):
    torch.manual_seed(0)
    cell, head = nn.GRU(8, 8), nn.Linear(8, 3)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.05)
    state = torch.zeros(1, 8)
    for x, y in batches(8):
        output, state = cell(x, state)  # found
        optimizer.zero_grad()
        F.cross_entropy(head(output), y).backward(retain_graph=retain)  # found
        optimizer.step()
        state = carry(state)


def faulty_retained():
    train(lambda state: state, True)


def faulty_freed():
    train(lambda state: state, False)


def clean():
    train(lambda state: state.detach(), False)


def clean_two_losses():
    """The second loss of a step uses its graph again: that is what retain_graph is for."""
    trunk, first, second = nn.Linear(8, 8), nn.Linear(8, 3), nn.Linear(8, 3)
    layers = nn.ModuleList([trunk, first, second])
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)
    for x, y in batches(8):
        hidden = trunk(x).relu()
        optimizer.zero_grad()
        F.cross_entropy(first(hidden), y).backward(retain_graph=True)
        F.cross_entropy(second(hidden), y).backward()
        optimizer.step()
