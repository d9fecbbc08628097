"""nn.utils: the same gradients, weights, names and trajectories as PyTorch's."""

import copy
import warnings

import numpy as np
import pytest
import torch as reference

import rushlight as torch

LIBRARIES = (torch, reference)


def both(program):
    """What a program gives in both libraries, with the same random numbers."""
    results = []
    for library in LIBRARIES:
        with torch.random.torch_streams(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library.manual_seed(5)
            results.append(flat(program(library), library))
    return results


def flat(value, library):
    if isinstance(value, library.Tensor):
        return [value.detach().numpy()]
    if isinstance(value, dict):
        return [list(value), *flat(list(value.values()), library)]
    if isinstance(value, (tuple, list)):
        return [x for v in value for x in flat(v, library)]
    return [value]


def same(program, tolerance=1e-8):
    ours, theirs = both(program)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if isinstance(b, np.ndarray):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
        else:
            assert a == b


def parameters(library):
    rng = np.random.default_rng(1)
    made = []
    for shape in ((3, 4), (5,), (), (2, 2, 2)):
        p = library.tensor(rng.standard_normal(shape), requires_grad=True)
        p.grad = library.tensor(np.asarray(rng.standard_normal(shape) * 3))
        made.append(p)
    made.append(library.tensor([1.0], requires_grad=True))  # has no gradient
    return made


@pytest.mark.parametrize("norm_type", [1, 2, 3.5, float("inf"), 0.5])
@pytest.mark.parametrize("max_norm", [0.7, 1000.0])
def test_clip_grad_norm(norm_type, max_norm):
    def program(t):
        ps = parameters(t)
        total = t.nn.utils.clip_grad_norm_(iter(ps), max_norm, norm_type)
        return total, [p.grad for p in ps[:-1]]

    same(program)


def test_norm_of_mixed_types_and_no_gradients():
    same(lambda t: t.nn.utils.clip_grad_norm_([], 1.0))
    same(lambda t: t.nn.utils.get_total_norm([t.ones(3), t.ones(2, dtype=t.float64)]), 1e-6)


def test_clip_grad_value():
    def program(t):
        ps = parameters(t)
        t.nn.utils.clip_grad_value_(ps, 1.5)
        return [p.grad for p in ps[:-1]]

    same(program)


def test_a_norm_that_is_not_finite():
    for t in LIBRARIES:
        p = t.zeros(2, requires_grad=True)
        p.grad = t.tensor([float("inf"), 1.0])
        with pytest.raises(RuntimeError, match="non-finite, so it cannot be clipped"):
            t.nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
        assert p.grad[1].item() == 1.0
        assert t.nn.utils.clip_grad_norm_(p, 1.0).item() == float("inf")


def test_parameters_as_a_vector():
    def program(t):
        ps = parameters(t)
        vector = t.nn.utils.parameters_to_vector(ps)
        t.nn.utils.vector_to_parameters(vector.detach() * 2, ps)
        return vector, ps

    same(program)


def train(t, model, shape, steps=3):
    """Losses, and the state after some steps of gradient descent."""
    data = np.random.default_rng(3)
    losses = []
    for _ in range(steps):
        loss = (model(t.tensor(data.standard_normal(shape))) ** 2).sum()
        model.zero_grad()
        loss.backward()
        with t.no_grad():
            for p in model.parameters():
                p -= 0.01 * p.grad
        losses.append(loss)
    return losses, dict(model.state_dict())


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("new", [False, True])
def test_weight_norm(dim, new):
    def program(t):
        layer = t.nn.Linear(4, 3, dtype=t.float64)
        utils = t.nn.utils.parametrizations if new else t.nn.utils
        layer = utils.weight_norm(layer, dim=dim)
        trained = train(t, layer, (5, 4))
        if new:
            t.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        else:
            t.nn.utils.remove_weight_norm(layer)
        return trained, layer.weight, list(layer.state_dict()), repr(layer)

    same(program)


@pytest.mark.parametrize("kind", ["Linear", "Conv2d", "ConvTranspose2d"])
@pytest.mark.parametrize("new", [False, True])
def test_spectral_norm(kind, new):
    def program(t):
        if kind == "Linear":
            layer, shape = t.nn.Linear(4, 3, dtype=t.float64), (5, 4)
        else:
            layer, shape = getattr(t.nn, kind)(2, 3, 2, dtype=t.float64), (2, 2, 5, 5)
        utils = t.nn.utils.parametrizations if new else t.nn.utils
        layer = utils.spectral_norm(layer, n_power_iterations=2)
        trained = train(t, layer, shape)
        metadata = dict(layer.state_dict()._metadata)
        layer.eval()
        out = layer(t.ones(shape, dtype=t.float64))
        if new:
            t.nn.utils.parametrize.remove_parametrizations(layer, "weight")
        else:
            t.nn.utils.remove_spectral_norm(layer)
        return trained, repr(metadata), out, layer.weight, repr(layer)

    same(program)


@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("trivial", [True, False])
@pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5)])
def test_orthogonal(orthogonal_map, trivial, shape):
    def program(t):
        layer = t.nn.Linear(*shape, dtype=t.float64)
        t.nn.utils.parametrizations.orthogonal(
            layer, orthogonal_map=orthogonal_map, use_trivialization=trivial
        )
        trained = train(t, layer, (4, shape[0]))
        product = (
            layer.weight @ layer.weight.T if shape[1] <= shape[0] else layer.weight.T @ layer.weight
        )
        return trained, layer.weight, product

    same(program, 1e-7)


