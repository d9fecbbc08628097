"""Activations at their limits."""

import rushlight as torch
from doctor.parts import batches, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(activate, scale):
    torch.manual_seed(0)
    model = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 3)])
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        hidden = activate(model[0](scale * x))  # found
        F.cross_entropy(model[1](hidden), y).backward()
        optimizer.step()


def faulty_tanh():
    train(torch.tanh, 1000.0)


def faulty_sigmoid():
    train(torch.sigmoid, 1000.0)


def faulty_softmax():
    train(lambda h: h.softmax(-1), 100000.0)  # found


def clean_tanh():
    train(torch.tanh, 1.0)


def clean_sigmoid():
    train(torch.sigmoid, 1.0)


def clean_softmax():
    train(lambda h: h.softmax(-1), 1.0)


ALSO = {"vanishing-gradients"}
