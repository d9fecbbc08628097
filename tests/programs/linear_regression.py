"""Linear regression: a line through noisy points, with plain SGD."""

import torch
import torch.nn as nn

torch.manual_seed(0)

x = torch.linspace(-1, 1, 100).unsqueeze(1)
y = 3 * x + 2 + 0.1 * torch.randn(x.size())

model = nn.Linear(1, 1)
criterion = nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(60):
    prediction = model(x)
    loss = criterion(prediction, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (epoch + 1) % 10 == 0:
        print(f"Epoch [{epoch + 1}/60], Loss: {loss.item():.6f}")

w, b = model.weight.item(), model.bias.item()
print(f"learned: y = {w:.5f} x + {b:.5f}")
with torch.no_grad():
    print("at 0.5:", model(torch.tensor([[0.5]])).item())
