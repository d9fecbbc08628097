"""Parameters on which the loss does not depend."""

from doctor.parts import batches, sgd
from rushlight import nn
from rushlight.nn import functional as F


class Model(nn.Module):
    def __init__(self, use):
        super().__init__()
        self.first, self.second = nn.Linear(8, 3), nn.Linear(8, 3)
        self.use = use

    def forward(self, x):
        other = self.second(x) if self.use != "none" else 0
        return self.first(x) + (other if self.use == "both" else 0)


def train(use):
    model = Model(use)
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()  # found


def faulty_not_called():
    train("none")


def faulty_result_dropped():
    train("one")


def clean():
    train("both")
