"""Gradients of samples: implicit derivatives, to any order; streams of numbers."""

import numpy as np
import pytest

import rushlight as torch
from distributions_cases import t
from rushlight import distributions as D
from support import check, leaf


def moved(log_density, x, parameter, low, steps=60_000):
    """-F_a / f at x, from the density alone: a midpoint rule over u^3, which opens the end."""
    u = (np.arange(steps) + 0.5) / steps
    points = low + (x - low) * t(*(u**3))
    weights = (x - low) * t(*(3 * u**2 / steps))
    a = leaf(parameter)
    (slope,) = torch.autograd.grad((log_density(points, a).exp() * weights).sum(), a)
    return -slope / log_density(t(x), a).exp()


@pytest.mark.parametrize("a", [0.6, 1.0, 2.5, 11.0, 80.0])
@pytest.mark.parametrize("ratio", [0.2, 0.9, 1.05, 1.8])
def test_gamma_samples_move_with_their_shape(a, ratio):
    def log_density(x, shape):
        return D.Gamma(shape, torch.ones_like(shape), validate_args=False).log_prob(x)

    x = a * ratio
    found = torch._standard_gamma_grad(t(a), t(x))
    check(found, moved(log_density, x, a, 0.0).detach(), rtol=1e-4)


@pytest.mark.parametrize(("a", "b"), [(0.6, 2.0), (2.0, 0.7), (1.5, 1.5), (9.0, 30.0)])
@pytest.mark.parametrize("x", [0.05, 0.3, 0.7])
def test_beta_samples_move_with_their_parameters(a, b, x):
    def log_density(points, first):
        return D.Beta(first, t(b).squeeze(), validate_args=False).log_prob(points)

    found = torch._dirichlet_grad(t(x), t(a), t(a + b)) * (1 - x)
    check(found, moved(log_density, x, a, 0.0).detach(), rtol=1e-3)


def test_slopes_have_derivatives_of_their_own():
    a, x = leaf([0.4, 1.3, 6.0, 25.0]), leaf([0.3, 1.9, 5.0, 31.0])
    assert torch.autograd.gradcheck(torch._standard_gamma_grad, (a, x))
    assert torch.autograd.gradgradcheck(torch._standard_gamma_grad, (a, x), rtol=5e-3)
    x, a, total = leaf([0.3, 0.8, 0.05]), leaf([0.5, 2.0, 3.0]), leaf([1.7, 2.6, 9.0])
    assert torch.autograd.gradcheck(torch._dirichlet_grad, (x, a, total))
    assert torch.autograd.gradgradcheck(torch._dirichlet_grad, (x, a, total), rtol=5e-3)


@pytest.mark.parametrize(
    ("make", "at"),
    [
        (lambda a: D.Gamma(a, 2.0), 1.7),
        (lambda a: D.Beta(a, 2.0), 1.4),
        (lambda a: D.Chi2(a), 3.0),
        (lambda a: D.StudentT(a, 0.0, 1.0), 12.0),
        (lambda a: D.InverseGamma(a, 2.0), 9.0),
        (lambda a: D.Kumaraswamy(a, 2.0), 1.5),
    ],
)
def test_derivatives_of_means_over_samples(make, at):
    """Of the mean of x^2: the first and the second derivative, against those of the moments."""
    torch.manual_seed(0)
    a = leaf(at)
    x = make(a.expand(20_000)).rsample()
    (slope,) = torch.autograd.grad((x**2).mean(), a, create_graph=True)
    (bend,) = torch.autograd.grad(slope, a)
    b = leaf(at)
    d = make(b)
    (expected,) = torch.autograd.grad(d.variance + d.mean**2, b, create_graph=True)
    (expected_bend,) = torch.autograd.grad(expected, b)
    check(slope, expected, rtol=0.06, atol=0.005)
    check(bend, expected_bend, rtol=0.2, atol=0.02)


def test_von_mises_samples_move_with_their_concentration():
    kappa = t(0.3, 2.0, 15.0)
    x = t(0.9, -1.2, 0.2)
    (slope,) = torch.autograd.grad(
        D.von_mises._Moving.apply(k := kappa.requires_grad_(), x).sum(), k
    )
    # At a fixed value of the distribution function, by a midpoint rule.
    u = (torch.arange(20_000, dtype=torch.float64) + 0.5) / 20_000
    for i in range(3):
        at = leaf(kappa[i].item())
        points = -np.pi + (x[i] + np.pi) * u
        density = D.VonMises(0.0, at, validate_args=False)
        mass = (density.log_prob(points).exp().mean()) * (x[i] + np.pi)
        (by_kappa,) = torch.autograd.grad(mass, at)
        expected = -by_kappa / density.log_prob(x[i]).exp()
        check(slope[i], expected.detach(), rtol=1e-4)


def test_von_mises_samples_carry_their_location():
    torch.manual_seed(0)
    loc = leaf([3.0, -2.0])
    x = D.VonMises(loc, t(4.0, 1.0)).rsample((50,))
    assert bool((x.abs() <= np.pi + 1e-9).all())
    (slope,) = torch.autograd.grad(x.sum(), loc)
    check(slope, [50.0, 50.0])


