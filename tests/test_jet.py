"""Taylor mode against nested derivatives, for many functions, orders and shapes."""

import itertools
import math

import pytest

import rushlight as torch
from registry import path
from rushlight.func import grad, jet, jvp, vmap
from support import check, randn
from test_ops_forward import every_op, forward_cases

F = torch.nn.functional
ORDER = 4


def line(order, direction=1.0):
    return [direction] + [0.0] * (order - 1)


def nested(f, x, v, order):
    """Derivatives of t -> f(x + t v) at zero, by nesting forward mode."""
    g, found = (lambda t: f(x + t * v)), []
    zero = torch.zeros((), dtype=torch.float64)
    for _ in range(order):
        g = (lambda h: lambda t: jvp(h, (t,), (torch.ones_like(t),))[1])(g)
        found.append(g(zero))
    return found


def agree(f, x, v, order=ORDER, rtol=1e-9, atol=1e-9):
    value, terms = jet(f, (x,), (line(order, v),))
    check(value, f(x), rtol=1e-12)
    assert len(terms) == order
    for found, right in zip(terms, nested(f, x, v, order), strict=True):
        check(found, right, rtol=rtol, atol=atol)


@pytest.mark.filterwarnings("ignore")
@every_op
def test_every_op(op):
    """Along a line in all arguments that can vary, to order three."""
    name = op if isinstance(op, str) else path(op)
    for inputs, f, v, _ in itertools.islice(forward_cases(op, 40), 2):
        inputs = [x.detach() for x in inputs]
        if any(x.is_complex() for x in inputs):
            continue
        moved = lambda *xs, f=f: tuple(f(*xs))
        series = tuple(line(3, t) for t in v)
        if name.endswith("_") and not name.endswith("__"):
            with pytest.raises(RuntimeError, match="writes in place"):
                jet(moved, tuple(inputs), series)
            continue
        _, terms = jet(moved, tuple(inputs), series)
        g = lambda t, f=f, xs=inputs, v=v: tuple(
            f(*(x + t * d for x, d in zip(xs, v, strict=True)))
        )
        for order in range(3):
            g = (lambda h: lambda t: jvp(h, (t,), (torch.ones_like(t),))[1])(g)
            right = g(torch.zeros((), dtype=torch.float64))
            for found, expected in zip(terms, right, strict=True):
                if expected.is_floating_point():
                    check(found[order], expected, rtol=1e-6, atol=1e-7)


