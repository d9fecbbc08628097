"""LeNet on handwritten digits: convolutions, pooling, and what the network confuses.

The pictures of scikit-learn have 8 x 8 pixels; they are enlarged to 16 x 16. At the
end a table of true digits against answers says which of them it takes for another.

Reaches 95 % accuracy on 360 pictures that it was not trained on, after 8 epochs.

    python examples/lenet.py --epochs 8 --seed 0
"""

import argparse

from sklearn.datasets import load_digits

import rushlight as torch
import rushlight.nn.functional as F
from rushlight import nn


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, kernel_size=5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, kernel_size=5, padding=2)
        self.fc1 = nn.Linear(16 * 4 * 4, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


def load(seed):
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    images = F.interpolate(images, size=(16, 16), mode="bilinear", align_corners=False)
    images = (images - images.mean()) / images.std()
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    test, train = order[:360], order[360:]
    return (images[train], labels[train]), (images[test], labels[test])


@torch.no_grad()
def predictions(model, images):
    model.eval()
    return model(images).argmax(dim=1)


def confusion(predicted, labels):
    """A 10 x 10 table: row the true digit, column the answer."""
    table = torch.zeros(100, dtype=torch.int64)
    table.index_add_(0, labels * 10 + predicted, torch.ones_like(labels))
    return table.view(10, 10)


def main(epochs=8, seed=0, batch=32):
    """Trains and returns the accuracy on the pictures kept apart."""
    torch.manual_seed(seed)
    (images, labels), (test_images, test_labels) = load(seed)
    model = LeNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for rows in torch.randperm(len(labels)).split(batch):
            loss = F.cross_entropy(model(images[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        scheduler.step()
        right = (predictions(model, test_images) == test_labels).float().mean().item()
        print(f"epoch {epoch:2}  loss {total / len(labels):.4f}  accuracy {right:.1%}")

    table = confusion(predictions(model, test_images), test_labels)
    for digit in range(10):
        wrong = [
            (n, other) for other, n in enumerate(table[digit].tolist()) if n and other != digit
        ]
        if wrong:
            print(
                f"taken for another: {digit} as", *(f"{o} ({n}x)" for n, o in sorted(wrong)[::-1])
            )
    return table.diagonal().sum().item() / table.sum().item()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
