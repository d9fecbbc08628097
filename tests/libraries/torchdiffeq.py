"""torchdiffeq: solvers, the adjoint method, events, and a neural ODE that is trained."""

import torch
from torchdiffeq import odeint, odeint_adjoint, odeint_event

torch.manual_seed(0)


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)
        )

    def forward(self, t, y):
        return self.net(y**3)


times = torch.linspace(0.0, 1.0, 8, dtype=torch.float64)
start = torch.tensor([[2.0, 0.0]], dtype=torch.float64)
field = Field().double()
for method in ("euler", "midpoint", "rk4", "bosh3", "dopri5", "dopri8", "adaptive_heun"):
    options = {"rtol": 1e-6, "atol": 1e-8}
    print(method, odeint(field, start, times, method=method, **options)[-1].tolist())

for solve in (odeint, odeint_adjoint):
    field.zero_grad()
    solve(field, start, times, rtol=1e-6, atol=1e-8).square().sum().backward()
    print(solve.__name__, [p.grad.norm().item() for p in field.parameters()])

optimizer = torch.optim.Adam(field.parameters(), lr=0.01)
for step in range(5):
    optimizer.zero_grad()
    loss = (odeint_adjoint(field, start, times, method="dopri5") - 1).abs().mean()
    loss.backward()
    optimizer.step()
    print("loss", step, loss.item())

t, y = odeint_event(
    lambda t, y: torch.stack((y[1], torch.tensor(-9.8, dtype=torch.float64))),
    torch.tensor([10.0, 0.0], dtype=torch.float64),
    torch.tensor(0.0, dtype=torch.float64),
    event_fn=lambda t, y: y[0],
    atol=1e-8,
    rtol=1e-8,
)
print("event", t.item(), y[-1, 1].item())
