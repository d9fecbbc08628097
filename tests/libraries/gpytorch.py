"""gpytorch: exact regression, a sparse variational model, kernels, and predictions."""

import gpytorch
import torch

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x = torch.linspace(0, 1, 40)
y = torch.sin(6.28 * x) + 0.1 * torch.randn(40)


class Exact(gpytorch.models.ExactGP):
    def __init__(self, x, y, likelihood):
        super().__init__(x, y, likelihood)
        self.mean = gpytorch.means.ConstantMean()
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Exact(x, y, likelihood)
objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for step in range(10):
    optimizer.zero_grad()
    loss = -objective(model(x), y)
    loss.backward()
    optimizer.step()
    print("exact", step, loss.item())
model.eval(), likelihood.eval()
with torch.no_grad(), gpytorch.settings.fast_pred_var():
    predicted = likelihood(model(torch.linspace(0, 1, 5)))
    print("mean", predicted.mean.tolist(), "variance", predicted.variance.tolist())
    lower, upper = predicted.confidence_region()
    print("region", lower.sum().item(), upper.sum().item())


class Sparse(gpytorch.models.ApproximateGP):
    def __init__(self, points):
        q = gpytorch.variational.CholeskyVariationalDistribution(points.size(0))
        strategy = gpytorch.variational.VariationalStrategy(self, points, q)
        super().__init__(strategy)
        self.mean = gpytorch.means.LinearMean(1)
        self.kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(nu=2.5))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))


model, likelihood = Sparse(x[::8, None].clone()), gpytorch.likelihoods.GaussianLikelihood()
objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
for step in range(5):
    optimizer.zero_grad()
    loss = -objective(model(x[:, None]), y)
    loss.backward()
    optimizer.step()
    print("sparse", step, loss.item())

for kernel in (
    gpytorch.kernels.PeriodicKernel(),
    gpytorch.kernels.RQKernel(),
    gpytorch.kernels.LinearKernel(),
    gpytorch.kernels.PolynomialKernel(power=2),
):
    print(type(kernel).__name__, kernel(x[:6, None]).to_dense().sum().item())
