"""Distributions for both libraries: each case makes one from leaves, which it returns too."""

import numpy as np

SEED = 20


def leaves(L, *arrays, dtype="float64"):
    return [L.tensor(np.asarray(a), dtype=getattr(L, dtype)).requires_grad_() for a in arrays]


LOC = [-0.7, 0.2, 1.5]
POSITIVE = [0.6, 1.3, 2.4]
OTHER = [3.1, 0.4, 1.7]
LARGE = [5.5, 6.25, 9.0]
CHANCE = [0.15, 0.5, 0.92]
ROWS = [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]]
LOGITS = [[0.3, -1.0, 0.7], [2.0, 0.1, -0.4]]
SHAPES = [[0.7, 2.0, 1.1], [3.0, 0.4, 5.0]]
TRIL = [[1.2, 0.0, 0.0], [0.3, 0.8, 0.0], [-0.5, 0.2, 1.5]]
COVARIANCE = (np.array(TRIL) @ np.array(TRIL).T).tolist()
FACTOR = [[0.5, -0.2], [0.1, 0.9], [1.1, 0.3]]


def simple(name, *arrays, **options):
    def make(L, dtype):
        p = leaves(L, *arrays, dtype=dtype)
        return getattr(L.distributions, name)(*p, **options), p

    return make


def keyed(name, **arrays):
    def make(L, dtype):
        p = dict(zip(arrays, leaves(L, *arrays.values(), dtype=dtype), strict=True))
        return getattr(L.distributions, name)(**p), list(p.values())

    return make


def relaxed(name, key, array):
    def make(L, dtype):
        t, p = leaves(L, 0.7, array, dtype=dtype)
        return getattr(L.distributions, name)(t, **{key: p}), [t, p]

    return make


def counted(name, count, key, array):
    def make(L, dtype):
        (p,) = leaves(L, array, dtype=dtype)
        return getattr(L.distributions, name)(count, **{key: p}), [p]

    return make


def mixture(L, dtype):
    D = L.distributions
    w, loc, scale = leaves(L, LOGITS, LOGITS, SHAPES, dtype=dtype)
    return D.MixtureSameFamily(D.Categorical(logits=w), D.Normal(loc, scale)), [w, loc, scale]


def mixture_of_vectors(L, dtype):
    D = L.distributions
    w, loc, scale = leaves(L, ROWS[0], np.ones((3, 2)) * 0.3, np.ones((3, 2)), dtype=dtype)
    components = D.Independent(D.Normal(loc, scale), 1)
    return D.MixtureSameFamily(D.Categorical(w), components), [w, loc, scale]


def independent(L, dtype):
    D = L.distributions
    loc, scale = leaves(L, LOGITS, SHAPES, dtype=dtype)
    return D.Independent(D.Normal(loc, scale), 1), [loc, scale]


def transformed(L, dtype):
    D = L.distributions
    loc, scale, shift = leaves(L, LOC, POSITIVE, OTHER, dtype=dtype)
    parts = [D.AffineTransform(shift, -2.0), D.SigmoidTransform()]
    return D.TransformedDistribution(D.Normal(loc, scale), parts), [loc, scale, shift]


def numbers(name, *args):
    return lambda L, dtype: (getattr(L.distributions, name)(*args), [])


