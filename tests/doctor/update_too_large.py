"""Steps that throw the weights away."""

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(lr):
    model = classifier()
    optimizer = sgd(model, lr)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # found


def faulty():
    train(100.0)


def faulty_adam():
    """After the first step the weights are as large as the steps."""
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=10)
    for x, y in batches(12):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # found


def clean_large_weights_are_right():
    model = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2)
    for x, _ in batches(12):
        optimizer.zero_grad()
        F.mse_loss(model(x), 100 * x[:, :1]).backward()
        optimizer.step()


def clean():
    train(0.1)


ALSO = {"exploding-gradients", "dead-relu", "saturated-activation", "vanishing-gradients"}
