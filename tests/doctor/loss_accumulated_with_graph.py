"""A running sum that is recorded."""

import warnings

from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def train(value):
    warnings.simplefilter("ignore")  # the engine warns of it as well
    model = classifier()
    optimizer = sgd(model)
    total = 0.0
    for x, y in batches(12):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total = total + value(loss)  # found


def faulty():
    train(lambda loss: loss)


def clean():
    train(lambda loss: loss.item())


def clean_detached():
    train(lambda loss: loss.detach())
