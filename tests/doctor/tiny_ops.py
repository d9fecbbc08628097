"""Tensors taken apart."""

from doctor.parts import batches, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(loss_of):
    model = nn.Linear(8, 1)
    optimizer = sgd(model)
    for x, _ in batches(4, 128):
        optimizer.zero_grad()
        loss_of(model(x).squeeze(1), x[:, 0]).backward()
        optimizer.step()


def faulty():
    def loss(output, y):
        total = 0.0
        for i in range(len(y)):
            total = total + (output[i] - y[i]) ** 2  # found
        return total / len(y)

    train(loss)


def faulty_iteration():
    def loss(output, y):
        total = 0.0
        for found, wanted in zip(output, y, strict=True):  # found
            total = total + (found - wanted) ** 2
        return total / len(y)

    train(loss)


def clean():
    train(F.mse_loss)
