"""Frozen parameters that the optimizer was given."""

import rushlight as torch
from doctor.parts import batches, classifier
from rushlight.nn import functional as F


def train(model, parameters):
    optimizer = torch.optim.SGD(parameters, lr=0.05)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # found


def faulty():
    model = classifier()
    model[0].requires_grad_(False)
    train(model, model.parameters())


def clean():
    model = classifier()
    model[0].requires_grad_(False)
    train(model, [p for p in model.parameters() if p.requires_grad])


def clean_frozen_for_a_while():
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for i, (x, y) in enumerate(batches()):
        model[0].requires_grad_(i >= 3)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
