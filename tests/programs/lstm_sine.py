"""An LSTM that continues a sine wave."""

import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(3)
np.random.seed(3)


class LSTMModel(nn.Module):
    def __init__(self, input_size=1, hidden_size=24, num_layers=2, dropout=0.1):
        super().__init__()
        self.hidden_size, self.num_layers = hidden_size, num_layers
        self.lstm = nn.LSTM(input_size, hidden_size, num_layers, batch_first=True, dropout=dropout)
        self.fc = nn.Linear(hidden_size, 1)

    def forward(self, x, state=None):
        if state is None:
            h0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size)
            c0 = torch.zeros(self.num_layers, x.size(0), self.hidden_size)
            state = (h0, c0)
        out, state = self.lstm(x, state)
        return self.fc(out), state


phase = np.random.rand(32, 1) * 2 * np.pi
wave = np.sin(phase + np.arange(21) / 3).astype(np.float32)
data = torch.from_numpy(wave).unsqueeze(-1)
inputs, targets = data[:, :-1], data[:, 1:]

model = LSTMModel()
criterion = nn.MSELoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(1, 26):
    model.train()
    optimizer.zero_grad()
    output, _ = model(inputs)
    loss = criterion(output, targets)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    optimizer.step()
    if epoch % 5 == 0:
        print(f"epoch {epoch:3d} loss {loss.item():.6f}")

model.eval()
with torch.no_grad():
    _, state = model(inputs[:1])
    value = inputs[:1, -1:]
    future = []
    for _ in range(5):
        value, state = model(value, state)
        future.append(value.item())
print("future:", " ".join(f"{v:.4f}" for v in future))
