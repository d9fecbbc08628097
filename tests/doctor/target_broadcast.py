"""Targets of another shape."""

import warnings

from doctor.parts import batches, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(loss_of):
    warnings.simplefilter("ignore")  # some losses warn themselves
    model = nn.Linear(8, 1)
    optimizer = sgd(model)
    for x, _ in batches():
        optimizer.zero_grad()
        loss_of(model(x), x[:, 0]).backward()
        optimizer.step()


def faulty_mse():
    train(lambda output, y: F.mse_loss(output, y))  # found


def faulty_l1():
    train(lambda output, y: F.l1_loss(output, y))  # found


def faulty_smooth():
    train(lambda output, y: F.smooth_l1_loss(output, y))  # found


def faulty_by_hand():
    train(lambda output, y: ((output - y) ** 2).mean())  # found


def faulty_the_other_way():
    train(lambda output, y: (output.squeeze(1) - y.unsqueeze(1)).abs().mean())  # found


def faulty_likelihood_by_hand():
    def loss(output, y):
        p, positive = output.sigmoid(), (y > 0).float()
        return -(positive * p.log() + (1 - positive) * (1 - p).log()).mean()  # found

    train(loss)


def clean():
    train(lambda output, y: F.mse_loss(output.squeeze(1), y))


def clean_by_hand():
    train(lambda output, y: ((output - y[:, None]) ** 2).mean())


def clean_likelihood_by_hand():
    def loss(output, y):
        p, positive = output.squeeze(1).sigmoid(), (y > 0).float()
        return -(positive * p.log() + (1 - positive) * (1 - p).log()).mean()

    train(loss)


def clean_pairs():
    """Distances between all predictions are meant."""

    def loss(output, y):
        flat = output.squeeze(1)
        return (flat[:, None] - flat[None]).square().mean() + F.mse_loss(flat, y)

    train(loss)
