"""A classifier of handwritten digits: the plainest whole training program.

1797 pictures of 8 x 8 pixels (scikit-learn carries them) go through a perceptron of one hidden
layer. Shown here: a dataset and its split, shuffled batches, a module, an optimizer, a schedule of
the learning rate, and the switch between training and evaluation.

Reaches 96 % accuracy on 360 pictures that it was not trained on, after 12 epochs.

    python examples/digits_classifier.py --epochs 12 --seed 0
"""

import argparse

from sklearn.datasets import load_digits

import rushlight as torch
from rushlight import nn
from rushlight.utils.data import DataLoader, TensorDataset, random_split


class Classifier(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, hidden),
            nn.ReLU(),
            nn.Dropout(0.2),
            nn.Linear(hidden, 10),
        )

    def forward(self, images):
        return self.layers(images)


def load(seed):
    """The digits as two datasets: 1437 pictures to learn from, 360 to test with."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    dataset = TensorDataset(images, labels)
    split = torch.Generator().manual_seed(seed)
    return random_split(dataset, [len(dataset) - 360, 360], generator=split)


def train(model, loader, optimizer, scheduler):
    """One epoch; returns the mean loss."""
    criterion = nn.CrossEntropyLoss()
    model.train()
    total = 0.0
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item()
    return total / len(loader)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = sum((model(images).argmax(dim=1) == labels).sum().item() for images, labels in loader)
    return right / len(loader.dataset)


def main(epochs=12, seed=0):
    """Trains and returns the accuracy on the pictures kept apart."""
    torch.manual_seed(seed)
    training, testing = load(seed)
    loader = DataLoader(training, batch_size=32, shuffle=True)
    test_loader = DataLoader(testing, batch_size=120)

    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=2e-2, epochs=epochs, steps_per_epoch=len(loader)
    )
    for epoch in range(1, epochs + 1):
        loss = train(model, loader, optimizer, scheduler)
        print(f"epoch {epoch:2}  loss {loss:.4f}  accuracy {accuracy(model, test_loader):.1%}")
    return accuracy(model, test_loader)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