DRAWS = {
    "gamma": lambda: torch._standard_gamma(torch.linspace(0.05, 40, 3000)),
    "dirichlet": lambda: torch._sample_dirichlet(torch.linspace(0.05, 40, 3000).view(-1, 3)),
    "poisson": lambda: torch.poisson(torch.linspace(0, 80, 3000)),
    "binomial": lambda: torch.binomial(torch.full((3000,), 50.0), torch.linspace(0, 1, 3000)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_numbers_depend_on_the_seed_alone(name):
    found = []
    threads = torch.get_num_threads()
    try:
        for n in (1, 3, 1):
            torch.set_num_threads(n)
            torch.manual_seed(7)
            found.append((DRAWS[name](), DRAWS[name]()))
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(a, found[0][0]) and torch.equal(b, found[0][1]) for a, b in found)
    assert not torch.equal(*found[0])


@pytest.mark.parametrize("rate", [0.3, 4.0, 60.0])
def test_poisson_numbers_have_the_probabilities(rate):
    torch.manual_seed(2)
    x = torch.poisson(torch.full((50_000,), rate, dtype=torch.float64))
    check(x.mean(), rate, rtol=0.03)
    check(x.var(), rate, rtol=0.05)


@pytest.mark.parametrize(("n", "p"), [(5, 0.3), (200, 0.04), (200, 0.5), (1000, 0.97)])
def test_binomial_numbers_have_the_moments(n, p):
    torch.manual_seed(2)
    x = torch.binomial(t(n).expand(50_000), t(p).expand(50_000))
    check(x.mean(), n * p, rtol=0.03)
    check(x.var(), n * p * (1 - p), rtol=0.06)


@pytest.mark.parametrize("a", [0.05, 0.5, 1.0, 3.0, 50.0])
def test_gamma_numbers_have_the_moments(a):
    torch.manual_seed(2)
    x = torch._standard_gamma(t(a).expand(50_000))
    check(x.mean(), a, rtol=0.06)
    check(x.var(), a, rtol=0.12)


def test_edges_of_the_numbers():
    assert torch.poisson(torch.zeros(3)).tolist() == [0, 0, 0]
    assert torch.poisson(torch.empty(0)).shape == (0,)
    assert torch._standard_gamma(torch.ones(0, 2)).shape == (0, 2)
    assert torch._sample_dirichlet(torch.ones(2, 0)).shape == (2, 0)
    assert torch._sample_dirichlet(torch.ones(2, 1)).shape == (2, 1)
    assert torch.binomial(
        torch.tensor([4.0, 4.0, 0.0]), torch.tensor([0.0, 1.0, 0.5])
    ).tolist() == [
        0,
        4,
        0,
    ]
    assert torch.binomial(torch.tensor(3.0), torch.tensor([0.5, float("nan")]))[1].isnan()
    assert torch._standard_gamma(torch.tensor(float("nan"))).isnan()
    assert torch._standard_gamma(torch.tensor([2.0], dtype=torch.bfloat16)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("program", "error", "text"),
    [
        (lambda: torch.poisson(torch.tensor([1.0, -1.0])), RuntimeError, "invalid Poisson rate"),
        (lambda: torch.poisson(torch.tensor([1])), RuntimeError, "not implemented for 'Long'"),
        (lambda: torch._standard_gamma(torch.tensor([1])), RuntimeError, "not implemented"),
        (
            lambda: torch.binomial(torch.tensor([1.0]), torch.tensor([0.5], dtype=torch.float64)),
            RuntimeError,
            "same dtype",
        ),
        (lambda: torch._sample_dirichlet(torch.tensor(1.0)), RuntimeError, "need a dimension"),
    ],
)
def test_arguments_that_are_refused(program, error, text):
    with pytest.raises(error, match=text):
        program()


def test_gradients_of_counts_are_zero():
    rate = leaf([3.0, 5.0])
    (slope,) = torch.autograd.grad(torch.poisson(rate).sum(), rate)
    assert slope.tolist() == [0, 0]


def test_samples_in_vmap():
    shapes = t(0.5, 3.0, 20.0)

    def draw(a):
        return torch._standard_gamma(a.expand(4))

    with pytest.raises(RuntimeError, match="randomness"):
        torch.vmap(draw)(shapes)
    x = torch.vmap(draw, randomness="different")(shapes)
    assert x.shape == (3, 4)
    fixed = torch.vmap(lambda _: torch.poisson(torch.full((50,), 9.0)), randomness="different")
    y = fixed(shapes)
    assert y.shape == (3, 50)
    assert not torch.equal(y[0], y[1])


def test_forward_mode_through_samples():
    torch.manual_seed(0)
    a = t(2.0, 0.7)
    state = torch.get_rng_state()
    _, tangent = torch.func.jvp(torch._standard_gamma, (a,), (torch.ones_like(a),))
    torch.set_rng_state(state)
    p = a.clone().requires_grad_()
    (slope,) = torch.autograd.grad(torch._standard_gamma(p).sum(), p)
    check(tangent, slope)
    torch.set_rng_state(state)
    _, tangent = torch.func.jvp(torch._sample_dirichlet, (a,), (t(1.0, 0.0),))
    torch.set_rng_state(state)
    x = torch._sample_dirichlet(p)
    rows = [torch.autograd.grad(x[i], p, retain_graph=True)[0][0].item() for i in range(2)]
    check(tangent, rows)
