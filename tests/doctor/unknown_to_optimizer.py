"""Parameters that no optimizer holds."""

import copy

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight import nn
from rushlight.nn import functional as F


class Model(nn.Module):
    def __init__(self, keep):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.rest = keep([nn.Linear(8, 8), nn.Linear(8, 3)])

    def forward(self, x):
        x = self.first(x)
        for layer in self.rest:
            x = layer(x.tanh())
        return x


def train(model, optimizer):
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def faulty_list_of_layers():
    model = Model(list)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)  # found
    train(model, optimizer)


def faulty_made_later():
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)  # found
    model[2] = nn.Linear(16, 3)
    train(model, optimizer)


class Scaled(nn.Linear):
    def __init__(self, scale):
        super().__init__(8, 3)
        self.scale = scale

    def forward(self, x):
        return super().forward(x) * self.scale


def faulty_plain_tensor():
    model = Scaled(torch.ones(1, requires_grad=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)  # found
    train(model, optimizer)


def faulty_copy_of_the_model():
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)  # found
    train(copy.deepcopy(model), optimizer)


class Forgetful(nn.Linear):
    def forward(self, x):
        return nn.Linear(8, 3)(super().forward(x))  # found


def faulty_made_in_every_pass():
    model = Forgetful(8, 8)
    train(model, sgd(model))


def clean_parameter():
    model = Scaled(nn.Parameter(torch.ones(1)))
    train(model, sgd(model))


def clean():
    model = Model(nn.ModuleList)
    train(model, sgd(model))


def clean_part_of_a_model():
    """What is left out on purpose was there when the optimizer was made."""
    model = classifier()
    train(model, sgd(model[2]))


def clean_another_model_before():
    """Gradients that have nothing to do with the training that follows."""
    other = nn.Linear(8, 1)
    for x, _ in batches():
        other(x).sum().backward()
    model = classifier()
    train(model, sgd(model))


ALSO = {"unused-parameters"}  # what was replaced or copied
