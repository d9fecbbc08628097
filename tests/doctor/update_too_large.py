"""Steps that throw the weights away."""

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
    train(100.0)


def clean():
    train(0.1)


ALSO = {"exploding-gradients", "dead-relu", "saturated-activation", "vanishing-gradients"}
