"""torch.distributions: numbers, gradients, samples of a seed, shapes and errors are PyTorch's."""

import warnings

import numpy as np
import pytest
import torch

import rushlight
from oracle.distributions_cases import CASES, MATRICES, SEED
from oracle.harness import to_numpy
from rushlight.random import torch_streams

ALL = {**CASES, **MATRICES}
LIBRARIES = (rushlight, torch)


def compare(ours, theirs, rtol=1e-9, atol=1e-11):
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(to_numpy(ours), to_numpy(theirs), rtol, atol)


def values_of(name, shape=(4,)):
    """Samples of PyTorch's distribution, as arrays."""
    dtype = dtype_of(name)
    torch.manual_seed(SEED)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ALL[name](torch, dtype)[0].sample(shape).numpy()


def gradients(L, result, leaves):
    leaves = [p for p in leaves if p.requires_grad]
    if not result.requires_grad or not leaves:
        return []
    weights = L.tensor(np.cos(np.arange(result.numel())).reshape(result.shape)).to(result.dtype)
    return L.autograd.grad((result * weights).sum(), leaves, allow_unused=True)


def dtype_of(name):
    """PyTorch's generalised Pareto compares with a float32 zero, which nothing else may meet."""
    return "float32" if name == "GeneralizedPareto" else "float64"


def both(name, f, rtol=1e-9, atol=1e-11):
    """f(library, distribution) agrees, and so do its gradients; errors are of one class."""
    outcomes = []
    dtype = dtype_of(name)
    if dtype == "float32":
        rtol, atol = 2e-5, 1e-6
    for L in LIBRARIES:
        d, leaves = ALL[name](L, dtype)
        try:
            result = f(L, d)
        except NotImplementedError as error:
            outcomes.append((error, ()))
            continue
        try:
            outcomes.append((result, gradients(L, result, leaves)))
        except NotImplementedError:  # PyTorch's gammainc by its first argument
            assert L is torch
            outcomes[0] = (outcomes[0][0], ())
            outcomes.append((result, ()))
    (ours, our_grads), (theirs, their_grads) = outcomes
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception)
        return
    if isinstance(ours, Exception):
        raise ours
    compare(ours, theirs, rtol, atol)
    for a, b in zip(our_grads, their_grads, strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            if name == "Wishart batch" and a.dim() == 2:
                a, b = a.tril(), b.tril()  # what is above the diagonal of a factor is never read
            compare(a, b, max(rtol, 1e-7), max(atol, 1e-9))


# Exact to about 7 digits in PyTorch: polynomials for Bessel functions.
@pytest.mark.parametrize("name", ALL)
def test_log_prob(name):
    values = values_of(name)
    both(name, lambda L, d: d.log_prob(L.tensor(values)))


@pytest.mark.parametrize("name", ALL)
def test_log_prob_has_gradients_in_the_value(name):
    values = values_of(name)
    found = []
    for L in LIBRARIES:
        d, _ = ALL[name](L, dtype_of(name))
        value = L.tensor(values)
        if name == "Uniform" or not value.is_floating_point() or d.support.is_discrete:
            return
        value.requires_grad_()
        found.append(L.autograd.grad(d.log_prob(value).sum(), value)[0])
    tolerance = (2e-5, 1e-5) if dtype_of(name) == "float32" else (1e-7, 1e-9)
    compare(*found, *tolerance)


@pytest.mark.parametrize("what", ["mean", "mode", "variance", "stddev"])
@pytest.mark.parametrize("name", ALL)
def test_moments(name, what):
    if (name, what) == ("Kumaraswamy", "mode"):
        pytest.skip("PyTorch's is not a number wherever there is a mode")
    both(name, lambda L, d: getattr(d, what))


@pytest.mark.parametrize("name", ALL)
def test_entropy(name):
    # The multinomial one takes a float32 logarithm of a factorial.
    both(name, lambda L, d: d.entropy(), rtol=1e-7 if "Multinomial" in name else 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_cdf(name):
    values = values_of(name)
    both(name, lambda L, d: d.cdf(L.tensor(values)), rtol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_icdf(name):
    d, _ = CASES[name](torch, "float64")
    shape = tuple(d.batch_shape + d.event_shape)
    values = np.linspace(0.05, 0.95, 4).reshape((4,) + (1,) * len(shape)) * np.ones(shape)
    values = values.astype(dtype_of(name))
    both(name, lambda L, d: d.icdf(L.tensor(values)), rtol=1e-7)


@pytest.mark.parametrize("expand", [True, False])
@pytest.mark.parametrize("name", CASES)
def test_enumerate_support(name, expand):
    both(name, lambda L, d: d.enumerate_support(expand))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5)])
