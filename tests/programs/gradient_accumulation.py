"""Gradient accumulation, clipping and a cosine schedule with warm restarts."""

import torch
import torch.nn as nn
from torch.optim.lr_scheduler import CosineAnnealingWarmRestarts
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

torch.manual_seed(8)
X = torch.randn(240, 12)
true = torch.randn(12, 3)
Y = (X @ true + 0.3 * torch.randn(240, 3)).argmax(1)

model = nn.Sequential()
model.add_module("hidden", nn.Linear(12, 24))
model.add_module("norm", nn.GroupNorm(4, 24))
model.add_module("act", nn.SiLU())
model.add_module("out", nn.Linear(24, 3))
for name, parameter in model.named_parameters():
    print(name, tuple(parameter.shape))

accumulate, max_norm = 4, 0.5
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=5, T_mult=2, eta_min=0.01)
criterion = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 1.5, 0.8]), reduction="sum")
dataset = TensorDataset(X, Y)
sampler = BatchSampler(RandomSampler(dataset), batch_size=15, drop_last=False)
loader = DataLoader(dataset, batch_sampler=sampler)

for epoch in range(6):
    losses, norms = 0.0, []
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / (accumulate * len(x))
        loss.backward()
        losses += loss.item()
        if (i + 1) % accumulate == 0:
            norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm).item())
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step(epoch + i / len(loader))
    print(
        f"epoch {epoch} loss {losses:.5f} norm {sum(norms) / len(norms):.5f} "
        f"lr {optimizer.param_groups[0]['lr']:.6f}"
    )
vector = nn.utils.parameters_to_vector(model.parameters())
print(vector.numel(), f"{vector.norm().item():.5f}")
