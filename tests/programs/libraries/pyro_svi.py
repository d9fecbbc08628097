"""Pyro: stochastic variational inference, with a guide by hand and with an automatic one."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoNormal
from pyro.optim import Adam
from torch.distributions import constraints

torch.set_default_dtype(torch.float64)
pyro.set_rng_seed(1)
data = torch.tensor([1.0] * 6 + [0.0] * 4)


def model(data):
    fairness = pyro.sample("fairness", dist.Beta(10.0, 10.0))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", dist.Bernoulli(fairness), obs=data)


def guide(data):
    a = pyro.param("a", torch.tensor(15.0), constraint=constraints.positive)
    b = pyro.param("b", torch.tensor(15.0), constraint=constraints.positive)
    pyro.sample("fairness", dist.Beta(a, b))


svi = SVI(model, guide, Adam({"lr": 0.005}), loss=Trace_ELBO())
losses = [svi.step(data) for _ in range(60)]
print([round(loss, 2) for loss in losses[::12]])
print(round(pyro.param("a").item(), 2), round(pyro.param("b").item(), 2))

pyro.clear_param_store()
pyro.set_rng_seed(2)
x = torch.linspace(-1, 1, 20)
y = 2 * x + 0.5 + 0.1 * torch.randn(20)


def regression():
    slope = pyro.sample("slope", dist.Normal(0.0, 1.0))
    shift = pyro.sample("shift", dist.Normal(0.0, 1.0))
    noise = pyro.sample("noise", dist.LogNormal(0.0, 1.0))
    with pyro.plate("points", 20):
        pyro.sample("y", dist.Normal(slope * x + shift, noise), obs=y)


automatic = AutoNormal(regression)
svi = SVI(regression, automatic, Adam({"lr": 0.03}), loss=Trace_ELBO())
losses = [svi.step() for _ in range(200)]
print([round(loss, 3) for loss in losses[::40]])
print({name: round(value.item(), 4) for name, value in automatic.median().items()})
