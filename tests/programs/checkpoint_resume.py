"""Save, resume and go on: model, optimizer, scheduler and random state in one file."""

import copy
import os
import tempfile

import torch
import torch.nn as nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.BatchNorm1d(width)
        self.linear = nn.Linear(width, width)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(torch.relu(self.linear(self.norm(x))))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 16)
        self.blocks = nn.ModuleList([Block(16) for _ in range(2)])
        self.heads = nn.ModuleDict({"mean": nn.Linear(16, 1), "scale": nn.Linear(16, 1)})
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.steps += 1
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.heads["mean"](x), nn.functional.softplus(self.heads["scale"](x))


def make():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=40)
    return model, optimizer, scheduler


def train(model, optimizer, scheduler, start, stop):
    model.train()
    for step in range(start, stop):
        x = torch.randn(32, 6)
        y = x.sin().sum(1, keepdim=True)
        mean, scale = model(x)
        loss = nn.functional.gaussian_nll_loss(mean, y, scale)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        if (step + 1) % 5 == 0:
            print(f"step {step + 1} loss {loss.item():.5f} lr {scheduler.get_last_lr()[0]:.6f}")


torch.manual_seed(31)
model, optimizer, scheduler = make()
train(model, optimizer, scheduler, 0, 15)
path = os.path.join(tempfile.mkdtemp(), "checkpoint.pt")
torch.save(
    {
        "step": 15,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(),
        "rng": torch.get_rng_state(),
    },
    path,
)
frozen = copy.deepcopy(model).eval()
train(model, optimizer, scheduler, 15, 25)

torch.manual_seed(0)
resumed = make()
checkpoint = torch.load(path)
for part, key in zip(resumed, ("model", "optimizer", "scheduler")):
    print(key, part.load_state_dict(checkpoint[key]))
torch.set_rng_state(checkpoint["rng"])
train(*resumed, checkpoint["step"], 25)
os.remove(path)

same = all(torch.equal(a, b) for a, b in zip(model.parameters(), resumed[0].parameters()))
print("resumed run equals the other:", same, resumed[0].steps.item(), frozen.steps.item())
print(sorted(model.state_dict())[:3])
try:
    frozen.load_state_dict({"nonsense": torch.zeros(1)})
except RuntimeError as error:
    print(str(error).split("\n")[0])
