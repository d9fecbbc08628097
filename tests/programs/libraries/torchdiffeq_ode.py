"""torchdiffeq: solvers, and a neural differential equation trained by the adjoint method."""

import torch
from torchdiffeq import odeint, odeint_adjoint

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
spiral = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
start, times = torch.tensor([[2.0, 0.0]]), torch.linspace(0, 2, 15)
with torch.no_grad():
    true = odeint(lambda t, y: (y**3) @ spiral, start, times, method="dopri5")


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
        )

    def forward(self, t, y):
        return self.net(y**3)


field = Field()
for method in ("dopri5", "rk4", "euler", "midpoint"):
    print(method, [f"{v:.6f}" for v in odeint(field, start, times, method=method)[-1, 0].tolist()])
optimizer = torch.optim.Adam(field.parameters(), 1e-2)
for _ in range(5):
    optimizer.zero_grad()
    loss = (odeint_adjoint(field, start, times) - true).abs().mean()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
