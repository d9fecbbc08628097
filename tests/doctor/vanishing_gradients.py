"""Gradients that fade from layer to layer."""

import rushlight as torch
from doctor.parts import batches, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(activation, depth, scale):
    torch.manual_seed(0)
    layers = [layer for _ in range(depth) for layer in (nn.Linear(8, 8), activation())]
    model = nn.Sequential(*layers, nn.Linear(8, 3))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(scale)
    optimizer = sgd(model, 0.01)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # found


def faulty():
    train(nn.Sigmoid, 12, 0.5)


def clean():
    train(nn.Sigmoid, 2, 1.0)


def clean_deep():
    train(nn.GELU, 4, 1.5)
