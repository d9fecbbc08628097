"""The order of scheduler and optimizer."""

import warnings

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F


def train(early):
    model = classifier()
    optimizer = sgd(model)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    for x, y in batches():
        if early:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scheduler.step()  # found
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        if not early:
            scheduler.step()


def faulty():
    train(True)


def clean():
    train(False)
