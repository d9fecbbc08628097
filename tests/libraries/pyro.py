"""pyro: stochastic variational inference with an autoguide, NUTS, and enumeration."""

import pyro
import pyro.distributions as dist
import torch
from pyro.infer import MCMC, NUTS, SVI, Trace_ELBO, TraceEnum_ELBO, config_enumerate
from pyro.infer.autoguide import AutoDiagonalNormal, AutoMultivariateNormal

pyro.set_rng_seed(0)
x = torch.linspace(-1, 1, 20)
y = 1.5 * x - 0.5 + 0.1 * torch.randn(20)


def regression(x, y=None):
    slope = pyro.sample("slope", dist.Normal(0.0, 2.0))
    offset = pyro.sample("offset", dist.Normal(0.0, 2.0))
    sigma = pyro.sample("sigma", dist.HalfNormal(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(slope * x + offset, sigma), obs=y)


for guide in (AutoDiagonalNormal(regression), AutoMultivariateNormal(regression)):
    pyro.clear_param_store()
    svi = SVI(regression, guide, pyro.optim.Adam({"lr": 0.05}), Trace_ELBO())
    print(type(guide).__name__, [svi.step(x, y) for _ in range(8)])

pyro.set_rng_seed(1)
chain = MCMC(NUTS(regression), num_samples=6, warmup_steps=6, disable_progbar=True)
chain.run(x.double(), y.double())
print("nuts", {k: v.mean().item() for k, v in sorted(chain.get_samples().items())})


@config_enumerate
def mixture(data):
    weights = pyro.param("weights", torch.tensor([0.4, 0.6]), constraint=dist.constraints.simplex)
    centres = pyro.param("centres", torch.tensor([-1.0, 1.0]))
    with pyro.plate("points", len(data)):
        which = pyro.sample("which", dist.Categorical(weights))
        pyro.sample("x", dist.Normal(centres[which], 0.5), obs=data)


pyro.clear_param_store()
data = torch.cat([torch.randn(10) - 2, torch.randn(10) + 2])
svi = SVI(
    mixture, lambda data: None, pyro.optim.Adam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1)
)
print("enumerated", [svi.step(data) for _ in range(5)], pyro.param("centres").tolist())
