"""Transforms of functions: arguments, structure, nesting in every order, and what they leave."""

import itertools
import math
import sys
import threading

import pytest

import rushlight as torch
from rushlight import _C, functorch
from rushlight.func import (
    functional_call,
    functionalize,
    gauss_newton_product,
    grad,
    grad_and_value,
    hessian,
    hvp,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)
from support import check, randn

ONE = torch.tensor(1.0, dtype=torch.float64)


def scalar(value):
    return torch.tensor(value, dtype=torch.float64)


def nothing_left():
    return (
        _C._vmap_depth() == 0
        and torch.autograd.forward_ad._current_level == -1
        and torch.is_grad_enabled()
    )


# -- nesting --------------------------------------------------------------------------------------


def wave(x):
    return torch.sin(2 * x) * x


def wave_derivative(x, k):
    """Of order k, in closed form."""
    turned = x * 2**k * math.sin(2 * x + k * math.pi / 2)
    if k == 0:
        return turned
    return turned + k * 2 ** (k - 1) * math.sin(2 * x + (k - 1) * math.pi / 2)


# Each takes a function of a number to its derivative, or, for vmap, to itself.
STEPS = {
    "grad": grad,
    "jvp": lambda f: lambda x: jvp(f, (x,), (torch.ones_like(x),))[1],
    "vmap": lambda f: lambda x: vmap(f)(x.expand(3)).sum() / 3,
    "jacrev": jacrev,
    "jacfwd": jacfwd,
    "vjp": lambda f: lambda x: vjp(f, x)[1](torch.ones_like(x))[0],
    "linearize": lambda f: lambda x: linearize(f, x)[1](torch.ones_like(x)),
}


@pytest.mark.parametrize("outermost", STEPS)
def test_transforms_nest_in_every_order_to_depth_four(outermost):
    for inner in itertools.product(STEPS, repeat=3):
        f, order = wave, 0
        for name in (*inner, outermost):
            f = STEPS[name](f)
            order += name != "vmap"
        found, right = float(f(scalar(0.7))), wave_derivative(0.7, order)
        assert found == pytest.approx(right, rel=1e-9), (*inner, outermost)
    assert nothing_left()


def test_vectors_through_four_levels():
    """sum(x⁴): the fourth derivative is 24 on the diagonal of diagonals."""
    x = randn(2)
    fourth = jacfwd(jacrev(jacfwd(jacrev(lambda x: (x**4).sum()))))(x)
    right = torch.zeros(2, 2, 2, 2, dtype=torch.float64)
    right[0, 0, 0, 0] = right[1, 1, 1, 1] = 24
    check(fourth, right)
    check(vmap(vmap(hessian(lambda x: (x**3).prod())))(randn(2, 3, 2)), by_hand(randn(2, 3, 2)))


def by_hand(points):
    rows = points.reshape(-1, 2)
    blocks = []
    for a, b in rows.tolist():
        cross = 9 * a**2 * b**2
        blocks.append([[6 * a * b**3, cross], [cross, 6 * b * a**3]])
    return torch.tensor(blocks, dtype=torch.float64).reshape(*points.shape, 2)


def test_an_inner_transform_does_not_see_the_outer_variable_as_its_own():
    """The confusion of perturbations: d/dx (x * d/dy (x + y)) is 1, not 2."""
    f = lambda x: x * grad(lambda y: x + y)(ONE)
    assert float(grad(f)(ONE)) == 1
    g = lambda x: x * jvp(lambda y: x + y, (ONE,), (ONE,))[1]
    assert float(jvp(g, (ONE,), (ONE,))[1]) == 1
    assert float(grad(g)(ONE)) == 1
    assert float(jvp(f, (ONE,), (ONE,))[1]) == 1


# -- autograd inside ------------------------------------------------------------------------------


