"""Densities integrate to one; moments, entropies, cdf and divergences follow from them."""

import math

import numpy as np
import pytest

import rushlight as torch
from distributions_cases import CONTINUOUS, DISCRETE, counts, integrate, t
from rushlight import distributions as D
from support import check

# The rule does not know of the kink.
TOLERANCE = {"Laplace": 1e-3}
HEAVY = {"Cauchy", "HalfCauchy"}  # no moments
NO_CDF = {"Beta", "FisherSnedecor", "StudentT", "VonMises"}


def made(name):
    make, low, high = CONTINUOUS[name]
    return make(), low, high


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_integrate_to_one(name):
    d, low, high = made(name)
    check(integrate(d, low, high, torch.ones_like), np.ones(2), rtol=TOLERANCE.get(name, 2e-7))


@pytest.mark.parametrize("name", sorted(set(CONTINUOUS) - HEAVY - {"RelaxedBernoulli", "VonMises"}))
def test_moments_are_integrals(name):
    d, low, high = made(name)
    if name == "TransformedDistribution":
        with pytest.raises(NotImplementedError):
            d.mean
        return
    mean = integrate(d, low, high, lambda x: x)
    rtol = TOLERANCE.get(name, 1e-6)
    check(d.mean, mean, rtol=rtol, atol=rtol)
    check(d.variance, integrate(d, low, high, lambda x: (x - mean) ** 2), rtol=rtol)
    check(d.stddev, d.variance.sqrt())


@pytest.mark.parametrize("name", CONTINUOUS)
def test_entropies_are_integrals(name):
    d, low, high = made(name)
    try:
        entropy = d.entropy()
    except NotImplementedError:
        return
    expected = integrate(d, low, high, lambda x: -d.log_prob(x).clamp(min=-700))
    check(entropy, expected, rtol=TOLERANCE.get(name, 1e-6), atol=1e-7)


