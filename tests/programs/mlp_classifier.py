"""A multilayer perceptron on two spirals: DataLoader, Adam, accuracy on held-out points."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(42)


def spirals(n):
    t = torch.rand(n) * 3 * math.pi
    label = torch.randint(0, 2, (n,))
    angle = t + label * math.pi
    points = torch.stack([t * torch.cos(angle), t * torch.sin(angle)], dim=1) / 10
    return points + 0.02 * torch.randn(n, 2), label


class Net(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.fc1 = nn.Linear(2, hidden)
        self.fc2 = nn.Linear(hidden, hidden)
        self.dropout = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, 2)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = self.dropout(F.relu(self.fc2(x)))
        return self.out(x)


dataset = TensorDataset(*spirals(800))
train_set, test_set = random_split(dataset, [640, 160])
train_loader = DataLoader(train_set, batch_size=64, shuffle=True)
test_loader = DataLoader(test_set, batch_size=80)

model = Net().to(device)
print(model)
print("parameters:", sum(p.numel() for p in model.parameters() if p.requires_grad))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()

for epoch in range(6):
    model.train()
    running = 0.0
    for inputs, targets in train_loader:
        inputs, targets = inputs.to(device), targets.to(device)
        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        optimizer.step()
        running += loss.item() * inputs.size(0)
    model.eval()
    correct = total = 0
    test_loss = 0.0
    with torch.no_grad():
        for inputs, targets in test_loader:
            outputs = model(inputs)
            test_loss += criterion(outputs, targets).item()
            correct += (outputs.argmax(dim=1) == targets).sum().item()
            total += targets.size(0)
    print(
        f"epoch {epoch + 1}: train {running / len(train_set):.5f} "
        f"test {test_loss / len(test_loader):.5f} accuracy {100.0 * correct / total:.1f}%"
    )