def test_autograd_grad_inside_a_transform():
    def f(x):
        (slope,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        return (slope**2).sum()

    x = randn(3)
    check(grad(f)(x), 36 * x**3)
    check(vmap(grad(f))(randn(4, 3)), 36 * randn(4, 3) ** 3)
    check(
        jacfwd(lambda x: torch.autograd.grad((x**3).sum(), x)[0])(x.requires_grad_()), 6 * x.diag()
    )


def test_backward_inside_a_transform():
    def f(x):
        w = torch.ones(3, dtype=torch.float64, requires_grad=True)
        (w * 3).sum().backward()
        return (x * x * w.grad).sum()

    x = randn(3)
    check(grad(f)(x), 6 * x)
    assert nothing_left()


def test_no_grad_inside_stops_reverse_mode():
    def f(x):
        with torch.no_grad():
            constant = x**2
        return (x * constant).sum()

    x = randn(3)
    check(grad(f)(x), x**2)
    check(grad(lambda x: (x * (x**2).detach()).sum())(x), x**2)


def test_no_grad_outside_does_not_matter():
    x = randn(3)
    with torch.no_grad():
        check(grad(lambda x: (x**3).sum())(x), 3 * x**2)
        check(hessian(lambda x: (x**3).sum())(x), 6 * x.diag())
        check(grad(grad(lambda t: t**3))(x[0]), 6 * x[0])
        assert not grad(lambda x: (x**3).sum())(x.clone().requires_grad_()).requires_grad


# -- what comes out -------------------------------------------------------------------------------

CALLS = {
    "grad": lambda x: grad(lambda x: (x**3).sum())(x),
    "grad_and_value": lambda x: grad_and_value(lambda x: (x**3).sum())(x)[1],
    "vjp": lambda x: vjp(torch.exp, x)[0],
    "pull": lambda x: vjp(torch.exp, x)[1](torch.ones_like(x))[0],
    "jvp": lambda x: jvp(torch.exp, (x,), (torch.ones_like(x),))[1],
    "linearize": lambda x: linearize(torch.exp, x)[0],
    "push": lambda x: linearize(torch.exp, x)[1](torch.ones_like(x)),
    "jacrev": lambda x: jacrev(torch.exp)(x),
    "jacfwd": lambda x: jacfwd(torch.exp)(x),
    "hessian": lambda x: hessian(lambda x: (x**3).sum())(x),
    "vmap": lambda x: vmap(torch.exp)(x),
    "hvp": lambda x: hvp(lambda x: (x**3).sum(), (x,), (torch.ones_like(x),))[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_results_require_grad_only_if_something_outside_does(name):
    x = randn(3)
    plain = CALLS[name](x)
    assert not plain.requires_grad
    outer = x.clone().requires_grad_()
    recorded = CALLS[name](outer)
    check(recorded, plain)
    assert recorded.requires_grad
    (found,) = torch.autograd.grad(recorded.sum(), outer)
    check(found, grad(lambda x: CALLS[name](x).sum())(x))


def test_captured_tensors_are_differentiated_from_outside():
    w, x = randn(3).requires_grad_(), randn(3, seed=1)
    found = grad(lambda x: (w * x**2).sum())(x)
    check(found, 2 * w * x)
    found.sum().backward()
    check(w.grad, 2 * x)


def test_what_does_not_depend_on_the_argument_has_zeros():
    x, y = randn(3), randn(2)
    check(grad(lambda x: y.sum())(x), torch.zeros(3))
    check(jacrev(lambda x: y)(x), torch.zeros(2, 3))
    check(jacfwd(lambda x: y)(x), torch.zeros(2, 3))
    check(jvp(lambda x: y, (x,), (x,))[1], torch.zeros(2))
    check(vjp(lambda x: y, x)[1](y)[0], torch.zeros(3))
    check(linearize(lambda x: y, x)[1](x), torch.zeros(2))


# -- arguments and structure ----------------------------------------------------------------------


def test_argnums():
    f = lambda x, y, *, power: (x**power * y).sum()
    x, y = randn(3), randn(3, seed=1)
    check(grad(f)(x, y, power=2), 2 * x * y)
    check(grad(f, 1)(x, y, power=2), x**2)
    check(grad(f, -1)(x, y, power=2), x**2)
    a, b = grad(f, (0, 1))(x, y, power=2)
    check(a, 2 * x * y)
    check(b, x**2)
    (only,) = grad(f, (0,))(x, y, power=2)
    check(only, a)
    blocks = jacrev(lambda x, y: x * y, (0, 1))(x, y)
    check(blocks[0], y.diag())
    check(blocks[1], x.diag())
    check(jacfwd(lambda x, y: x * y, (1, 0))(x, y)[0], x.diag())
    mixed = hessian(lambda x, y: (x**2 * y).sum(), (0, 1))(x, y)
    check(mixed[0][1], (2 * x).diag())
    check(mixed[1][1], torch.zeros(3, 3))


def test_trees_of_arguments_and_results():
    tree = {"w": randn(2), "b": [randn(2, seed=1), (randn(2, seed=2),)]}
    f = lambda t: {"sum": t["w"] + t["b"][0], "pair": (t["b"][1][0] ** 2,)}
    slopes = grad(lambda t: sum(v.sum() for v in (f(t)["sum"], f(t)["pair"][0])))(tree)
    check(slopes["w"], torch.ones(2))
    check(slopes["b"][1][0], 2 * tree["b"][1][0])
    for jacobian in (jacrev(f)(tree), jacfwd(f)(tree)):
        check(jacobian["sum"]["w"], torch.eye(2))
        check(jacobian["pair"][0]["b"][1][0], (2 * tree["b"][1][0]).diag())
        check(jacobian["pair"][0]["w"], torch.zeros(2, 2))
    value, moved = jvp(f, (tree,), (tree,))
    check(moved["pair"][0], 2 * value["pair"][0])
    _, pull = vjp(f, tree)
    check(pull(value)[0]["b"][0], value["sum"])
    _, push = linearize(f, tree)
    check(push(tree)["pair"][0], moved["pair"][0])


def test_aux_comes_along():
    f = lambda x: ((x**2).sum(), {"twice": 2 * x, "note": "kept"})
    x = randn(3)
    slope, aux = grad(f, has_aux=True)(x)
    check(slope, 2 * x)
    check(aux["twice"], 2 * x)
    assert aux["note"] == "kept"
    assert not aux["twice"].requires_grad
    slope, (value, aux) = grad_and_value(f, has_aux=True)(x)
    check(value, (x**2).sum())
    for jacobian in (jacrev, jacfwd):
        found, aux = jacobian(lambda x: (x**2, x + 1), has_aux=True)(x)
        check(found, (2 * x).diag())
        check(aux, x + 1)
    _, pull, aux = vjp(f, x, has_aux=True)
    check(pull(ONE)[0], 2 * x)
    _, moved, aux = jvp(f, (x,), (x,), has_aux=True)
    check(moved, 2 * (x**2).sum())
    check(aux["twice"], 2 * x)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3)])
