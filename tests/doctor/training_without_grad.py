"""Training where nothing is recorded."""

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def faulty():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        with torch.no_grad():
            output = model(x)  # found
        F.cross_entropy(output, y).requires_grad_().backward()
        optimizer.step()


def faulty_backward_raises():
    model = classifier()
    for x, y in batches():
        with torch.no_grad():  # found
            loss = F.cross_entropy(model(x), y)
        loss.backward()


def clean():
    model = classifier()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        with torch.no_grad():
            model(x)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
