"""Steps that change nothing."""

from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def train(lr):
    model = classifier()
    optimizer = sgd(model, lr)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # found


def faulty():
    train(1e-12)


def clean():
    train(1e-3)
