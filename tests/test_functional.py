"""autograd.functional: products and matrices of derivatives, with and without a graph."""

import pytest

import rushlight as torch
from rushlight.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp
from support import check, randn


def network(x, w):
    return torch.tanh(w @ x)


X, W = randn(3), randn(2, 3, seed=1)


def slope():
    return 1 - network(X, W) ** 2


def test_products():
    v, u = randn(2, seed=2), randn(3, seed=3)
    value, (by_x, by_w) = vjp(network, (X, W), v)
    check(value, network(X, W))
    check(by_x, W.T @ (slope() * v))
    check(by_w, torch.outer(slope() * v, X))
    value, moved = jvp(lambda x: network(x, W), X, u)
    check(moved, slope() * (W @ u))
    (total, doubled), found = vjp(lambda x: (x.sum(), x * 2), X, (X[0], X))
    check(total, X.sum())
    check(doubled, X * 2)
    check(found, X[0] + 2 * X)


def test_a_missing_vector_is_one_for_one_element():
    x = torch.tensor([2.0])
    check(vjp(torch.square, x)[1], [4.0])
    check(jvp(torch.square, x)[1], [4.0])
    check(hvp(lambda x: (x**3).sum(), x)[1], [12.0])


def test_hessian_products():
    f = lambda x: (x**3).sum() * x.sum()
    v = randn(3, seed=2)
    matrix = hessian(f, X)
    for product in (hvp, vhp):
        value, found = product(f, X, v)
        check(value, f(X))
        check(found, matrix @ v)
    _, (a, b) = hvp(lambda x, y: (x * y).sum(), (X, X), (v, 2 * v))
    check(a, 2 * v)
    check(b, v)


@pytest.mark.parametrize("options", [{}, {"vectorize": True}, {"strategy": "forward-mode"}])
def test_jacobians(options):
    if "strategy" in options:
        options = {**options, "vectorize": True}
    by_x, by_w = jacobian(network, (X, W), **options)
    check(by_x, slope().unsqueeze(1) * W)
    assert by_w.shape == (2, 2, 3)
    check(by_w[0, 1], torch.zeros(3))
    two = jacobian(lambda x: (x.sum(), x**2), X, **options)
    check(two[0], torch.ones(3))
    check(two[1], (2 * X).diag())
    check(jacobian(lambda x: torch.ones(2), X, **options), torch.zeros(2, 3))


@pytest.mark.parametrize(
    "options", [{}, {"vectorize": True}, {"outer_jacobian_strategy": "forward-mode"}]
)
def test_hessians(options):
    if "outer_jacobian_strategy" in options:
        options = {**options, "vectorize": True}
    check(hessian(lambda x: (x**3).sum(), X, **options), (6 * X).diag())
    blocks = hessian(lambda x, y: (x**2 * y).sum(), (X, X + 1), **options)
    check(blocks[0][0], (2 * (X + 1)).diag())
    check(blocks[0][1], (2 * X).diag())
    check(blocks[1][1], torch.zeros(3, 3))
    check(hessian(lambda x: x.sum(), X, **options), torch.zeros(3, 3))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, **k: vjp(torch.exp, x, torch.ones_like(x), **k)[1],
        lambda x, **k: jvp(torch.exp, x, torch.ones_like(x), **k)[1],
        lambda x, **k: jacobian(torch.exp, x, **k),
        lambda x, **k: hessian(lambda x: x.exp().sum(), x, **k),
        lambda x, **k: hvp(lambda x: x.exp().sum(), x, torch.ones_like(x), **k)[1],
        lambda x, **k: vhp(lambda x: x.exp().sum(), x, torch.ones_like(x), **k)[1],
    ],
)
def test_create_graph_makes_the_result_differentiable(call):
    x = X.clone().requires_grad_()
    assert not call(x).requires_grad
    found = call(x, create_graph=True)
    assert found.requires_grad
    (again,) = torch.autograd.grad(found.sum(), x)
    check(again, x.exp())


def test_strict_refuses_what_is_independent():
    constant = lambda x: torch.ones(3)
    linear = lambda x: x * 2
    for call in (
        lambda: jacobian(constant, X, strict=True),
        lambda: vjp(constant, X, torch.ones(3), strict=True),
        lambda: jvp(constant, X, X, strict=True),
        lambda: hvp(lambda x: x.sum(), X, X, strict=True),
        lambda: hessian(lambda x: x.sum(), X, strict=True),
        lambda: jacobian(lambda x, y: linear(x), (X, X), strict=True),
    ):
        with pytest.raises(RuntimeError, match="strict mode"):
            call()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: vjp(torch.sin, [X], X), TypeError, "must be either a Tensor or a tuple"),
        (lambda: vjp(torch.sin, (X, 1), X), TypeError, "value at index 1"),
        (lambda: vjp(lambda x: 1.0, X), TypeError, "outputs of the user-provided function"),
        (lambda: vjp(torch.sin, X), RuntimeError, "v can only be None"),
        (lambda: jvp(torch.sin, X, X[:2]), RuntimeError, "invalid size: should be .*3.* but got"),
        (lambda: jvp(torch.sin, X, (X, X)), RuntimeError, "should be 1 but got 2"),
        (lambda: hvp(torch.sin, X, X), RuntimeError, "should contain a single element"),
        (lambda: hessian(torch.sin, X), RuntimeError, "should contain a single element"),
        (lambda: jacobian(torch.sin, X, strategy="x"), AssertionError, "forward-mode"),
        (
            lambda: jacobian(torch.sin, X, strict=True, vectorize=True),
            RuntimeError,
            "strict=True.*not supported together",
        ),
    ],
)
def test_bad_calls(call, error, text):
    with pytest.raises(error, match=text):
        call()


def test_recording_is_not_needed_outside():
    with torch.no_grad():
        check(jacobian(torch.exp, X), X.exp().diag())
        check(hessian(lambda x: x.exp().sum(), X), X.exp().diag())
        assert not torch.is_grad_enabled()
