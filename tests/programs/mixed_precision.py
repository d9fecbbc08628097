"""Mixed precision on the CPU: autocast to bfloat16 with a scaler that is off, and SWA."""

import torch
import torch.nn as nn
from torch.optim.swa_utils import SWALR, AveragedModel

torch.manual_seed(12)
data = torch.randn(256, 20)
target = torch.sin(data[:, :4].sum(1, keepdim=True))
model = nn.Sequential(
    nn.Linear(20, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scaler = torch.amp.GradScaler("cpu", enabled=False)
averaged = AveragedModel(model)
swa = SWALR(optimizer, swa_lr=1e-3, anneal_epochs=2)
use_cuda = torch.cuda.is_available()

for epoch in range(6):
    total = 0.0
    for x, y in zip(data.split(64), target.split(64)):
        optimizer.zero_grad()
        with torch.autocast("cuda" if use_cuda else "cpu", dtype=torch.bfloat16):
            prediction = model(x)
            loss = nn.functional.mse_loss(prediction.float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    if epoch >= 3:
        averaged.update_parameters(model)
        swa.step()
    print(f"epoch {epoch}: loss {total / 4:.4f} {prediction.dtype} {model[0].weight.dtype}")
with torch.no_grad():
    error = nn.functional.mse_loss(averaged(data), target)
print(f"averaged over {averaged.n_averaged.item()} models: {error.item():.4f}")
