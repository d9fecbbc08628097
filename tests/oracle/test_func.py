"""torch.func and torch.autograd.functional on nested programs, in both libraries."""

import inspect

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
    "four levels": lambda torch, x, w, v, b: torch.func.vmap(
        torch.func.jacfwd(torch.func.jacrev(torch.func.grad(lambda x: mlp(torch, x, w, v))))
    )(b),
    "jvp of vmap of grad": lambda torch, x, w, v, b: torch.func.jvp(
        torch.func.vmap(torch.func.grad(lambda x: mlp(torch, x, w, v))), (b,), (b * 2,)
    ),
    "grad of jvp of vmap": lambda torch, x, w, v, b: torch.func.grad(
        lambda w: torch.func.jvp(
            torch.func.vmap(lambda x: torch.tanh(x @ w).sum()), (b,), (b + 1,)
        )[1].sum()
    )(w),
    "convolutions of each sample": lambda torch, x, w, v, b: torch.func.vmap(
        torch.func.grad(lambda k, x: torch.nn.functional.conv1d(x[None], k).sin().sum()),
        (None, 0),
    )(numbers_of(torch, 3, 2, 3), numbers_of(torch, 4, 2, 6)),
    "norms of each sample": lambda torch, x, w, v, b: torch.func.vmap(
        torch.func.hessian(lambda x: torch.nn.functional.layer_norm(x, (3,)).pow(3).sum())
    )(b),
    "cross entropy of each sample": lambda torch, x, w, v, b: torch.func.vmap(
        torch.func.grad_and_value(torch.nn.functional.cross_entropy)
    )(b @ w, torch.tensor([0, 3, 1, 2, 0])),
    "attention of each sample": lambda torch, x, w, v, b: torch.func.vmap(
        torch.func.grad(lambda q: attend(torch, q).sin().sum())
    )(numbers_of(torch, 3, 2, 4, 5)),
    "writes in place": lambda torch, x, w, v, b: torch.func.vmap(
        torch.func.grad(lambda x: scaled(x).sum())
    )(b),
    "rearranged": lambda torch, x, w, v, b: (
        torch.func.rearrange(w, "a (b c) -> c a b", b=2),
        torch.func.rearrange(b, "... (c d) -> (... d) c", d=3),
        torch.func.rearrange([w, w], "n a b -> (a n) 1 b"),
    ),
    "in_dims and out_dims": lambda torch, x, w, v, b: torch.func.vmap(
        lambda t, u: (t["a"] * u, t["b"].sum()), ({"a": 1, "b": None}, 0), (1, 0)
    )({"a": w, "b": v}, w.T),
    "chunks": lambda torch, x, w, v, b: (
        torch.func.vmap(lambda x: x.sin(), chunk_size=2)(b),
        torch.func.jacrev(lambda x: torch.tanh(x @ w), chunk_size=3)(x),
    ),
    "an ensemble": lambda torch, x, w, v, b: ensemble(torch, b),
    "batched grad_outputs": lambda torch, x, w, v, b: batched_rows(torch, x, w),
}


def numbers_of(torch, *shape):
    return torch.tensor(numbers(*shape, seed=9))


def attend(torch, q):
    return torch.nn.functional.scaled_dot_product_attention(q, q * 2, q + 1)


def scaled(x):
    y = x.clone()
    y[0] = x[1] * 3
    return y.mul_(x)


def ensemble(torch, x):
    nets = [torch.nn.Linear(3, 2, dtype=torch.float64) for _ in range(3)]
    for i, net in enumerate(nets):
        net.load_state_dict(
            {"weight": numbers_of(torch, 2, 3) * i, "bias": numbers_of(torch, 2) + i}
        )
    parameters, buffers = torch.func.stack_module_state(nets)
    return torch.func.vmap(
        lambda p, b: torch.func.functional_call(nets[0], (p, b), (x,)), randomness="same"
    )(parameters, buffers)


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
    "grad of no arguments": lambda torch: torch.func.grad(lambda: torch.ones(()))(),
    "jvp of no arguments": lambda torch: torch.func.jvp(lambda: torch.ones(2), (), ()),
    "jvp of another shape": lambda torch: torch.func.jvp(
        torch.sin, (torch.ones(2),), (torch.ones(3),)
    ),
    "parameters of an unknown module": lambda torch: torch.func.functional_call(
        torch.nn.Linear(2, 2), {"a.b": torch.ones(2)}, (torch.ones(2),)
    ),
    "missing parameters": lambda torch: torch.func.functional_call(
        torch.nn.Linear(2, 2), {"weight": torch.ones(2, 2)}, (torch.ones(2),), strict=True
    ),
    "parameters twice": lambda torch: torch.func.functional_call(
        torch.nn.Linear(2, 2), ({"bias": torch.ones(2)}, {"bias": torch.ones(2)}), (torch.ones(2),)
    ),
    "parameters that are no tensors": lambda torch: torch.func.functional_call(
        torch.nn.Linear(2, 2), {"weight": 3.0}, (torch.ones(2),)
    ),
    "parameters that are no dict": lambda torch: torch.func.functional_call(
        torch.nn.Linear(2, 2), 3, (torch.ones(2),)
    ),
    "no models": lambda torch: torch.func.stack_module_state([]),
    "models of two kinds": lambda torch: torch.func.stack_module_state(
        [torch.nn.Linear(2, 2), torch.nn.ReLU()]
    ),
    "models of two sizes": lambda torch: torch.func.stack_module_state(
        [torch.nn.Linear(2, 2), torch.nn.Linear(3, 2)]
    ),
    "a number in vmap": lambda torch: torch.func.vmap(torch.sin)(1.0),
    "no dimension in vmap": lambda torch: torch.func.vmap(torch.sin)(torch.ones(())),
    "two sizes in vmap": lambda torch: torch.func.vmap(torch.add)(torch.ones(2), torch.ones(3)),
    "no such out_dim": lambda torch: torch.func.vmap(torch.sin, out_dims=3)(torch.ones(2)),
    "no tensor out of vmap": lambda torch: torch.func.vmap(lambda x: None)(torch.ones(2)),
    "a number of a sample": lambda torch: torch.func.vmap(lambda x: x.item())(torch.ones(2)),
    "a branch of a sample": lambda torch: torch.func.vmap(lambda x: x if x > 0 else -x)(
        torch.ones(2)
    ),
    "random numbers": lambda torch: torch.func.vmap(lambda x: x + torch.rand(()))(torch.ones(2)),
    "debug_unwrap of a number": lambda torch: torch.func.debug_unwrap(3),
    "a functionalize of its own": lambda torch: torch.func.functionalize(torch.sin, remove="x"),
    "a dimension that is dropped": lambda torch: torch.func.rearrange(torch.ones(2, 3), "a b -> b"),
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


@pytest.mark.parametrize("name", [n for n in dir(reference.func) if not n.startswith("_")])
def test_names_and_arguments(name):
    theirs = inspect.signature(getattr(reference.func, name)).parameters
    ours = inspect.signature(getattr(rushlight.func, name)).parameters
    public = [p for p in theirs if not p.startswith("_")]
    assert list(ours)[: len(public)] == public


@pytest.mark.parametrize("name", ["vjp", "jvp", "jacobian", "hessian", "hvp", "vhp"])
def test_arguments_of_functional(name):
    theirs = inspect.signature(getattr(reference.autograd.functional, name))
    ours = inspect.signature(getattr(rushlight.autograd.functional, name))
    assert [(p.name, p.default) for p in ours.parameters.values()] == [
        (p.name, p.default) for p in theirs.parameters.values()
    ]
