"""botorch: a Gaussian process, acquisition functions, and their optimisation."""

import torch
from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
from botorch.acquisition.logei import qLogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
x = torch.rand(8, 2, dtype=torch.float64)
y = 1 - (x - 0.4).square().sum(-1, keepdim=True)
model = SingleTaskGP(x, y, input_transform=Normalize(2), outcome_transform=Standardize(1))
fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
posterior = model.posterior(x[:3] + 0.05)
print("posterior", posterior.mean.flatten().tolist())

bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
point = torch.full((1, 2), 0.6, dtype=torch.float64, requires_grad=True)
for kind in (LogExpectedImprovement(model, best_f=y.max()), UpperConfidenceBound(model, beta=0.2)):
    value = kind(point)
    (gradient,) = torch.autograd.grad(value.sum(), point)
    print(type(kind).__name__, value.item(), gradient.flatten().tolist())

upper = UpperConfidenceBound(model, beta=0.2)
torch.manual_seed(1)
candidate, value = optimize_acqf(upper, bounds=bounds, q=1, num_restarts=2, raw_samples=16)
print("best", [round(v, 3) for v in candidate.flatten().tolist()], round(value.item(), 4))
torch.manual_seed(2)
several = qLogExpectedImprovement(model, best_f=y.max())
print("qLogEI", several(torch.rand(2, 2, 2, dtype=torch.float64)).tolist())
