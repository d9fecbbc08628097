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


def evaluate(value):
    """The graphs of an evaluation have no pass at all."""
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    total = 0.0
    for x, y in batches(12):
        total = total + value(F.cross_entropy(model(x), y))  # found


def faulty_evaluation():
    evaluate(lambda loss: loss)


def clean_evaluation():
    evaluate(lambda loss: loss.item())


def clean_calls_before_a_pass():
    """Many results, and then one pass over all of them."""
    model = classifier()
    optimizer = sgd(model)
    for _ in range(4):
        losses = [F.cross_entropy(model(x), y) for x, y in batches(12)]
        total = 0.0
        for loss in losses:
            total = total + loss / 12
        optimizer.zero_grad()
        total.backward()
        optimizer.step()


def faulty():
    train(lambda loss: loss)


def clean():
    train(lambda loss: loss.item())


def clean_detached():
    train(lambda loss: loss.detach())