CASES = {
    "Bernoulli": simple("Bernoulli", CHANCE),
    "Bernoulli logits": keyed("Bernoulli", logits=LOC),
    "Beta": simple("Beta", POSITIVE, OTHER),
    "Binomial": counted("Binomial", 7, "probs", CHANCE),
    "Binomial logits": counted("Binomial", 40, "logits", LOC),
    "Categorical": simple("Categorical", ROWS),
    "Categorical logits": keyed("Categorical", logits=LOGITS),
    "Cauchy": simple("Cauchy", LOC, POSITIVE),
    "Chi2": simple("Chi2", POSITIVE),
    "ContinuousBernoulli": simple("ContinuousBernoulli", [0.15, 0.4995, 0.92]),
    "ContinuousBernoulli logits": keyed("ContinuousBernoulli", logits=LOC),
    "Dirichlet": simple("Dirichlet", SHAPES),
    "Exponential": simple("Exponential", POSITIVE),
    "FisherSnedecor": simple("FisherSnedecor", POSITIVE, LARGE),
    "Gamma": simple("Gamma", POSITIVE, OTHER),
    "GeneralizedPareto": simple("GeneralizedPareto", LOC, POSITIVE, [-0.4, 0.0, 0.3]),
    "Geometric": simple("Geometric", CHANCE),
    "Geometric logits": keyed("Geometric", logits=LOC),
    "Gumbel": simple("Gumbel", LOC, POSITIVE),
    "HalfCauchy": simple("HalfCauchy", POSITIVE),
    "HalfNormal": simple("HalfNormal", POSITIVE),
    "Independent": independent,
    "InverseGamma": simple("InverseGamma", LARGE, OTHER),
    "Kumaraswamy": simple("Kumaraswamy", POSITIVE, OTHER),
    "Laplace": simple("Laplace", LOC, POSITIVE),
    "LogNormal": simple("LogNormal", LOC, POSITIVE),
    "LogisticNormal": simple("LogisticNormal", LOC, POSITIVE),
    "MixtureSameFamily": mixture,
    "MixtureSameFamily vectors": mixture_of_vectors,
    "Multinomial": counted("Multinomial", 6, "probs", ROWS),
    "Multinomial logits": counted("Multinomial", 6, "logits", LOGITS),
    "NegativeBinomial": simple("NegativeBinomial", LARGE, CHANCE),
    "NegativeBinomial logits": keyed("NegativeBinomial", total_count=LARGE, logits=LOC),
    "Normal": simple("Normal", LOC, POSITIVE),
    "Normal of numbers": numbers("Normal", 0.5, 2),
    "OneHotCategorical": simple("OneHotCategorical", ROWS),
    "OneHotCategoricalStraightThrough": simple("OneHotCategoricalStraightThrough", ROWS),
    "Pareto": simple("Pareto", POSITIVE, OTHER),
    "Poisson": simple("Poisson", [0.6, 8.0, 30.0]),
    "RelaxedBernoulli": relaxed("RelaxedBernoulli", "probs", CHANCE),
    "RelaxedBernoulli logits": relaxed("RelaxedBernoulli", "logits", LOC),
    "RelaxedOneHotCategorical": relaxed("RelaxedOneHotCategorical", "probs", ROWS),
    "RelaxedOneHotCategorical logits": relaxed("RelaxedOneHotCategorical", "logits", LOGITS),
    "StudentT": simple("StudentT", LARGE, LOC, POSITIVE),
    "TransformedDistribution": transformed,
    "Uniform": simple("Uniform", LOC, [0.3, 1.2, 4.0]),
    "VonMises": simple("VonMises", LOC, [0.4, 3.0, 9.0]),
    "Weibull": simple("Weibull", POSITIVE, OTHER),
}
MATRICES = {
    "LKJCholesky": lambda L, dtype: (lambda p: (L.distributions.LKJCholesky(3, p), [p]))(
        *leaves(L, POSITIVE, dtype=dtype)
    ),
    "LowRankMultivariateNormal": simple("LowRankMultivariateNormal", LOC, FACTOR, POSITIVE),
    "MultivariateNormal": simple("MultivariateNormal", LOC, COVARIANCE),
    "MultivariateNormal precision": keyed(
        "MultivariateNormal", loc=LOGITS, precision_matrix=COVARIANCE
    ),
    "MultivariateNormal factor": keyed("MultivariateNormal", loc=LOC, scale_tril=TRIL),
    "Wishart": simple("Wishart", 5.5, COVARIANCE),
    "Wishart batch": keyed("Wishart", df=[4.0, 7.5], scale_tril=TRIL),
}