def test_jacobians_of_any_shape(shape):
    x = randn(*shape)
    for jacobian in (jacrev, jacfwd):
        found = jacobian(lambda x: x * 2)(x)
        assert found.shape == (*shape, *shape)
        check(found.reshape(x.numel(), x.numel()), 2 * torch.eye(x.numel()))
        assert jacobian(lambda x: x.sum())(x).shape == shape


@pytest.mark.parametrize("size", [1, 2, 5])
def test_jacobians_in_chunks(size):
    x = randn(3)
    f = lambda x: (x.sin() * x.sum(), x.prod())
    for jacobian in (jacrev, jacfwd):
        whole, parts = jacobian(f)(x), jacobian(f, chunk_size=size)(x)
        for a, b in zip(whole, parts, strict=True):
            check(a, b)


def test_complex_functions():
    z = torch.tensor([1 + 2j, 3 - 1j])
    check(grad(lambda z: (z * z.conj()).real.sum())(z), 2 * z)
    check(jvp(lambda z: z * z, (z,), (torch.ones_like(z),))[1], 2 * z)


# -- products and small names ---------------------------------------------------------------------


def test_products_with_matrices_that_are_not_made():
    f = lambda x, w: (torch.tanh(w @ x) ** 2).sum()
    x, w, v, u = randn(3), randn(2, 3, seed=1), randn(3, seed=2), randn(2, 3, seed=3)
    blocks = hessian(f, (0, 1))(x, w)
    a, b = hvp(f, (x, w), (v, u))
    check(a, blocks[0][0] @ v + torch.einsum("iab,ab->i", blocks[0][1], u))
    check(b, blocks[1][0] @ v + torch.einsum("abcd,cd->ab", blocks[1][1], u))
    model, loss = lambda w: torch.tanh(w @ x), lambda y: y.exp().sum()
    (found,) = gauss_newton_product(model, loss, (w,), (u,))
    jacobian = jacrev(model)(w).reshape(2, -1)
    curvature = hessian(loss)(model(w))
    check(found.reshape(-1), jacobian.T @ curvature @ jacobian @ u.reshape(-1))


