"""Distributions of one variable, and how to integrate over them."""

import numpy as np

import rushlight as torch
from rushlight import distributions as D


def t(*numbers):
    return torch.tensor(numbers, dtype=torch.float64)


# Where the mass is, for families whose support is not bounded.
CONTINUOUS = {
    "Beta": (lambda: D.Beta(t(1.5, 3.0), t(2.5, 1.2)), 0, 1),
    "Cauchy": (lambda: D.Cauchy(t(-0.5, 1.0), t(1.0, 0.3)), -np.inf, np.inf),
    "Chi2": (lambda: D.Chi2(t(3.0, 6.5)), 0, np.inf),
    "ContinuousBernoulli": (lambda: D.ContinuousBernoulli(t(0.2, 0.5)), 0, 1),
    "Exponential": (lambda: D.Exponential(t(0.5, 2.0)), 0, np.inf),
    "FisherSnedecor": (lambda: D.FisherSnedecor(t(3.0, 4.0), t(9.0, 12.0)), 0, np.inf),
    "Gamma": (lambda: D.Gamma(t(1.5, 4.0), t(2.0, 0.7)), 0, np.inf),
    "GeneralizedPareto": (
        lambda: D.GeneralizedPareto(t(0.0, 0.0), t(1.0, 2.0), t(0.0, 0.2)),
        0,
        np.inf,
    ),
    "Gumbel": (lambda: D.Gumbel(t(0.5, -1.0), t(1.0, 2.0)), -np.inf, np.inf),
    "HalfCauchy": (lambda: D.HalfCauchy(t(1.0, 2.0)), 0, np.inf),
    "HalfNormal": (lambda: D.HalfNormal(t(1.0, 2.0)), 0, np.inf),
    "InverseGamma": (lambda: D.InverseGamma(t(4.0, 6.5), t(2.0, 3.0)), 0, np.inf),
    "Kumaraswamy": (lambda: D.Kumaraswamy(t(1.5, 2.0), t(2.5, 1.3)), 0, 1),
    "Laplace": (lambda: D.Laplace(t(0.0, 1.5), t(1.0, 0.5)), -np.inf, np.inf),
    "LogNormal": (lambda: D.LogNormal(t(0.0, 0.5), t(0.5, 0.3)), 0, np.inf),
    "Normal": (lambda: D.Normal(t(-1.0, 2.0), t(0.5, 3.0)), -np.inf, np.inf),
    "Pareto": (lambda: D.Pareto(t(1.0, 1.0), t(4.0, 7.0)), 1, np.inf),
    "RelaxedBernoulli": (
        lambda: D.RelaxedBernoulli(t(0.8).squeeze(), t(0.3, 0.6)),
        0,
        1,
    ),
    "StudentT": (lambda: D.StudentT(t(5.0, 9.0), t(0.0, 1.0), t(1.0, 2.0)), -np.inf, np.inf),
    "TransformedDistribution": (
        lambda: D.TransformedDistribution(D.Normal(t(0.3, -0.2), 1.0), [D.TanhTransform()]),
        -1,
        1,
    ),
    "Uniform": (lambda: D.Uniform(t(0.0, 0.0), t(1.0, 1.0)), 0, 1),
    "VonMises": (lambda: D.VonMises(t(0.0, 0.0), t(0.5, 4.0)), -np.pi, np.pi),
    "Weibull": (lambda: D.Weibull(t(1.0, 2.0), t(1.5, 3.0)), 0, np.inf),
    "MixtureSameFamily": (
        lambda: D.MixtureSameFamily(
            D.Categorical(torch.tensor([[0.3, 0.7], [0.5, 0.5]], dtype=torch.float64)),
            D.Normal(torch.tensor([[0.0, 2.0], [-1.0, 1.0]], dtype=torch.float64), 0.8),
        ),
        -np.inf,
        np.inf,
    ),
}
DISCRETE = {
    "Bernoulli": lambda: D.Bernoulli(t(0.2, 0.7)),
    "Binomial": lambda: D.Binomial(9, t(0.2, 0.7)),
    "Categorical": lambda: D.Categorical(
        torch.tensor([[0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    ),
    "Geometric": lambda: D.Geometric(t(0.4, 0.7)),
    "NegativeBinomial": lambda: D.NegativeBinomial(t(3.0, 5.0), t(0.3, 0.5)),
    "Poisson": lambda: D.Poisson(t(0.7, 4.0)),
}


def grid(low, high, steps=1500):
    """Points and weights of a rule that sees ends and tails: tanh-sinh and its relatives."""
    s = np.linspace(-4.3, 4.3, steps)
    h = s[1] - s[0]
    u = np.pi / 2 * np.sinh(s)
    du = np.pi / 2 * np.cosh(s) * h
    if np.isfinite(low) and np.isfinite(high):
        x = low + (high - low) / (1 + np.exp(-2 * u))
        w = (high - low) / 2 * du / np.cosh(u) ** 2
    elif np.isfinite(low):
        x, w = low + np.exp(u), np.exp(u) * du
    else:
        x, w = np.sinh(u), np.cosh(u) * du
    inside = (x > low) & (x < high) & (np.abs(x) < 1e12) & (w > 1e-290)
    return t(*x[inside]).unsqueeze(-1), t(*w[inside]).unsqueeze(-1)


def integrate(d, low, high, f):
    """The mean of f(x) over the density of d."""
    x, w = grid(low, high)
    density = d.log_prob(x.expand(-1, *d.batch_shape)).exp()
    terms = w * density * f(x.expand(-1, *d.batch_shape))
    return torch.where(density > 0, terms, 0.0).sum(0)


def counts(d):
    """The values of a discrete distribution that have any weight to speak of."""
    if d.has_enumerate_support:
        return d.enumerate_support()
    return torch.arange(200.0, dtype=torch.float64).unsqueeze(-1).expand(-1, *d.batch_shape)
