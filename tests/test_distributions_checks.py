"""What distributions refuse, and how they are extended."""

import pickle
import subprocess
import sys
from typing import ClassVar

import pytest

import rushlight as torch
from rushlight import distributions as D
from rushlight.distributions import constraints
from rushlight.distributions.utils import broadcast_all, lazy_property, vec_to_tril_matrix
from support import check


@pytest.fixture
def unchecked():
    before = D.Distribution._validate_args
    D.Distribution.set_default_validate_args(False)
    yield
    D.Distribution.set_default_validate_args(before)


def test_parameters_outside_of_their_constraint():
    with pytest.raises(ValueError, match=r"Expected parameter scale .* of distribution Normal"):
        D.Normal(torch.zeros(2), torch.tensor([1.0, -1.0]))
    with pytest.raises(ValueError, match=r"GreaterThan.lower_bound=0.0.* found invalid values"):
        D.Normal(0.0, 0.0)
    with pytest.raises(ValueError, match="Expected parameter loc"):
        D.Normal(float("nan"), 1.0)
    D.Normal(0.0, -1.0, validate_args=False)


def test_values_outside_of_the_support():
    with pytest.raises(ValueError, match=r"within the support .Boolean... of the distribution"):
        D.Bernoulli(0.5).log_prob(torch.tensor(0.3))
    with pytest.raises(ValueError, match="must be a Tensor"):
        D.Normal(0.0, 1.0).log_prob(3.0)
    with pytest.raises(ValueError, match="not broadcastable"):
        D.Normal(torch.zeros(2), 1.0).log_prob(torch.zeros(3))
    with pytest.raises(ValueError, match="right-most size"):
        D.Dirichlet(torch.ones(3)).log_prob(torch.ones(4) / 4)


def test_checks_are_turned_off(unchecked):
    assert D.Normal(0.0, -1.0).scale.item() == -1
    assert D.Bernoulli(0.5).log_prob(torch.tensor(0.3)).isfinite()
    with pytest.raises(ValueError, match="Expected parameter"):
        D.Normal(0.0, -1.0, validate_args=True)


def test_expand_keeps_the_checks():
    d = D.Normal(0.0, 1.0, validate_args=False).expand((3,))
    assert d.log_prob(torch.tensor(float("nan"))).shape == (3,)
    assert D.Normal(0.0, 1.0).expand((3,))._validate_args


def test_a_subclass_with_its_own_init_needs_its_own_expand():
    class Standard(D.Normal):
        def __init__(self):
            super().__init__(0.0, 1.0)

    with pytest.raises(NotImplementedError, match=r"must also define a custom .expand"):
        Standard().expand((2,))

    class Same(D.Normal):
        pass

    assert type(Same(0.0, 1.0).expand((2,))) is Same


def test_a_distribution_that_says_nothing():
    class Silent(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        d = Silent()
    with pytest.warns(UserWarning, match="does not define `support`"):
        d._validate_sample(torch.zeros(1))
    for call in (d.rsample, d.entropy, lambda: d.log_prob(0), lambda: d.mean, lambda: d.mode):
        with pytest.raises(NotImplementedError):
            call()
    with pytest.raises(NotImplementedError, match="does not implement expand"):
        d.expand((2,))


def test_a_family_of_a_program():
    class Triangle(D.Distribution):
        arg_constraints: ClassVar = {"width": constraints.positive}
        has_rsample = True

        def __init__(self, width, validate_args=None):
            (self.width,) = broadcast_all(width)
            super().__init__(self.width.shape, validate_args=validate_args)

        @constraints.dependent_property(is_discrete=False, event_dim=0)
        def support(self):
            return constraints.interval(0.0, self.width)

        def rsample(self, sample_shape=()):
            shape = self._extended_shape(sample_shape)
            return self.width * torch.rand(shape).sqrt()

        def log_prob(self, value):
            if self._validate_args:
                self._validate_sample(value)
            return (2 * value / self.width**2).log()

    width = torch.tensor([1.0, 4.0], requires_grad=True)
    d = Triangle(width)
    assert d.sample((3,)).shape == (3, 2)
    assert d.rsample().requires_grad
    assert "width: torch.Size([2])" in repr(d)
    with pytest.raises(ValueError, match="within the support"):
        d.log_prob(torch.tensor([2.0, 2.0]))


def test_registered_divergences_are_found_by_class():
    class Mine(D.Normal):
        pass

    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 0

    @D.register_kl(Mine, D.Normal)
    def own(p, q):
        return torch.tensor(5.0)

    try:
        assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 5
        assert D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)).item() == 5

        @D.register_kl(D.Normal, Mine)
        def other(p, q):
            return torch.tensor(6.0)

        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
            D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0))
    finally:
        for pair in ((Mine, D.Normal), (D.Normal, Mine)):
            D.kl._KL_REGISTRY.pop(pair, None)
        D.kl._KL_MEMOIZE.clear()
    with pytest.raises(TypeError, match="Distribution subclass"):
        D.register_kl(3, D.Normal)


