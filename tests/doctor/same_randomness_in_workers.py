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


def train(dataset, seed=None):
    loader = DataLoader(dataset, batch_size=4, shuffle=True, num_workers=2, worker_init_fn=seed)
    model = classifier()
    optimizer = sgd(model)
    for x, y in loader:  # found
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()


def faulty_copied_generator():
    train(Noisy(own=True))


class Shifted(Noisy):
    """It draws by a function, from a stream of the module."""

    def __init__(self):
        super().__init__(own=False)
        self.transforms = [lambda x: x + stream.random()]

    def __getitem__(self, i):
        x, y = torch.full((8,), i / 32), i % 3
        for transform in self.transforms:
            x = transform(x)
        return x, y


stream = random.Random(0)


def faulty_stream_of_the_module():
    train(Shifted())


def faulty_same_seed():
    train(Noisy(own=False), lambda worker: random.seed(0))


def clean():
    train(Noisy(own=False))


IGNORED = {"slow-loader"}
