"""Waiting for data."""

import time

import rushlight as torch
from doctor.parts import batches, classifier, sgd
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, i):
        time.sleep(0.02)
        return torch.full((8,), i / 32), i % 3


def train(loader):
    model = classifier()
    optimizer = sgd(model)
    for x, y in loader:  # found
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def faulty():
    train(DataLoader(Slow(), batch_size=4, shuffle=True))


def clean():
    train(batches())
