"""Transforms: inverses, Jacobians against autograd, shapes, caches, registries."""

import pytest

import rushlight as torch
from distributions_cases import t
from rushlight import distributions as D
from rushlight.distributions import constraints
from support import check, randn

ELEMENTWISE = {
    "exp": D.ExpTransform(),
    "power": D.PowerTransform(t(1.7).squeeze()),
    "sigmoid": D.SigmoidTransform(),
    "softplus": D.SoftplusTransform(),
    "tanh": D.TanhTransform(),
    "affine": D.AffineTransform(t(0.5).squeeze(), -3.0),
    "affine tensor": D.AffineTransform(1.0, t(2.0, -0.5, 1.0)),
    "cdf": D.CumulativeDistributionTransform(D.Normal(t(0.3), t(1.2))),
    "composed": D.ComposeTransform([D.AffineTransform(0.1, 0.5), D.TanhTransform()]),
    "inverse": D.ExpTransform().inv,
    "inverse of composed": D.ComposeTransform([D.ExpTransform(), D.AffineTransform(0.0, 2.0)]).inv,
    "identity": D.identity_transform,
    "stacked": D.StackTransform([D.ExpTransform(), D.TanhTransform(), D.SigmoidTransform()], -1),
    "joined": D.CatTransform([D.ExpTransform(), D.TanhTransform()], -1, [1, 2]),
}
VECTORS = {
    "stick breaking": (D.StickBreakingTransform(), 3, slice(0, 3)),
    "correlations": (D.CorrCholeskyTransform(), 6, None),
    "independent": (D.IndependentTransform(D.ExpTransform(), 1), 3, slice(0, 3)),
    "affine event": (D.AffineTransform(t(0.0, 1.0, 2.0), t(1.0, 2.0, 3.0), 1), 3, slice(0, 3)),
    "reshaped": (D.ReshapeTransform((6,), (2, 3)), 6, slice(0, 6)),
}


def inside(transform, shape):
    x = randn(*shape, seed=4)
    return D.biject_to(transform.domain)(x) if transform.domain is not constraints.real else x


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_inverse_and_jacobian_of_numbers(name):
    transform = ELEMENTWISE[name]
    x = randn(5, 3, seed=4)
    if name in ("power", "inverse", "inverse of composed"):
        x = x.exp()
    x.requires_grad_()
    y = transform(x)
    check(transform.inv(y), x.detach(), rtol=1e-7)
    (slope,) = torch.autograd.grad(y.sum(), x)
    log = transform.log_abs_det_jacobian(x, y)
    check(log, slope.abs().log().expand(log.shape), rtol=1e-7, atol=1e-9)
    back = transform.inv.log_abs_det_jacobian(y, x)
    check(back, -log.detach())
    assert bool(transform.codomain.check(y).all())


