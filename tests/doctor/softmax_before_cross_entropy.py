"""Probabilities where scores are wanted."""

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(model, loss_of):
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        loss_of(model(x), y).backward()  # found
        optimizer.step()


def faulty():
    train(classifier(), lambda output, y: F.cross_entropy(output.softmax(1), y))  # found


def faulty_layer():
    model = nn.Sequential(classifier(), nn.Softmax(dim=1))
    train(model, nn.CrossEntropyLoss())


def faulty_targets_are_probabilities():
    def loss(output, y):
        targets = F.one_hot(y, 3).float()
        return F.cross_entropy(output.softmax(1), targets)  # found

    train(classifier(), loss)


def clean():
    train(classifier(), F.cross_entropy)


def clean_probabilities_are_read():
    def loss(output, y):
        assert torch.softmax(output, 1).sum() > 0
        return F.cross_entropy(output.view(-1, 3), y)

    train(classifier(), loss)
