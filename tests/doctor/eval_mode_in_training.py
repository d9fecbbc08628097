"""Training in eval mode."""

import rushlight as torch
from doctor.parts import batches, classifier, data, sgd
from rushlight import nn
from rushlight.nn import functional as F


def train(back_to_train, layer):
    model = classifier(8, 16, layer)
    optimizer = sgd(model)
    for epoch in range(2):
        if back_to_train:
            model.train()
        for x, y in batches(3):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()  # found
            optimizer.step()
        model.eval()
        with torch.no_grad():
            model(data(seed=1 + epoch)[0])


def faulty():
    train(False, nn.Dropout(0.5))


def faulty_batch_norm():
    train(False, nn.BatchNorm1d(16))


def clean():
    train(True, nn.Dropout(0.5))


def clean_frozen_statistics():
    """Batch norm alone in eval mode, as for fine tuning."""
    model = classifier(8, 16, nn.BatchNorm1d(16))
    model[2].eval()
    optimizer = sgd(model)
    for x, y in batches():
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