@pytest.mark.parametrize("name", VECTORS)
def test_inverse_and_jacobian_of_vectors(name):
    transform, n, _ = VECTORS[name]
    x = randn(n, seed=2)
    y = transform(x)
    check(transform.inv(y), x, rtol=1e-7)
    assert tuple(transform.forward_shape(x.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(x.shape)
    assert bool(transform.codomain.check(y).all())
    whole = torch.func.jacrev(lambda v: transform(v).reshape(-1))(x)
    if name == "correlations":
        rows = torch.tril_indices(4, 4, offset=-1)
        whole = whole.view(4, 4, n)[rows[0], rows[1]]
    rows = whole[:n]  # what is left over of a simplex follows from the rest
    logdet = torch.linalg.svdvals(rows).log().sum() if hasattr(torch.linalg, "svdvals") else None
    if logdet is not None:
        check(transform.log_abs_det_jacobian(x, y), logdet, rtol=1e-8)


@pytest.mark.parametrize("transform", [D.SoftmaxTransform(), D.LowerCholeskyTransform()])
def test_transforms_that_only_cover(transform):
    assert not transform.bijective
    y = transform(randn(4, 4))
    assert bool(transform.codomain.check(y).all())
    check(transform(transform.inv(y)), y)


def test_composition_over_events_of_different_rank():
    parts = [D.AffineTransform(0.0, 2.0), D.StickBreakingTransform(), D.ExpTransform()]
    whole = D.ComposeTransform(parts)
    assert (whole.domain.event_dim, whole.codomain.event_dim) == (1, 1)
    x = randn(3)
    expected = 0
    for part in parts:
        y = part(x)
        expected = expected + part.log_abs_det_jacobian(x, y).sum()
        x = y
    check(whole.log_abs_det_jacobian(randn(3), x), expected)
    assert tuple(whole.forward_shape((5, 3))) == (5, 4)


def test_a_cache_returns_the_same_objects():
    transform = D.SigmoidTransform(cache_size=1)
    x = randn(3)
    y = transform(x)
    assert transform.inv(y) is x
    assert transform(x) is y
    assert transform.with_cache(1) is transform
    assert D.ExpTransform().with_cache(1)._cache_size == 1
    composed = D.ComposeTransform([D.ExpTransform(), D.AffineTransform(0.0, 1.0)]).with_cache(1)
    y = composed(x)
    check(composed.inv(y), x, rtol=0, atol=0)


def test_equality_of_transforms():
    assert D.ExpTransform() == D.ExpTransform()
    assert D.ExpTransform().inv == D.ExpTransform().inv
    assert D.ExpTransform() != D.TanhTransform()
    assert D.AffineTransform(0.0, 1.0) == D.AffineTransform(0.0, 1.0)
    assert D.AffineTransform(0.0, t(1.0, 2.0)) != D.AffineTransform(0.0, t(1.0, 3.0))
    assert D.PowerTransform(2.0) == D.PowerTransform(2.0)


@pytest.mark.parametrize(
    "constraint",
    [
        constraints.real, constraints.positive, constraints.nonnegative, constraints.unit_interval,
        constraints.greater_than(2.0), constraints.greater_than_eq(-1.0),
        constraints.less_than(1.0), constraints.interval(-3.0, 2.0),
        constraints.half_open_interval(0.0, 4.0), constraints.simplex, constraints.real_vector,
        constraints.independent(constraints.positive, 1), constraints.corr_cholesky,
    ],
)  # fmt: skip
@pytest.mark.parametrize("registry", [D.biject_to, D.transform_to])
def test_transforms_lead_into_the_constraint(registry, constraint):
    transform = registry(constraint)
    y = transform(randn(2, 3))
    assert bool(constraint.check(y).all())
    check(transform(transform.inv(y)), y, rtol=1e-7)


def test_transforms_into_constraints_side_by_side():
    both = constraints.stack([constraints.positive, constraints.unit_interval], dim=-1)
    y = D.biject_to(both)(randn(4, 2))
    assert bool(both.check(y).all())
    both = constraints.cat([constraints.positive, constraints.unit_interval], -1, [1, 2])
    y = D.transform_to(both)(randn(4, 3))
    assert bool(both.check(y).all())


def test_samples_of_transformed_distributions():
    torch.manual_seed(0)
    d = D.TransformedDistribution(D.Normal(t(0.0, 1.0), 1.0), D.ExpTransform())
    same = D.LogNormal(t(0.0, 1.0), 1.0)
    x = d.sample((6,))
    check(d.log_prob(x), same.log_prob(x))
    check(d.cdf(x), same.cdf(x))
    falling = D.TransformedDistribution(D.Normal(t(0.0), 1.0), D.AffineTransform(0.0, -2.0))
    check(falling.cdf(t(1.0)), D.Normal(t(0.0), 2.0).cdf(t(1.0)))
    check(falling.icdf(t(0.8)), D.Normal(t(0.0), 2.0).icdf(t(0.8)))


def test_parameters_of_transforms_widen_the_batch():
    d = D.TransformedDistribution(D.Normal(0.0, 1.0), D.AffineTransform(t(0.0, 1.0, 2.0), 1.0))
    assert d.batch_shape == (3,)
    assert d.rsample((2,)).shape == (2, 3)
    coupled = D.TransformedDistribution(
        D.Normal(torch.zeros(4, 3), 1.0), D.StickBreakingTransform()
    )
    assert (coupled.batch_shape, coupled.event_shape) == ((4,), (4,))
    assert coupled.expand((2, 4)).sample().shape == (2, 4, 4)
