"""Writes to what backward needs."""

from doctor.parts import batches, classifier
from rushlight.nn import functional as F


def train(activate):
    model = classifier()
    for x, y in batches():
        F.cross_entropy(activate(model(x)), y).backward()


def faulty():
    def activate(output):
        y = output.exp()
        y += 1  # found
        return y

    train(activate)


def clean():
    train(lambda output: output.exp() + 1)


def clean_writes():
    def activate(output):
        y = output * 2
        y += 1
        return y

    train(activate)
