"""The order of training data."""

import rushlight as torch
from doctor.parts import classifier, data, sgd
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset


def train(sort, **options):
    x, y = data(96)
    order = y.argsort() if sort else torch.arange(96)
    loader = DataLoader(TensorDataset(x[order], y[order]), batch_size=8, **options)
    model = classifier()
    optimizer = sgd(model)
    for _ in range(2):
        for inputs, labels in loader:  # found
            optimizer.zero_grad()
            F.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


def faulty():
    train(True)


def clean():
    train(True, shuffle=True)


def clean_order_by_chance():
    train(False)
