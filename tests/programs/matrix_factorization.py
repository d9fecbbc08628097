"""Matrix factorisation for recommendations: embeddings with biases, minibatches, early stop."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

torch.manual_seed(17)
USERS, ITEMS = 40, 30


class Ratings(Dataset):
    def __init__(self):
        taste, style = torch.randn(USERS, 3), torch.randn(ITEMS, 3)
        full = (taste @ style.T + 0.1 * torch.randn(USERS, ITEMS)).clamp(-2, 2) + 3
        known = torch.rand(USERS, ITEMS) < 0.4
        self.users, self.items = known.nonzero(as_tuple=True)
        self.values = full[known]

    def __len__(self):
        return self.values.numel()

    def __getitem__(self, i):
        return {"user": self.users[i], "item": self.items[i], "rating": self.values[i]}


class Factorization(nn.Module):
    def __init__(self, factors=4):
        super().__init__()
        self.user = nn.Embedding(USERS, factors)
        self.item = nn.Embedding(ITEMS, factors)
        self.user_bias = nn.Embedding(USERS, 1)
        self.item_bias = nn.Embedding(ITEMS, 1)
        self.mean = nn.Parameter(torch.tensor(3.0))
        for table in (self.user, self.item):
            nn.init.normal_(table.weight, std=0.1)
        for table in (self.user_bias, self.item_bias):
            nn.init.zeros_(table.weight)

    def forward(self, users, items):
        dot = (self.user(users) * self.item(items)).sum(-1)
        return (
            dot + self.user_bias(users).squeeze(-1) + self.item_bias(items).squeeze(-1) + self.mean
        )


ratings = Ratings()
order = torch.randperm(len(ratings)).tolist()
cut = int(0.8 * len(order))
generator = torch.Generator().manual_seed(4)
train = DataLoader(
    Subset(ratings, order[:cut]), batch_size=32, shuffle=True, generator=generator, drop_last=True
)
held_out = DataLoader(Subset(ratings, order[cut:]), batch_size=256)
model = Factorization()
optimizer = torch.optim.Adam(
    [
        {"params": [model.user.weight, model.item.weight], "weight_decay": 1e-3},
        {"params": [model.user_bias.weight, model.item_bias.weight, model.mean], "lr": 0.02},
    ],
    lr=0.03,
)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
best, waited = float("inf"), 0
for epoch in range(1, 13):
    model.train()
    for batch in train:
        error = model(batch["user"], batch["item"]) - batch["rating"]
        loss = error.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        batch = next(iter(held_out))
        rmse = (model(batch["user"], batch["item"]) - batch["rating"]).square().mean().sqrt()
    plateau.step(rmse)
    print(f"epoch {epoch}: train {loss.item():.5f} held-out rmse {rmse.item():.5f}", end=" ")
    print("lr", [round(g["lr"], 6) for g in optimizer.param_groups])
    if rmse.item() < best - 1e-4:
        best, waited = rmse.item(), 0
    else:
        waited += 1
        if waited > 3:
            print("stopped early")
            break