class Programs:
    """Parametrizations of one's own, in both libraries."""

    @staticmethod
    def symmetric(t):
        class Symmetric(t.nn.Module):
            def forward(self, x):
                return x.triu() + x.triu(1).transpose(-1, -2)

            def right_inverse(self, x):
                return x.triu()

        return Symmetric()

    @staticmethod
    def low_rank(t):
        class LowRank(t.nn.Module):
            def forward(self, a, b):
                return a @ b

            def right_inverse(self, x):
                return x[:, :2].clone(), x[:2].clone()

        return LowRank()


def test_parametrizations_stack_and_unstack():
    def program(t):
        parametrize = t.nn.utils.parametrize
        layer = t.nn.Linear(3, 3, dtype=t.float64)
        parametrize.register_parametrization(layer, "weight", Programs.symmetric(t))
        parametrize.register_parametrization(layer, "weight", Programs.symmetric(t))
        parametrize.register_parametrization(layer, "bias", t.nn.Tanh())
        layer.weight = t.arange(9, dtype=t.float64).reshape(3, 3)
        trained = train(t, layer, (4, 3))
        again = copy.deepcopy(layer)
        with parametrize.cached():
            assert layer.weight is layer.weight
        facts = [
            repr(layer),
            parametrize.is_parametrized(layer),
            parametrize.is_parametrized(layer, "weight"),
            parametrize.type_before_parametrizations(layer) is t.nn.Linear,
            [n for n, _ in layer.named_parameters()],
        ]
        weights = layer.weight, again.weight
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
        parametrize.remove_parametrizations(layer, "bias")
        assert type(layer) is t.nn.Linear
        return trained, facts, weights, dict(layer.state_dict())

    same(program)


def test_a_parametrization_by_several_tensors():
    def program(t):
        layer = t.nn.Linear(4, 4, dtype=t.float64)
        t.nn.utils.parametrize.register_parametrization(
            layer, "weight", Programs.low_rank(t), unsafe=True
        )
        return train(t, layer, (3, 4)), [n for n, _ in layer.named_parameters()]

    same(program)


@pytest.mark.parametrize("affine", [True, False])
def test_fusion_with_batch_norm(affine):
    def program(t):
        x = t.randn(4, 2, 6, 6, dtype=t.float64)
        conv = t.nn.Conv2d(2, 3, 3, dtype=t.float64)
        bn = t.nn.BatchNorm2d(3, affine=affine, dtype=t.float64)
        bn(conv(x))
        conv.eval()
        bn.eval()
        fused = t.nn.utils.fuse_conv_bn_eval(conv, bn)
        assert bool((fused(x) - bn(conv(x))).abs().max() < 1e-10)
        return fused(x)

    same(program)


def test_linear_fusion():
    def program(t):
        x = t.randn(4, 2, dtype=t.float64)
        linear, bn = t.nn.Linear(2, 3, dtype=t.float64), t.nn.BatchNorm1d(3, dtype=t.float64)
        bn(linear(x))
        return t.nn.utils.fuse_linear_bn_eval(linear.eval(), bn.eval())(x)

    same(program)


def test_functional_call():
    def program(t):
        model = t.nn.Sequential(t.nn.Linear(2, 2, dtype=t.float64), t.nn.Tanh())
        model.tied = model[0]
        given = {"0.weight": t.ones(2, 2, dtype=t.float64)}
        out = t.nn.utils.stateless.functional_call(model, given, t.ones(1, 2, dtype=t.float64))
        return out

    same(program)


def test_functional_call_leaves_shared_modules_alone():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    model.tied = model[0]
    before = model[0].weight
    with pytest.warns(FutureWarning):
        torch.nn.utils.stateless.functional_call(
            model, {"0.weight": torch.ones(2, 2)}, torch.ones(1, 2)
        )
    assert model[0].weight is before


BAD = [
    lambda t: t.nn.utils.remove_weight_norm(t.nn.Linear(2, 2)),
    lambda t: t.nn.utils.remove_spectral_norm(t.nn.Linear(2, 2)),
    lambda t: t.nn.utils.spectral_norm(t.nn.Linear(2, 2), n_power_iterations=0),
    lambda t: t.nn.utils.spectral_norm(t.nn.Linear(2, 2, bias=False), "bias"),
    lambda t: t.nn.utils.spectral_norm(t.nn.utils.spectral_norm(t.nn.Linear(2, 2)), "weight"),
    lambda t: t.nn.utils.parametrize.register_parametrization(t.nn.Linear(2, 2), "x", t.nn.Tanh()),
    lambda t: t.nn.utils.parametrize.register_parametrization(
        t.nn.Linear(2, 3), "weight", t.nn.Flatten(0)
    ),
    lambda t: t.nn.utils.parametrize.remove_parametrizations(t.nn.Linear(2, 2), "weight"),
    lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), "bias"),
    lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(2, 2), orthogonal_map="x"),
    lambda t: t.nn.utils.vector_to_parameters([1.0], [t.ones(1)]),
    lambda t: t.nn.utils.fuse_conv_bn_eval(t.nn.Conv2d(1, 1, 1), t.nn.BatchNorm2d(1)),
    lambda t: t.nn.utils.skip_init(t.nn.ReLU),
    lambda t: t.nn.utils.stateless.functional_call(
        t.nn.Linear(1, 1), {}, t.ones(1, 1), strict=True
    ),
]


@pytest.mark.parametrize("call", BAD)
def test_same_errors(call):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(Exception) as theirs:
            call(reference)
        with pytest.raises(theirs.type) as ours:
            call(torch)
    assert str(ours.value)[:25] == str(theirs.value)[:25]