@pytest.mark.parametrize("name", ALL)
def test_samples_of_a_seed(name, shape, dtype):
    found = []
    for L in LIBRARIES:
        with torch_streams(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            d, _ = ALL[name](L, dtype)
            L.manual_seed(SEED)
            first = d.sample(shape)
            found.append((first, d.sample(shape), L.rand(2)))
    for ours, theirs in zip(*found, strict=True):
        assert not ours.requires_grad
        wide = str(ours.dtype) == "torch.float64"
        compare(ours, theirs, 1e-10 if wide else 3e-5, 1e-12 if wide else 1e-6)


# PyTorch overwrites what the gradient of Wishart's samples needs, and raises.
@pytest.mark.parametrize("name", [n for n in ALL if not n.startswith("Wishart")])
def test_gradients_of_samples(name):
    # PyTorch's derivatives of gamma and beta variates are good to three digits.
    found = []
    for L in LIBRARIES:
        with torch_streams(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            d, leaves = ALL[name](L, "float64")
            L.manual_seed(SEED)
            if not d.has_rsample:
                continue
            sample = d.rsample((3,))
            found.append((sample, *gradients(L, sample, leaves)))
    if found:
        for ours, theirs in zip(*found, strict=True):
            compare(ours, theirs, 2e-3, 1e-4)


@pytest.mark.parametrize("name", ALL)
def test_expand(name):
    values = values_of(name)
    for L in LIBRARIES:
        d, _ = ALL[name](L, "float64")
        wide = d.expand((2, *d.batch_shape))
        assert type(wide) is type(d)
        assert tuple(wide.batch_shape) == (2, *d.batch_shape)
        assert wide.event_shape == d.event_shape
        assert wide._validate_args == d._validate_args
    shape = tuple(values.shape[1:])
    value = np.broadcast_to(values[0], (2, *shape)).copy()
    both(name, lambda L, d: d.expand((2, *d.batch_shape)).log_prob(L.tensor(value)))
    both(name, lambda L, d: d.expand((2, *d.batch_shape)).variance)


@pytest.mark.parametrize("name", ALL)
def test_text_and_facts(name):
    found = []
    for L in LIBRARIES:
        d, _ = ALL[name](L, "float64")
        if name.startswith("Mixture"):
            d.mixture_distribution.logits  # then an attribute, which PyTorch's always is
        facts = [repr(d), repr(d.support), repr(d.expand((2, *d.batch_shape)))]
        facts += [tuple(d.batch_shape), tuple(d.event_shape), d.has_rsample]
        facts += [d.has_enumerate_support, repr(d.arg_constraints), d.support.event_dim]
        found.append([str(fact).replace("requires_grad=True", "") for fact in facts])
    assert found[0] == found[1]


def kind(name):
    return getattr(torch.distributions, name.split()[0])


PAIRS = [
    (p, q)
    for p in CASES
    for q in CASES
    if not {"logits", "vectors", "numbers"} & {*p.split(), *q.split()}
    and torch.distributions.kl._dispatch_kl(kind(p), kind(q)) is not NotImplemented
] + [
    (p, q)
    for p in ("MultivariateNormal", "MultivariateNormal factor", "LowRankMultivariateNormal")
    for q in ("MultivariateNormal precision", "MultivariateNormal", "LowRankMultivariateNormal")
]
# Finite where PyTorch says infinite: the supports agree but for a boundary.
FINITE = {("ContinuousBernoulli", "Uniform"), ("Uniform", "ContinuousBernoulli")}


def divergence(L, p, q):
    (first, a), (second, b) = ALL[p](L, "float64"), ALL[q](L, "float64")
    result = L.distributions.kl_divergence(first, second)
    return result, gradients(L, result, a + b)


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_kl_divergence(p, q):
    if (p, q) in FINITE:
        return
    try:
        theirs, their_grads = divergence(torch, p, q)
    except NotImplementedError:
        with pytest.raises(NotImplementedError):
            divergence(rushlight, p, q)
        return
    ours, our_grads = divergence(rushlight, p, q)
    np.testing.assert_allclose(
        to_numpy(ours), np.broadcast_to(to_numpy(theirs), ours.shape), 1e-8, 1e-12
    )
    if np.isfinite(to_numpy(theirs)).all() and len(our_grads) == len(their_grads):
        for a, b in zip(our_grads, their_grads, strict=True):
            if a is not None and b is not None:
                compare(a, b, 1e-7, 1e-9)


ERRORS = [
    "D.Normal(0.0, -1.0)",
    "D.Normal(L.tensor([0.0, float('nan')]), 1.0)",
    "D.Normal('a', 1.0)",
    "D.Normal(L.zeros(2), L.ones(3))",
    "D.Normal(0.0, 1.0).log_prob(1.0)",
    "D.Normal(0.0, 1.0).log_prob(L.tensor(float('nan')))",
    "D.Normal(L.zeros(2), 1.0).log_prob(L.zeros(3))",
    "D.Independent(D.Normal(L.zeros(2), 1.0), 1).log_prob(L.zeros(3))",
    "D.Dirichlet(L.ones(3)).log_prob(L.ones(2))",
    "D.Dirichlet(L.ones(2)).log_prob(L.ones(2))",
    "D.Dirichlet(L.tensor(1.0))",
    "D.Bernoulli(1.5)",
    "D.Bernoulli(probs=0.5, logits=0.0)",
    "D.Bernoulli()",
    "D.Bernoulli(0.5).log_prob(L.tensor(0.5))",
    "D.Categorical(L.tensor(0.5))",
    "D.Categorical(L.tensor([0.5, -0.5]))",
    "D.Categorical(L.ones(3)).log_prob(L.tensor(3))",
    "D.Binomial(-1, L.tensor(0.5))",
    "D.Binomial(L.tensor([1.0, 2.0]), L.tensor(0.5)).entropy()",
    "D.Multinomial(L.tensor(3), L.ones(2))",
    "D.Geometric(0.0)",
    "D.Uniform(1.0, 0.0)",
    "D.Uniform(0.0, 1.0).log_prob(L.tensor(2.0))",
    "D.Independent(D.Normal(0.0, 1.0), 1)",
    "D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0))",
    "D.MixtureSameFamily(D.Categorical(L.ones(2)), D.Normal(L.zeros(3), 1.0))",
    "D.TransformedDistribution(D.Normal(0.0, 1.0), 3)",
    "D.TransformedDistribution(D.Normal(0.0, 1.0), [3])",
    "D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform())",
    "D.kl_divergence(D.Normal(0.0, 1.0), D.Cauchy(0.0, 1.0))",
    "D.Normal(0.0, 1.0).enumerate_support()",
    "D.Gamma(1.0, 1.0).icdf(L.tensor(0.5))",
    "D.Distribution.set_default_validate_args(3)",
    "D.biject_to(D.constraints.boolean)",
    "D.transform_to.register(int, None)(3)",
    "D.ExpTransform(cache_size=2)",
    "D.ReshapeTransform((2, 3), (5,))",
    "D.CorrCholeskyTransform().forward_shape((4,))",
    "D.LKJCholesky(1)",
    "D.MultivariateNormal(L.zeros(2))",
    "D.MultivariateNormal(L.tensor(1.0), L.eye(2))",
    "D.ContinuousBernoulli(2.0, validate_args=True)",
    "D.Poisson(-1.0)",
    "D.constraints.dependent.check(3)",
    "D.constraints.dependent.event_dim",
    "D.utils.tril_matrix_to_vec(L.zeros(2, 2), diag=3)",
]


@pytest.mark.parametrize("program", ERRORS)
def test_errors(program):
    caught = []
    for L in LIBRARIES:
        with pytest.raises(Exception) as error:
            eval(program, {"L": L, "D": L.distributions})
        caught.append(error.value)
    ours, theirs = caught
    assert type(ours).__name__ == type(theirs).__name__
    first = str(theirs).split("\n")[0].rstrip(".")
    if first and "shape" not in program:
        assert first.split(":")[0][:40] in str(ours)


PRIVATE = [
    "utils._standard_normal", "utils._sum_rightmost", "utils.euler_constant", "kl._KL_REGISTRY",
    "kl._KL_MEMOIZE", "kl._dispatch_kl", "kl._Match", "kl._infinite_like", "kl._x_log_x",
    "kl._kl_normal_normal", "kl._kl_independent_independent", "multivariate_normal._batch_mv",
    "multivariate_normal._batch_mahalanobis", "multivariate_normal._precision_to_scale_tril",
    "lowrank_multivariate_normal._batch_capacitance_tril",
    "lowrank_multivariate_normal._batch_lowrank_logdet",
    "lowrank_multivariate_normal._batch_lowrank_mahalanobis", "von_mises._log_modified_bessel_fn",
    "von_mises._rejection_sample", "wishart._mvdigamma", "transforms._InverseTransform",
    "transforms._clipped_sigmoid", "dirichlet._Dirichlet_backward", "gamma._standard_gamma",
    "binomial._clamp_by_zero", "kumaraswamy._moments", "relaxed_bernoulli.LogitRelaxedBernoulli",
    "relaxed_categorical.ExpRelaxedCategorical", "constraint_registry.ConstraintRegistry",
]  # fmt: skip


@pytest.mark.parametrize("path", PRIVATE)
def test_names_that_libraries_import(path):
    module, name = path.split(".")
    assert hasattr(getattr(torch.distributions, module), name)
    assert hasattr(getattr(rushlight.distributions, module), name)


@pytest.mark.parametrize("name", torch.distributions.__all__)
def test_public_names_take_the_same_arguments(name):
    import inspect

    ours = getattr(rushlight.distributions, name)
    theirs = getattr(torch.distributions, name)
    assert inspect.isclass(ours) == inspect.isclass(theirs)
    if callable(theirs):
        a, b = inspect.signature(ours).parameters, inspect.signature(theirs).parameters
        assert list(a) == list(b)
        assert [p.default for p in a.values()] == [p.default for p in b.values()]


@pytest.mark.parametrize("name", torch.distributions.constraints.__all__)
def test_constraints_are_there(name):
    ours = getattr(rushlight.distributions.constraints, name)
    assert repr(ours).split(" ")[0] == repr(getattr(torch.distributions.constraints, name)).split(
        " "
    )[0] or isinstance(ours, type)


CONSTRAINED = [
    "real", "positive", "nonnegative", "unit_interval", "simplex", "real_vector", "lower_cholesky",
    "lower_triangular", "corr_cholesky", "boolean", "one_hot", "nonnegative_integer",
    "positive_integer", "square", "greater_than(0.5)", "greater_than_eq(1.0)", "less_than(0.5)",
    "interval(-1.0, 1.0)", "half_open_interval(0.0, 1.0)", "integer_interval(0, 1)",
    "independent(C.positive, 2)", "multinomial(2)", "cat([C.real, C.positive], dim=-1)",
    "stack([C.real, C.positive], dim=-1)", "symmetric", "positive_definite",
    "positive_semidefinite",
]  # fmt: skip
POINTS = [
    [[1.0, 0.0], [0.6, 0.8]],
    [[0.5, 0.5], [0.5, 0.5]],
    [[-1.0, 2.0], [float("nan"), 0.0]],
    [[2.0, 0.5], [0.5, 1.0]],
    [[0.0, 1.0], [1.0, 0.0]],
]


@pytest.mark.parametrize("text", CONSTRAINED)
def test_constraints(text):
    for point in POINTS:
        found = []
        for L in LIBRARIES:
            constraint = eval(f"C.{text}", {"C": L.distributions.constraints})
            checked = constraint.check(L.tensor(point, dtype=L.float64))
            found.append((checked.tolist(), repr(constraint), constraint.event_dim))
        assert found[0] == found[1]


TRANSFORMED = [text for text in CONSTRAINED if not text.startswith(("cat", "stack"))]


@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
@pytest.mark.parametrize("text", TRANSFORMED)
def test_transforms_to_constraints(registry, text):
    found = []
    x = np.array([[0.3, -0.7, 1.1], [0.2, 0.5, -2.0], [1.0, 0.1, 0.4]])
    for L in LIBRARIES:
        D = L.distributions
        constraint = eval(f"C.{text}", {"C": D.constraints})
        try:
            t = getattr(D, registry)(constraint)
        except NotImplementedError as error:
            found.append(type(error).__name__)
            continue
        leaf = L.tensor(x).requires_grad_()
        y = t(leaf)
        row = [repr(t), to_numpy(y), to_numpy(t.inv(y)), t.domain.event_dim, t.codomain.event_dim]
        row += [to_numpy(g) for g in gradients(L, y, [leaf])]
        row += [tuple(t.forward_shape(leaf.shape)), tuple(t.inverse_shape(y.shape))]
        if t.bijective:
            row.append(to_numpy(t.log_abs_det_jacobian(leaf, y)))
        found.append(row)
    for a, b in zip(*found, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_allclose(a, b, 1e-8, 1e-9)
        else:
            assert a == b