PROGRAMS = {
    "complex numbers": lambda x: torch.fft.fft(x).abs().pow(3).sum() + torch.polar(x, x).real,
    "a polynomial": lambda x: x**3 - 2 * x * x + x,
    "a quotient": lambda x: (1 + x) / (2 + x * x),
    "numbers on the left": lambda x: 1 - (2 / (3 + x)) + 2**x,
    "a chain": lambda x: torch.sin(torch.exp(torch.tanh(x))),
    "a power": lambda x: (x * x + 1) ** 1.5,
    "a tensor's power": lambda x: (x * x + 1) ** x,
    "reductions": lambda x: x.sin().sum() * x.mean() + x.exp().prod(),
    "views": lambda x: x.reshape(2, 2).T[0].flip(0).unsqueeze(0).expand(3, 2) * x[:2],
    "joins": lambda x: torch.cat([x.sin(), x[:1] ** 2]).cumsum(0),
    "a choice": lambda x: torch.where(x > 0, x.exp(), x.sin()),
    "a kink that is not met": lambda x: torch.relu(x) + x.abs() + x.clamp(-0.5, 0.5),
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "glu": lambda x: F.glu(x),
    "softmax of a module": lambda x: torch.nn.Softmax(0)(x) + torch.nn.LogSoftmax(-1)(x),
    "softmax in another dtype": lambda x: F.softmax(x, 0, dtype=torch.float64),
    "leaky": lambda x: F.leaky_relu(x, 0.3) + F.hardtanh(x, -0.5, 0.5) + F.elu(x, 0.7),
    "a branch": lambda x: x**3 if bool((x.sum() > -100).item()) else x,
    "matrix products": lambda x: (x.reshape(2, 2) @ x.reshape(2, 2).T @ x[:2]).sin(),
    "linear": lambda x: F.linear(x.tanh(), randn(3, 4), randn(3)),
    "softmax": lambda x: torch.softmax(x * x, 0),
    "log_softmax": lambda x: F.log_softmax(x.sin(), dim=0),
    "layer_norm": lambda x: F.layer_norm(x * x, (4,), randn(4), randn(4)),
    "mse_loss": lambda x: F.mse_loss(x.sin(), torch.ones(4, dtype=torch.float64)),
    "logsumexp": lambda x: torch.logsumexp(x * 2, 0),
    "norm": lambda x: torch.linalg.vector_norm(x + 3),
    "activations": lambda x: F.gelu(x) + F.silu(x) * F.softplus(x) - F.elu(x),
    "cross entropy": lambda x: F.cross_entropy(x[None], torch.tensor([2])),
    "einsum": lambda x: torch.einsum("i,j->ij", x, x.sin()),
    "sorted": lambda x: x.sort().values * torch.arange(4),
    "inside vmap": lambda x: (x * x.sin()).cos(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    agree(PROGRAMS[name], randn(4), randn(4, seed=1))


@pytest.mark.parametrize("order", range(11))
def test_orders(order):
    """x sin x has the derivative x sin(x + k π/2) - k cos(x + k π/2) of order k."""
    x = torch.tensor([0.3, 1.7], dtype=torch.float64)
    _, terms = jet(lambda x: x * x.sin(), (x,), (line(order),) if order else ([],))
    assert len(terms) == order
    for k, found in enumerate(terms, 1):
        right = [
            t * math.sin(t + k * math.pi / 2) - k * math.cos(t + k * math.pi / 2)
            for t in x.tolist()
        ]
        check(found, right, rtol=1e-10)


def test_against_nested_grad():
    f = lambda x: torch.tanh(torch.sin(x) * x)
    x, g = torch.tensor(0.4, dtype=torch.float64), f
    _, terms = jet(f, (x,), (line(6),))
    for found in terms:
        g = grad(g)
        check(found, g(x), rtol=1e-9)


def test_a_curve_with_terms_of_its_own():
    """x(t) = x + t v + t² a / 2: the second derivative has the Hessian and the gradient."""
    f = lambda x: (x**3).sum()
    x, v, a = randn(3), randn(3, seed=1), randn(3, seed=2)
    _, (first, second) = jet(f, (x,), ([v, a],))
    check(first, (3 * x**2 * v).sum())
    check(second, (6 * x * v * v).sum() + (3 * x**2 * a).sum())


def test_several_primals_of_different_shapes():
    f = lambda w, x, b: torch.tanh(w @ x + b)
    w, x, b = randn(2, 3), randn(3, seed=1), randn(2, seed=2)
    dw, dx, db = randn(2, 3, seed=3), randn(3, seed=4), randn(2, seed=5)
    value, terms = jet(f, (w, x, b), (line(3, dw), line(3, dx), line(3, db)))
    check(value, f(w, x, b))
    t = torch.zeros((), dtype=torch.float64)
    g = lambda t: f(w + t * dw, x + t * dx, b + t * db)
    for found in terms:
        g = (lambda h: lambda t: jvp(h, (t,), (torch.ones_like(t),))[1])(g)
        check(found, g(t), rtol=1e-9)


def test_a_series_may_be_shorter_than_another():
    x, y = randn(2), randn(2, seed=1)
    _, terms = jet(lambda x, y: x * y, (x, y), ([1.0], [1.0, 0.0]))
    check(terms[0], x + y)
    check(terms[1], torch.full((2,), 2.0))


def test_results_keep_their_structure_and_constants_do_not_move():
    x = randn(2)
    value, terms = jet(lambda x: {"a": x * x, "b": (torch.ones(2), x > 0)}, (x,), (line(2),))
    check(value["a"], x * x)
    check(terms["a"][1], torch.full((2,), 2.0))
    check(terms["b"][0][0], torch.zeros(2))


def test_in_other_transforms():
    third = lambda x: jet(torch.sin, (x,), (line(3),))[1][2]
    x = randn(4)
    check(third(x), -x.cos())
    check(vmap(third)(x), -x.cos())
    check(grad(lambda x: third(x).sum())(x), x.sin())
    check(vmap(grad(third))(x), x.sin())


def test_parameters_of_a_module_get_gradients():
    """Derivatives by the input in a loss, as equations ask for."""
    net = torch.nn.Sequential(
        torch.nn.Linear(1, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
    ).double()
    x = randn(5, 1)
    _, (_, second) = jet(net, (x,), (line(2),))
    second.square().sum().backward()
    found = [p.grad.clone() for p in net.parameters() if p.grad is not None]

    def by_nesting(x):
        return jvp(lambda x: jvp(net, (x,), (torch.ones_like(x),))[1], (x,), (torch.ones_like(x),))

    net.zero_grad()
    by_nesting(x)[1].square().sum().backward()
    right = [p.grad for p in net.parameters() if p.grad is not None]
    for a, b in zip(found, right, strict=False):
        check(a, b, rtol=1e-8)


def test_jets_of_jets():
    """d²/dx² of d²/dx² sin x."""
    second = lambda x: jet(torch.sin, (x,), (line(2),))[1][1]
    x = randn(3)
    check(jet(second, (x,), (line(2),))[1][1], x.sin())


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.mul_(2),
        lambda x: x.clone().add_(x),
        lambda x: F.relu(x, inplace=True),
        lambda x: torch.sin(x, out=torch.zeros(2)),
        lambda x: x.__setitem__(0, 1.0),
    ],
)
def test_writes_are_refused(f):
    with pytest.raises(RuntimeError, match=r"jet: .* writes in place to a tensor that varies"):
        jet(f, (randn(2),), (line(2),))


def test_detached_values_do_not_move():
    _, (first, second) = jet(lambda x: x * x.detach(), (randn(2),), (line(2),))
    check(first, randn(2))
    check(second, torch.zeros(2))


def operations(order):
    x = torch.tensor([0.2, 0.5], dtype=torch.float64)
    f = lambda x: torch.tanh(torch.tanh(x * 1.5) * x)
    with torch.autograd.profiler.profile() as profile:
        jet(f, (x,), (line(order),))
    return sum(e.count for e in profile.key_averages())


def test_the_cost_grows_with_the_square_of_the_order():
    jet(torch.tanh, (torch.zeros(1),), (line(2),))  # formulas are read once
    counts = {k: operations(k) for k in (4, 8, 16)}
    assert counts[8] <= 4.2 * counts[4]
    assert counts[16] <= 4.2 * counts[8]
    assert counts[16] < 5000


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: jet(torch.sin, (x, x), ([1.0],)), ValueError, "2 primals but series for 1"),
        (lambda x: jet(torch.sin, (x,), ([x[:1]],)), ValueError, r"shape \(1,\) for a primal"),
        (lambda x: jet(torch.sin, (1.0,), ([1.0],)), TypeError, "floating point tensors"),
        (lambda x: jet(torch.sin, (x.long(),), ([1.0],)), TypeError, "floating point tensors"),
    ],
)
def test_bad_calls(call, error, text):
    with pytest.raises(error, match=text):
        call(randn(2))
