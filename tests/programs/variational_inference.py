"""Variational inference by hand: gradients through samples of a gamma and a normal distribution."""

import torch
from torch.distributions import Gamma, Normal, biject_to, constraints, kl_divergence

torch.manual_seed(0)
x = torch.linspace(-1, 1, 40)
y = 1.5 * x - 0.3 + 0.4 * torch.randn(40)

mean = torch.zeros(2, requires_grad=True)
raw = torch.full((2,), -1.0, requires_grad=True)
shape = torch.tensor(1.0, requires_grad=True)
rate = torch.tensor(0.0, requires_grad=True)
positive = biject_to(constraints.positive)
optimizer = torch.optim.Adam([mean, raw, shape, rate], lr=0.05)
prior, precision_prior = Normal(torch.zeros(2), 1.0), Gamma(2.0, 1.0)

for step in range(300):
    weights = Normal(mean, positive(raw))
    precision = Gamma(positive(shape), positive(rate))
    w, tau = weights.rsample((8,)), precision.rsample((8,))
    predicted = w[:, :1] * x + w[:, 1:]
    fit = Normal(predicted, tau.rsqrt().unsqueeze(-1)).log_prob(y).sum(-1).mean()
    divergence = kl_divergence(weights, prior).sum() + kl_divergence(precision, precision_prior)
    loss = divergence - fit
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 60 == 0:
        print(step, f"{loss.item():.2f}")

print("weights", [round(v, 2) for v in mean.tolist()])
print("precision", f"{precision.mean.item():.1f}")
