"""GPyTorch: an exact Gaussian process, trained and asked."""

import math

import gpytorch
import torch

torch.set_default_dtype(torch.float64)
torch.manual_seed(0)
x = torch.linspace(0, 1, 50)
y = torch.sin(x * 2 * math.pi) + torch.randn(50) * 0.2


class Model(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(x, y, likelihood)
model.train()
likelihood.train()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
for step in range(30):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, f"{loss.item():.5f}")
print(f"{model.covar_module.base_kernel.lengthscale.item():.5f} {likelihood.noise.item():.5f}")
model.eval()
likelihood.eval()
with torch.no_grad():
    predicted = likelihood(model(torch.linspace(0, 1, 5)))
print([f"{v:.4f}" for v in predicted.mean.tolist()])
print([f"{v:.4f}" for v in predicted.variance.tolist()])
