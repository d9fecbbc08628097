"""Probabilities where scores are wanted, of two classes."""

from doctor.parts import batches, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(activate):
    model = nn.Linear(8, 1)
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        target = (y == 0).float()
        output = activate(model(x)).squeeze(1)
        F.binary_cross_entropy_with_logits(output, target).backward()  # found
        optimizer.step()


def faulty():
    train(lambda output: output.sigmoid())


def faulty_clamped():
    train(lambda output: output.sigmoid().clamp(1e-6, 1 - 1e-6))


def clean():
    train(lambda output: output)


def clean_probabilities():
    model = nn.Linear(8, 1)
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.binary_cross_entropy(model(x).sigmoid().squeeze(1), (y == 0).float()).backward()
        optimizer.step()
