"""Data on both sides of the split."""

import rushlight as torch
from doctor.parts import classifier, data, sgd
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, Subset, TensorDataset


def run(training, testing):
    model = classifier()
    optimizer = sgd(model)
    for batch in DataLoader(training, batch_size=16, shuffle=True):
        x, y = batch.values() if isinstance(batch, dict) else batch
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        for batch in DataLoader(testing, batch_size=16):  # found
            model(batch["input"] if isinstance(batch, dict) else batch[0])


def faulty():
    whole = TensorDataset(*data(96))
    run(Subset(whole, range(70)), Subset(whole, range(60, 96)))


class Named(torch.utils.data.Dataset):
    """Samples are dicts."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return {"input": self.x[i], "label": self.y[i]}


def faulty_dicts():
    whole = Named(*data(96))
    run(Subset(whole, range(70)), Subset(whole, range(60, 96)))


def clean():
    whole = TensorDataset(*data(96))
    run(Subset(whole, range(64)), Subset(whole, range(64, 96)))


def clean_figures_of_training():
    """The very dataset of training: its own accuracy is meant."""
    whole = TensorDataset(*data(96))
    run(whole, whole)


def clean_folds():
    """Each fold trains a model of its own."""
    whole = TensorDataset(*data(96))
    for k in range(3):
        held = range(32 * k, 32 * k + 32)
        run(Subset(whole, [i for i in range(96) if i not in held]), Subset(whole, list(held)))
