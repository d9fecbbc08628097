"""Metric learning: a siamese network with triplet and contrastive losses, cosine neighbours."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(23)
CLASSES, DIM = 5, 10
prototypes = torch.randn(CLASSES, DIM)


def sample(labels):
    return prototypes[labels] + 0.6 * torch.randn(len(labels), DIM)


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(DIM, 32), nn.PReLU(), nn.LayerNorm(32), nn.Linear(32, 8))

    def forward(self, x):
        return F.normalize(self.net(x), p=2, dim=1)


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, a, b, same):
        distance = F.pairwise_distance(a, b)
        apart = torch.clamp(self.margin - distance, min=0.0)
        return torch.mean(same * distance.pow(2) + (1 - same) * apart.pow(2))


model = Embedder()
triplet, contrastive = nn.TripletMarginLoss(margin=0.5), ContrastiveLoss()
optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)
for step in range(1, 41):
    anchor = torch.randint(0, CLASSES, (48,))
    other = (anchor + torch.randint(1, CLASSES, (48,))) % CLASSES
    a, p, n = model(sample(anchor)), model(sample(anchor)), model(sample(other))
    same = (torch.rand(48) < 0.5).float()
    second = torch.where(same.bool().unsqueeze(1), p, n)
    loss = triplet(a, p, n) + 0.5 * contrastive(a, second, same)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 0:
        print(f"step {step}: loss {loss.item():.5f}")

model.eval()
with torch.no_grad():
    labels = torch.arange(50) % CLASSES
    queries, gallery = model(sample(labels)), model(prototypes)
    similarity = F.cosine_similarity(queries.unsqueeze(1), gallery.unsqueeze(0), dim=-1)
    found = similarity.argmax(dim=1)
    print("recall@1:", (found == labels).float().mean().item())
    print("mean similarity:", similarity.mean(dim=0))
