"""Gradients of data."""

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def train(x_of):
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x_of(x)), y).backward()  # found
        optimizer.step()


def faulty():
    train(lambda x: x.clone().requires_grad_())


def clean():
    train(lambda x: x)


def clean_penalty():
    """The gradient of the input is part of the loss."""
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        x = x.clone().requires_grad_()
        loss = F.cross_entropy(model(x), y)
        (of_input,) = torch.autograd.grad(loss, x, create_graph=True)
        (loss + of_input.square().sum()).backward()
        optimizer.step()
