"""Pyro: Hamiltonian Monte Carlo and NUTS on a small regression."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import HMC, MCMC, NUTS

torch.set_default_dtype(torch.float64)
pyro.set_rng_seed(0)
x = torch.linspace(-1, 1, 20)
y = 2 * x + 0.5 + 0.1 * torch.randn(20)


def regression():
    slope = pyro.sample("slope", dist.Normal(0.0, 1.0))
    shift = pyro.sample("shift", dist.Normal(0.0, 1.0))
    noise = pyro.sample("noise", dist.HalfCauchy(torch.tensor(1.0)))
    with pyro.plate("points", 20):
        pyro.sample("y", dist.Normal(slope * x + shift, noise), obs=y)


for kernel in (HMC(regression, step_size=0.05, num_steps=5), NUTS(regression)):
    chain = MCMC(kernel, num_samples=20, warmup_steps=10, disable_progbar=True)
    chain.run()
    for name, values in chain.get_samples().items():
        print(type(kernel).__name__, name, f"{values.mean().item():.5f} {values[-1].item():.5f}")