def test_logits_and_probabilities_follow_from_each_other():
    p = D.Bernoulli(torch.tensor([0.2, 0.5]))
    assert "logits" not in p.__dict__
    check(p.logits.sigmoid(), p.probs, rtol=1e-6)
    assert "logits" in p.__dict__
    q = D.Categorical(logits=torch.tensor([1.0, 2.0]))
    check(q.probs.sum(), 1.0, rtol=1e-6)


def test_lazy_properties_keep_gradients():
    class Square:
        def __init__(self, x):
            self.x = x

        @lazy_property
        def square(self):
            return self.x**2

    s = Square(torch.tensor(3.0, requires_grad=True))
    with torch.no_grad():
        value = s.square
    assert value.requires_grad
    assert s.square is value
    assert isinstance(Square.square, property)


def test_triangles():
    m = vec_to_tril_matrix(torch.arange(1.0, 4.0), diag=-1)
    assert m.shape == (3, 3)
    check(D.utils.tril_matrix_to_vec(m, diag=-1), [1, 2, 3])
    with pytest.raises(ValueError, match="lower triangular part"):
        vec_to_tril_matrix(torch.zeros(4))


def test_distributions_are_pickled():
    d = D.TransformedDistribution(D.Normal(torch.zeros(2), 1.0), [D.ExpTransform()])
    d.transforms[0].inv
    e = pickle.loads(pickle.dumps(d))
    check(e.log_prob(torch.ones(2)), d.log_prob(torch.ones(2)))


def test_the_types_of_samples_are_those_of_parameters():
    for dtype in (torch.float32, torch.float64):
        one = torch.ones(2, dtype=dtype)
        for d in (D.Normal(one, 1.0), D.Gamma(one, 2.0), D.Poisson(one), D.VonMises(one, one)):
            assert d.sample().dtype == dtype
            assert d.log_prob(d.sample()).dtype == dtype


def test_empty_batches():
    for d in (
        D.Normal(torch.zeros(0), 1.0),
        D.Gamma(torch.ones(0), 1.0),
        D.Beta(torch.ones(0), 2.0),
    ):
        assert d.sample((2,)).shape == (2, 0)
        assert d.log_prob(d.sample()).shape == (0,)
        assert D.kl_divergence(d, d).shape == (0,)


def test_mixtures_of_vectors():
    components = D.Independent(D.Normal(torch.zeros(5, 3, 2), 1.0), 1)
    d = D.MixtureSameFamily(D.Categorical(torch.ones(5, 3)), components)
    assert (d.batch_shape, d.event_shape) == ((5,), (2,))
    assert d.sample((4,)).shape == (4, 5, 2)
    assert d.mean.shape == d.variance.shape == (5, 2)
    assert d.log_prob(d.sample()).shape == (5,)


def test_straight_through_gradients():
    probs = torch.tensor([0.2, 0.8], requires_grad=True)
    x = D.OneHotCategoricalStraightThrough(probs).rsample()
    (slope,) = torch.autograd.grad((x * torch.tensor([1.0, 3.0])).sum(), probs)
    assert slope.abs().sum() > 0


def test_the_package_is_loaded_when_it_is_used():
    program = (
        "import sys, rushlight\n"
        "assert 'rushlight.distributions' not in sys.modules\n"
        "rushlight.distributions.Normal(0, 1)\n"
        "assert 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