def test_functionalize_changes_nothing():
    f = functionalize(lambda x: x.clone().mul_(2).add_(x))
    check(f(randn(3)), 3 * randn(3))
    check(vmap(grad(lambda x: f(x).sum()))(randn(2, 3)), torch.full((2, 3), 3.0))
    with pytest.raises(RuntimeError, match="remove=x"):
        functionalize(f, remove="x")


def test_modules_as_functions():
    net = torch.nn.Sequential(
        torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1)
    ).double()
    parameters, x = dict(net.named_parameters()), randn(5, 3)
    loss = lambda p, x: functional_call(net, p, (x,)).sum()
    whole = grad(loss)(parameters, x)
    each = vmap(grad(loss), (None, 0))(parameters, x)
    loss(parameters, x).backward()
    for name, p in net.named_parameters():
        check(whole[name], p.grad)
        check(each[name].sum(0), p.grad)


def test_tensors_that_a_module_does_not_have_are_there_for_the_call():
    class Scale(torch.nn.Module):
        def forward(self, x):
            return x * self.factor

    module = Scale()
    check(
        functional_call(module, {"factor": randn(2)}, (randn(2, seed=1),)),
        randn(2) * randn(2, seed=1),
    )
    assert not hasattr(module, "factor")


def test_an_ensemble_of_modules():
    nets = [torch.nn.Linear(3, 2).double() for _ in range(4)]
    parameters, buffers = stack_module_state(nets)
    x = randn(5, 3)
    run = lambda p, b, x: functional_call(nets[0], (p, b), (x,))
    check(vmap(run, (0, 0, None))(parameters, buffers, x), torch.stack([n(x) for n in nets]))


def test_batch_norms_without_averages():
    net = torch.nn.Sequential(
        torch.nn.BatchNorm1d(3), torch.nn.ModuleList([torch.nn.BatchNorm2d(2)])
    )
    assert torch.func.replace_all_batch_norm_modules_(net) is net
    for norm in (net[0], net[1][0]):
        assert norm.running_mean is None
        assert norm.running_var is None
        assert norm.num_batches_tracked is None
        assert not norm.track_running_stats
    assert vmap(net[0])(torch.ones(2, 4, 3)).shape == (2, 4, 3)


