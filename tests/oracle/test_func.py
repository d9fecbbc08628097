"""torch.func and torch.autograd.functional on nested programs, in both libraries."""

import numpy as np
import pytest
import torch as reference

import rushlight

LIBRARIES = (rushlight, reference)
# PyTorch warns of itself when it first enters forward mode, and when it traces.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr:UserWarning"),
]


def arrays(result):
    if isinstance(result, (tuple, list)):
        return [a for r in result for a in arrays(r)]
    if isinstance(result, dict):
        return [a for r in result.values() for a in arrays(r)]
    return [np.array(result.detach().tolist(), dtype=np.float64).reshape(tuple(result.shape))]


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def agree(program, *data):
    found = [arrays(program(torch, *(torch.tensor(d) for d in data))) for torch in LIBRARIES]
    assert len(found[0]) == len(found[1])
    for ours, theirs in zip(*found, strict=True):
        assert ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def mlp(torch, x, w, v):
    return torch.tanh(torch.tanh(x @ w) @ v).sum()


X, W, V = numbers(3), numbers(3, 4, seed=1), numbers(4, 2, seed=2)
B = numbers(5, 3, seed=3)

PROGRAMS = {
    "grad": lambda torch, x, w, v, b: torch.func.grad(lambda x: mlp(torch, x, w, v))(x),
    "grad of two arguments": lambda torch, x, w, v, b: torch.func.grad(
        lambda x, w: mlp(torch, x, w, v), (0, 1)
    )(x, w),
    "grad of grad": lambda torch, x, w, v, b: torch.func.grad(
        lambda x: torch.func.grad(lambda x: mlp(torch, x, w, v))(x).pow(2).sum()
    )(x),
    "third derivative": lambda torch, x, w, v, b: torch.func.grad(
        torch.func.grad(torch.func.grad(torch.sin))
    )(x[0]),
    "per-sample gradients": lambda torch, x, w, v, b: torch.func.vmap(
        torch.func.grad(lambda w, x: mlp(torch, x, w, v)), (None, 0)
    )(w, b),
    "gradient of a batch": lambda torch, x, w, v, b: torch.func.grad(
        lambda w: torch.func.vmap(lambda x: mlp(torch, x, w, v))(b).sum()
    )(w),
    "jacrev": lambda torch, x, w, v, b: torch.func.jacrev(lambda x: torch.tanh(x @ w))(x),
    "jacfwd": lambda torch, x, w, v, b: torch.func.jacfwd(lambda x: torch.tanh(x @ w))(x),
    "jacobians of a dict": lambda torch, x, w, v, b: torch.func.jacrev(
        lambda d: (d["x"] @ d["w"]).sin()
    )({"x": x, "w": w}),
    "hessian": lambda torch, x, w, v, b: torch.func.hessian(lambda x: mlp(torch, x, w, v))(x),
    "hessian by reverse over reverse": lambda torch, x, w, v, b: torch.func.jacrev(
        torch.func.jacrev(lambda x: mlp(torch, x, w, v))
    )(x),
    "reverse over forward": lambda torch, x, w, v, b: torch.func.jacrev(
        torch.func.jacfwd(lambda x: torch.tanh(x @ w))
    )(x),
    "batch of hessians": lambda torch, x, w, v, b: torch.func.vmap(
        torch.func.hessian(lambda x: mlp(torch, x, w, v))
    )(b),
    "vjp": lambda torch, x, w, v, b: torch.func.vjp(lambda x: x.sin() * x.sum(), x)[1](x * 2),
    "jvp": lambda torch, x, w, v, b: torch.func.jvp(lambda x: x.sin() * x.sum(), (x,), (x * 2,)),
    "jvp of grad": lambda torch, x, w, v, b: torch.func.jvp(
        torch.func.grad(lambda x: mlp(torch, x, w, v)), (x,), (x + 1,)
    ),
    "vjp in vmap": lambda torch, x, w, v, b: torch.func.vmap(
        lambda g: torch.func.vjp(lambda x: torch.tanh(x @ w), x)[1](g)[0]
    )(numbers_of(torch, 6, 4)),
    "vmap in vmap in grad": lambda torch, x, w, v, b: torch.func.grad(
        lambda b: torch.func.vmap(
            torch.func.vmap(lambda a, c: (a * c).sin().sum(), (0, None)), (None, 0)
        )(b, b.T @ b).sum()
    )(b),
    "grad and value with aux": lambda torch, x, w, v, b: torch.func.grad_and_value(
        lambda x: ((x**2).sum(), x.exp()), has_aux=True
    )(x),
    "linearize": lambda torch, x, w, v, b: torch.func.linearize(lambda x: (x @ w).sin(), x)[1](x),
    "functional jacobian": lambda torch, x, w, v, b: torch.autograd.functional.jacobian(
        lambda x, w: (torch.tanh(x @ w), x.sum()), (x, w)
    ),
    "functional jacobian, vectorised": lambda torch, x, w, v, b: torch.autograd.functional.jacobian(
        lambda x: torch.tanh(x @ w), x, vectorize=True
    ),
    "functional jacobian, forward": lambda torch, x, w, v, b: torch.autograd.functional.jacobian(
        lambda x: torch.tanh(x * w.T).sum(0), x, vectorize=True, strategy="forward-mode"
    ),
    "functional hessian": lambda torch, x, w, v, b: torch.autograd.functional.hessian(
        lambda x, w: mlp(torch, x, w, v), (x, w)
    ),
    "functional hessian, vectorised": lambda torch, x, w, v, b: torch.autograd.functional.hessian(
        lambda x: mlp(torch, x, w, v), x, vectorize=True
    ),
    "functional products": lambda torch, x, w, v, b: (
        torch.autograd.functional.vjp(lambda x: torch.tanh(x @ w), x, w[0]),
        torch.autograd.functional.jvp(lambda x: torch.tanh(x @ w), x, x),
        torch.autograd.functional.hvp(lambda x: mlp(torch, x, w, v), x, x),
        torch.autograd.functional.vhp(lambda x: mlp(torch, x, w, v), x, x),
    ),
    "batched grad_outputs": lambda torch, x, w, v, b: batched_rows(torch, x, w),
}


