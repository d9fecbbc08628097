"""Data from worker processes: augmentation by each worker's own random numbers."""

import random

import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset, WeightedRandomSampler


class Waves(Dataset):
    def __init__(self, n, phase):
        self.x = torch.linspace(0, 6, n).unsqueeze(1)
        self.y = torch.sin(self.x + phase)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        jitter = 0.01 * torch.randn(1) + 0.001 * random.random()
        return self.x[i] + jitter, self.y[i]


def collate(samples):
    x, y = zip(*samples)
    return torch.stack(x), torch.stack(y)


def seed_worker(worker_id):
    random.seed(torch.initial_seed() % 2**32)


def main():
    torch.manual_seed(19)
    dataset = ConcatDataset([Waves(60, 0.0), Waves(36, 0.1)])
    weights = torch.cat([torch.ones(60), torch.full((36,), 0.25)])
    loader = DataLoader(
        dataset,
        batch_size=16,
        sampler=WeightedRandomSampler(weights, num_samples=96, replacement=True),
        num_workers=2,
        collate_fn=collate,
        worker_init_fn=seed_worker,
    )
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(4):
        total = 0.0
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.6f}, first input {x[0].item():.6f}")
    print(f"next random number {torch.rand(1).item():.6f}")


if __name__ == "__main__":
    main()