def test_debug_unwrap_shows_all_samples():
    seen = []

    def f(x):
        seen.append(
            [torch.func.debug_unwrap(x).shape, torch.func.debug_unwrap(x, recurse=False).shape]
        )
        return x

    vmap(vmap(f))(torch.zeros(4, 3, 2))
    assert seen == [[(4, 3, 2), (3, 2)]]
    x = randn(2)
    check(torch.func.debug_unwrap(x), x)


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda x: grad(torch.sin)(x),
            RuntimeError,
            "Expected f.* to return a scalar Tensor.*1 dims",
        ),
        (lambda x: grad(lambda x: 1.0)(x), RuntimeError, "to return a tensor, got float"),
        (lambda x: grad(torch.sum, 2)(x), RuntimeError, "argnum=2, but only 1"),
        (lambda x: grad(torch.sum, ())(x), RuntimeError, "argnums is empty"),
        (lambda x: grad(torch.sum, (0, -1))(x), RuntimeError, "must be unique"),
        (lambda x: grad(torch.sum, ("a",))(x), TypeError, "argnums must be int"),
        (lambda x: grad(torch.sum, has_aux=True)(x), RuntimeError, r"a tuple: \(output, aux\)"),
        (lambda x: grad(lambda x: x)(3.0), ValueError, "expected Tensors as inputs, got float"),
        (lambda x: vjp(lambda x: 1, x), RuntimeError, "return only tensors, got int"),
        (lambda x: vjp(torch.sin, x)[1]((x,)), RuntimeError, "pytree structure of cotangents"),
        (lambda x: vjp(torch.sin, x)[1](x[:1]), RuntimeError, "shape"),
        (lambda x: jvp(torch.sin, x, x), RuntimeError, "Expected primals to be a tuple"),
        (lambda x: jvp(torch.sin, (x,), x), RuntimeError, "Expected tangents to be a tuple"),
        (lambda x: jvp(torch.sin, (x,), (x, x)), RuntimeError, "same python structure"),
        (lambda x: jvp(lambda x: 1, (x,), (x,)), RuntimeError, "unsupported type int"),
        (lambda x: jvp(lambda a: x, (x,), (x,), strict=True), RuntimeError, "independent"),
        (lambda x: linearize(torch.sin, x)[1](x, x), RuntimeError, "structure of the primals"),
        (lambda x: linearize(torch.sin, x)[1](x[:1]), RuntimeError, "a tangent of shape"),
        (lambda x: linearize(lambda x: 1, x), RuntimeError, "return only tensors, got int"),
        (lambda x: jacrev(lambda x: 1)(x), RuntimeError, "outputs to be Tensors, got int"),
        (lambda x: jacrev(torch.sin, chunk_size=0), ValueError, "chunk_size"),
        (lambda x: jacfwd(torch.sin, 1)(x), RuntimeError, "argnum=1"),
        (lambda x: jacfwd(lambda x: x)(1.0), RuntimeError, "inputs to be Tensors, got float"),
    ],
)
def test_bad_calls(call, error, text):
    with pytest.raises(error, match=text):
        call(randn(2))
    assert nothing_left()


@pytest.mark.parametrize(
    "transform",
    [
        grad,
        jacrev,
        jacfwd,
        hessian,
        vmap,
        lambda f: lambda x: vjp(f, x),
        lambda f: lambda x: jvp(f, (x,), (x,)),
        lambda f: lambda x: linearize(f, x),
        lambda f: vmap(grad(f)),
        lambda f: lambda x: jvp(vmap(f), (x,), (x,)),
    ],
)
def test_an_exception_leaves_no_level_behind(transform):
    def fails(x):
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        transform(fails)(randn(2))
    assert nothing_left()
    check(vmap(grad(torch.sin))(randn(2)), randn(2).cos())


def test_threads_have_levels_of_their_own():
    found, start = {}, threading.Barrier(4)

    def work(seed):
        start.wait()
        for _ in range(20):
            x = randn(5, 3, seed=seed)
            found.setdefault(seed, []).append(vmap(hessian(lambda x: (x**3).sum()))(x))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # levels are entered and left in any order
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    for seed, results in found.items():
        right = torch.diag_embed(6 * randn(5, 3, seed=seed))
        for result in results:
            check(result, right)
    assert len(found) == 4


