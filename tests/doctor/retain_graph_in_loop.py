"""Graphs kept for a second pass that never comes."""

from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def faulty():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward(retain_graph=True)  # found
        optimizer.step()


def clean():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def clean_two_losses():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        output = model(x)
        F.cross_entropy(output, y).backward(retain_graph=True)
        (output * output).mean().backward()
        optimizer.step()