def numbers_of(torch, *shape):
    return torch.tensor(numbers(*shape, seed=9))


def batched_rows(torch, x, w):
    x = x.requires_grad_()
    y = torch.tanh(x @ w)
    basis = torch.eye(4, dtype=torch.float64)
    return torch.autograd.grad(y, x, basis, is_grads_batched=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_as_torch(name):
    agree(PROGRAMS[name], X, W, V, B)


REFUSED = {
    "a vector for grad": lambda torch: torch.func.grad(torch.sin)(torch.ones(2)),
    "argnum out of range": lambda torch: torch.func.grad(torch.sin, 1)(torch.ones(())),
    "aux that is missing": lambda torch: torch.func.grad(torch.sin, has_aux=True)(torch.ones(())),
    "cotangents of another shape": lambda torch: torch.func.vjp(torch.sin, torch.ones(2))[1](
        (torch.ones(2),)
    ),
    "primals that are no tuple": lambda torch: torch.func.jvp(
        torch.sin, torch.ones(2), torch.ones(2)
    ),
    "tangents of another structure": lambda torch: torch.func.jvp(
        torch.sin, (torch.ones(2),), (torch.ones(2), torch.ones(2))
    ),
    "strict and independent": lambda torch: torch.autograd.functional.jacobian(
        lambda x: torch.ones(2), torch.ones(2), strict=True
    ),
    "hessian of a vector": lambda torch: torch.autograd.functional.hessian(
        torch.sin, torch.ones(2)
    ),
    "v of another size": lambda torch: torch.autograd.functional.vjp(
        torch.sin, torch.ones(2), torch.ones(3)
    ),
    "no v": lambda torch: torch.autograd.functional.jvp(torch.sin, torch.ones(2)),
    "inputs that are a list": lambda torch: torch.autograd.functional.vjp(torch.sin, [1.0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_same_class_of_error(name):
    classes = []
    for torch in LIBRARIES:
        with pytest.raises(Exception) as error:
            REFUSED[name](torch)
        classes.append(error.type)
    assert classes[0] is classes[1]
