"""Random numbers in the workers of a loader."""

import random

import rushlight as torch
from doctor.parts import classifier, sgd
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __init__(self, own):
        self.random = random.Random(0) if own else random

    def __len__(self):
        return 32

    def __getitem__(self, i):
        return torch.full((8,), i / 32) + self.random.random(), i % 3


def train(own, seed=None):
    loader = DataLoader(Noisy(own), batch_size=4, shuffle=True, num_workers=2, worker_init_fn=seed)
    model = classifier()
    optimizer = sgd(model)
    for x, y in loader:  # found
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def faulty_copied_generator():
    train(True)


def faulty_same_seed():
    train(False, lambda worker: random.seed(0))


def clean():
    train(False)


IGNORED = {"slow-loader"}
