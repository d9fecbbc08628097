"""Results kept with their graphs."""

import warnings

from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def train(keep):
    warnings.simplefilter("ignore")  # the engine warns of it as well
    model = classifier()
    optimizer = sgd(model)
    history = []
    for x, y in batches(12):
        optimizer.zero_grad()
        output = model(x)
        loss = F.cross_entropy(output, y)
        loss.backward()
        optimizer.step()
        history.append(keep(loss))  # found


def faulty():
    train(lambda loss: loss)


def clean():
    train(lambda loss: loss.item())


def clean_detached():
    train(lambda loss: loss.detach())


class History:
    def __init__(self):
        self.metrics = {"loss": []}

    def update(self, **values):
        for name, value in values.items():
            self.metrics[name].append(value)  # found


def faulty_in_an_object():
    warnings.simplefilter("ignore")
    model = classifier()
    optimizer = sgd(model)
    history = History()
    for x, y in batches(12):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        history.update(loss=loss)
