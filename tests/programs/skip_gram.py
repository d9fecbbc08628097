"""Word embeddings by skip-gram with negative sampling."""

from collections import Counter

import torch
import torch.nn as nn
import torch.nn.functional as F

TEXT = """the quick brown fox jumps over the lazy dog while the small grey cat sleeps near the warm
fire and the lazy dog dreams of the quick fox that jumps over the cold river near the old mill
where the small cat waits for the grey mouse and the warm night falls over the old quiet town"""

words = TEXT.split()
counts = Counter(words)
vocabulary = sorted(counts)
index = {w: i for i, w in enumerate(vocabulary)}
window, negatives = 2, 5

pairs = [
    (index[words[i]], index[words[j]])
    for i in range(len(words))
    for j in range(max(0, i - window), min(len(words), i + window + 1))
    if i != j
]
noise = torch.tensor([counts[w] for w in vocabulary], dtype=torch.float).pow(0.75)
noise = noise / noise.sum()


class SkipGram(nn.Module):
    def __init__(self, size, dim):
        super().__init__()
        self.centre = nn.Embedding(size, dim)
        self.context = nn.Embedding(size, dim)
        bound = 0.5 / dim
        self.centre.weight.data.uniform_(-bound, bound)
        self.context.weight.data.zero_()

    def forward(self, centre, context, negative):
        c = self.centre(centre)
        positive = torch.sum(c * self.context(context), dim=1)
        against = torch.bmm(self.context(negative), c.unsqueeze(2)).squeeze(2)
        return -(F.logsigmoid(positive) + F.logsigmoid(-against).sum(1)).mean()


torch.manual_seed(2)
model = SkipGram(len(vocabulary), 16)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.2)
data = torch.tensor(pairs)
for epoch in range(10):
    order = torch.randperm(len(data))
    total = 0.0
    for chunk in order.split(32):
        centre, context = data[chunk].unbind(1)
        negative = torch.multinomial(noise, len(chunk) * negatives, replacement=True)
        loss = model(centre, context, negative.view(len(chunk), negatives))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(chunk)
    print(f"epoch {epoch + 1:2d} loss {total / len(data):.5f}")

weights = F.normalize(model.centre.weight.detach(), dim=1)
similar = weights @ weights[index["fox"]]
values, best = similar.topk(4)
print("near fox:", [(vocabulary[i], round(v, 4)) for i, v in zip(best.tolist(), values.tolist())])