class TestFunctorch:
    def test_make_functional(self):
        model = torch.nn.Linear(3, 2)
        call, params = functorch.make_functional(model)
        for own, copied in zip(model.parameters(), params, strict=True):
            assert torch.equal(own, copied)
            assert own is not copied
        x = torch.randn(4, 3)
        assert torch.equal(call(params, x), model(x))
        assert (call((torch.zeros(2, 3), torch.ones(2)), x) == 1).all()
        with pytest.raises(RuntimeError, match="has buffers"):
            functorch.make_functional(torch.nn.BatchNorm1d(2))
        _, params = functorch.make_functional(model, disable_autograd_tracking=True)
        assert not any(p.requires_grad for p in params)

    def test_make_functional_with_buffers(self):
        call, params, buffers = functorch.make_functional_with_buffers(torch.nn.BatchNorm1d(2))
        call(params, buffers, torch.tensor([[0.0, 2.0], [2.0, 4.0]]))
        assert torch.allclose(buffers[0], torch.tensor([0.1, 0.3]))
        assert call.buffer_names == ("running_mean", "running_var", "num_batches_tracked")

    def test_ensembles(self):
        models = [torch.nn.Linear(3, 2) for _ in range(4)]
        call, params, buffers = functorch.combine_state_for_ensemble(models)
        x = torch.randn(5, 3)
        together = functorch.vmap(call, in_dims=(0, 0, None))(params, buffers, x)
        assert torch.allclose(together, torch.stack([m(x) for m in models]))
        for bad in ([], [models[0], torch.nn.ReLU()], [models[0], torch.nn.Linear(3, 2).eval()]):
            with pytest.raises(RuntimeError, match="combine_state_for_ensemble: Expected"):
                functorch.combine_state_for_ensemble(bad)


class TestInferenceMode:
    """Transforms inside ``inference_mode`` differentiate all the same."""

    def test_reverse_mode(self):
        with torch.inference_mode():
            x = torch.tensor([1.0, 2.0], dtype=torch.float64)
            w = torch.tensor([3.0, 5.0], dtype=torch.float64)
            check(grad(lambda t: (t * t * w).sum())(x), [6.0, 20.0])
            _value, pull = vjp(torch.sin, x)
            check(pull(w)[0], x.cos() * w)
            check(jacrev(torch.sin)(x), torch.diag(x.cos()))
            check(hessian(lambda t: (t**3).sum())(x), torch.diag(6 * x))
            check(vmap(grad(torch.sin))(x), x.cos())
            check(grad(grad(torch.sin))(x[0]), -x[0].sin())
            assert torch.is_inference_mode_enabled()
            assert not (x * 2).requires_grad

    def test_forward_mode(self):
        with torch.inference_mode():
            x = torch.tensor([1.0, 2.0], dtype=torch.float64)
            _value, tangent = jvp(torch.sin, (x,), (torch.ones_like(x),))
            check(tangent, x.cos())
            check(jacfwd(torch.sin)(x), torch.diag(x.cos()))

    def test_tensors_from_outside(self):
        x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
        with torch.inference_mode():
            g = grad(lambda t: (t * t).sum())(x)
        check(g, [2.0, 4.0])
        assert not g.requires_grad


def test_a_tangent_inside_the_forward_of_a_function():
    class Slope(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return jvp(torch.sin, (x,), (torch.ones_like(x),))[1]

        @staticmethod
        def backward(ctx, g):
            return g

    x = torch.tensor([0.5], dtype=torch.float64)
    check(Slope.apply(x), x.cos())
    check(Slope.apply(x.clone().requires_grad_()), x.cos())
    with torch.autograd.forward_ad.dual_level():  # whose own tangents forward does not see
        check(Slope.apply(x), x.cos())


def test_results_over_captured_tensors_are_plain():
    """An inner transform's stand-in for a plain tensor is nobody's variable once it has ended."""
    w = torch.tensor([1.0, 2.0], dtype=torch.float64)
    inner = grad(lambda x: grad(lambda y: (y * y * x).sum())(w).sum())(w)
    check(inner, [2.0, 4.0])
    assert not inner.requires_grad
    third = grad(lambda x: grad(lambda y: grad(lambda z: (z**3 * y * x).sum())(w).sum())(w).sum())(
        w
    )
    check(third, 3 * w**2)
    assert not third.requires_grad
    rows = jacrev(lambda x: grad(lambda y: (y * y * x).sum())(w))(w)
    check(rows, torch.diag(2 * w))
    assert not rows.requires_grad
    _, pull = vjp(lambda x: grad(lambda y: (y * y * x).sum())(w), w)
    assert not pull(w)[0].requires_grad
    captured = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    assert grad(lambda x: grad(lambda y: (y * y * x * captured).sum())(w).sum())(w).requires_grad
