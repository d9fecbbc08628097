"""Gradients that are cleared too late."""

from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def train(between):
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        between(model, optimizer)
        optimizer.step()  # found


def faulty():
    train(lambda model, optimizer: optimizer.zero_grad())


def faulty_by_the_model():
    train(lambda model, optimizer: model.zero_grad(set_to_none=False))


def clean():
    train(lambda model, optimizer: None)


def clean_two_optimizers():
    """The first pass reaches the weights of both; the second clears them for its own."""
    model, other = classifier(), classifier(3)
    first, second = sgd(model), sgd(other)
    for x, y in batches():
        for optimizer in (first, second):
            optimizer.zero_grad()
            F.cross_entropy(other(model(x)), y).backward()
            optimizer.step()


def clean_closure():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():

        def closure(x=x, y=y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        optimizer.step(closure)