@pytest.mark.parametrize("name", sorted(set(CONTINUOUS) - NO_CDF - {"RelaxedBernoulli"}))
def test_the_density_is_the_slope_of_the_cdf(name):
    d, _low, _high = made(name)
    torch.manual_seed(3)
    x = d.sample((5,)).requires_grad_()
    (slope,) = torch.autograd.grad(d.cdf(x).sum(), x)
    check(slope, d.log_prob(x).exp().detach(), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("name", sorted(set(CONTINUOUS) - NO_CDF))
def test_icdf_inverts_cdf(name):
    d, _low, _high = made(name)
    p = t(0.03, 0.3, 0.5, 0.9).unsqueeze(-1).expand(-1, 2)
    try:
        x = d.icdf(p)
    except NotImplementedError:
        return
    check(d.cdf(x), p, rtol=1e-8)


@pytest.mark.parametrize("name", DISCRETE)
def test_probabilities_sum_to_one(name):
    d = DISCRETE[name]()
    check(d.log_prob(counts(d)).exp().sum(0), np.ones(2), rtol=1e-9)


@pytest.mark.parametrize("name", sorted(set(DISCRETE) - {"Categorical"}))
def test_moments_are_sums(name):
    d = DISCRETE[name]()
    x = counts(d)
    weights = d.log_prob(x).exp()
    mean = (weights * x).sum(0)
    check(d.mean, mean, rtol=1e-8)
    check(d.variance, (weights * (x - mean) ** 2).sum(0), rtol=1e-7)


@pytest.mark.parametrize("name", ["Bernoulli", "Binomial", "Categorical", "Geometric"])
def test_entropies_are_sums(name):
    d = DISCRETE[name]()
    log = d.log_prob(counts(d))
    check(d.entropy(), -(log.exp() * log).sum(0), rtol=1e-8)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_modes_are_highest(name):
    d = CONTINUOUS[name][0]() if name in CONTINUOUS else DISCRETE[name]()
    try:
        mode = d.mode
    except NotImplementedError:
        return
    torch.manual_seed(0)
    highest = d.log_prob(torch.where(mode.isnan(), d.sample(), mode) if name != "Categorical"
                         else mode)  # fmt: skip
    seen = d.log_prob(d.sample((500,))).amax(0)
    assert bool(((seen <= highest + 1e-9) | torch.as_tensor(mode).isnan()).all())


@pytest.mark.parametrize("name", sorted(set(CONTINUOUS) - HEAVY - {"VonMises"}))
def test_samples_have_the_moments(name):
    d, low, high = made(name)
    torch.manual_seed(1)
    x = d.sample((40_000,))
    mean = integrate(d, low, high, lambda v: v)
    deviation = integrate(d, low, high, lambda v: (v - mean) ** 2).sqrt()
    assert bool(((x.mean(0) - mean).abs() < 0.03 * deviation).all())
    assert bool(((x.std(0) / deviation - 1).abs() < 0.15).all())
    assert bool(d.support.check(x).all())


@pytest.mark.parametrize("name", DISCRETE)
def test_samples_have_the_probabilities(name):
    d = DISCRETE[name]()
    torch.manual_seed(1)
    x = d.sample((40_000,))
    for value in counts(d)[:6]:
        share = (x == value).to(torch.float64).mean(0)
        check(share, d.log_prob(value).exp(), rtol=0, atol=0.01)


PAIRS = [
    (p, q)
    for p in CONTINUOUS
    for q in CONTINUOUS
    if (type(CONTINUOUS[p][0]()), type(CONTINUOUS[q][0]())) in D.kl._KL_REGISTRY
]


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_divergences_are_integrals(p, q):
    (first, low, high), (second, _, _) = made(p), made(q)
    divergence = D.kl_divergence(first, second)
    if bool((divergence == math.inf).all()):
        outside = second.support.check(first.sample((2000,)))
        assert not bool(outside.all(0).any())
        return

    def apart(x):
        quiet = D.Distribution._validate_args
        D.Distribution.set_default_validate_args(False)
        try:
            theirs = CONTINUOUS[q][0]().log_prob(x)
        finally:
            D.Distribution.set_default_validate_args(quiet)
        return (first.log_prob(x) - theirs).clamp(-1e200, 1e200)

    rtol = TOLERANCE.get(p, 2e-5)
    check(divergence, integrate(first, low, high, apart), rtol=rtol, atol=rtol)
    assert bool((D.kl_divergence(first, first).abs() < 1e-12).all())


def test_divergences_between_supports_that_touch():
    unit, p = D.Uniform(t(0.0), t(1.0)), D.ContinuousBernoulli(t(0.3))
    check(D.kl_divergence(p, unit), -p.entropy())
    check(D.kl_divergence(unit, D.ContinuousBernoulli(t(0.5))), [0.0], atol=1e-9)
    assert D.kl_divergence(p, D.Uniform(t(0.1), t(2.0))).item() == math.inf


@pytest.mark.parametrize(
    "d",
    [
        D.Normal(t(0.3), t(2.0)),
        D.Exponential(t(3.0)),
        D.Gamma(t(2.5), t(0.5)),
        D.Bernoulli(t(0.3)),
        D.ContinuousBernoulli(t(0.2)),
    ],
)
def test_entropy_of_exponential_families_by_the_log_normalizer(d):
    check(D.ExponentialFamily.entropy(d), d.entropy(), rtol=1e-8)


def test_divergence_of_exponential_families_by_the_log_normalizer():
    p, q = D.Gamma(t(2.5), t(0.5)), D.Gamma(t(1.5), t(1.5))
    check(D.kl._kl_expfamily_expfamily(p, q), D.kl_divergence(p, q), rtol=1e-9)


def test_parts_of_dirichlet_samples_are_beta_numbers():
    torch.manual_seed(0)
    alpha = t(0.7, 2.0, 3.0)
    x = D.Dirichlet(alpha).sample((40_000,))
    marginal = D.Beta(alpha, alpha.sum() - alpha)
    check(x.mean(0), marginal.mean, rtol=0.02)
    check(x.var(0), marginal.variance, rtol=0.05)
    check(x.sum(-1), np.ones(40_000))


def test_dirichlet_density_integrates_to_one():
    x = torch.linspace(0.0025, 0.9975, 200, dtype=torch.float64)
    a, b = torch.meshgrid(x, x, indexing="ij")
    inside = a + b < 0.9975
    points = torch.stack([a[inside], b[inside], 1 - a[inside] - b[inside]], -1)
    density = D.Dirichlet(t(2.0, 3.0, 2.5)).log_prob(points).exp()
    assert abs(density.sum().item() * 0.005**2 - 1) < 5e-3


def test_multinomial_probabilities_sum_to_one():
    d = D.Multinomial(4, t(0.2, 0.3, 0.5))
    rows = [(i, j, 4 - i - j) for i in range(5) for j in range(5 - i)]
    log = d.log_prob(torch.tensor(rows, dtype=torch.float64))
    check(log.exp().sum(), 1.0)
    check(d.entropy(), -(log.exp() * log).sum())


def test_independent_sums_over_the_event():
    base = D.Normal(torch.zeros(2, 3, dtype=torch.float64), 1.0)
    d = D.Independent(base, 2)
    x = torch.ones(2, 3, dtype=torch.float64)
    assert (d.batch_shape, d.event_shape) == ((), (2, 3))
    check(d.log_prob(x), base.log_prob(x).sum())
    check(d.entropy(), base.entropy().sum())
    check(D.kl_divergence(d, d), 0.0)
