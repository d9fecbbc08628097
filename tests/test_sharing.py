"""Derivatives of derivatives share their common subexpressions, and nobody can tell but by size."""

import gc
import math
import threading
import weakref

import pytest

import rushlight as torch
from rushlight import func


def leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def derivative(y, x, **options):
    return torch.autograd.grad(y.sum(), x, create_graph=True, **options)[0]


def derivatives(f, x, count):
    y, found = f(x), []
    for _ in range(count):
        y = derivative(y, x)
        found.append(y)
    return found


def nodes(t):
    seen, waiting = set(), [t.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting.extend(next_node for next_node, _ in node.next_functions)
    return seen


def network(x):
    torch.manual_seed(3)
    weights = [torch.randn(n, m, dtype=torch.float64) / 3 for n, m in ((1, 9), (9, 9), (9, 1))]
    for weight in weights[:-1]:
        x = (x @ weight).tanh()
    return x @ weights[-1]


FUNCTIONS = {
    "sin times tanh": lambda x: x.sin() * x.tanh(),
    "three tanh": lambda x: x.tanh().tanh().tanh(),
    "exp of sin": lambda x: x.sin().exp(),
    "quotient": lambda x: (1 + x * x).log() / (2 + x.cos()),
    "norm": lambda x: (x * x + 1).sum(-1, keepdim=True).sqrt() * x,
    "softmax": lambda x: x.softmax(0) * x,
    "power": lambda x: (x * x + 0.5) ** 1.5,
    "network": lambda x: network(x.reshape(-1, 1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_are_right(name):
    """Against differences of the order below, which is exact to 1e-6 of its size."""
    f, x, h = FUNCTIONS[name], leaf(0.3, -0.7), 1e-4
    for order in range(1, 7):
        exact = derivatives(f, x, order)[-1]
        for i in range(2):
            sides = []
            for sign in (1, -1):
                moved = x.detach().clone()
                moved[i] += sign * h
                moved.requires_grad_()
                below = derivatives(f, moved, order - 1)[-1] if order > 1 else f(moved)
                sides.append(below.sum().item())
            difference = (sides[0] - sides[1]) / (2 * h)
            assert exact[i].item() == pytest.approx(difference, rel=1e-4, abs=1e-4)


@pytest.mark.parametrize("name", ["sin times tanh", "three tanh", "exp of sin", "network"])
def test_graphs_at_most_double_or_so(name):
    """Without sharing they grow 2.5 to 3 times with each order."""
    sizes = [len(nodes(y)) for y in derivatives(FUNCTIONS[name], leaf(0.3, -0.7), 9)]
    assert sizes[-1] < 2.25 * sizes[-2]
    assert sizes[-1] < 11_000


def test_nested_transforms_share():
    def f(x):
        return (math.sqrt(2) * x).tanh()

    seventh = f
    for _ in range(7):
        seventh = func.grad(seventh)
    x = torch.tensor(0.3, dtype=torch.float64)
    series = (torch.ones_like(x), *[torch.zeros_like(x)] * 6)
    _, exact = func.jet(f, (x,), (series,))
    assert seventh(x).item() == pytest.approx(exact[6].item())


class TestWhatUsersSee:
    def test_gradients_are_their_own(self):
        """Two equal derivatives are two tensors: each may be asked for, alone."""
        x = leaf(0.4)
        first = derivative(x.tanh(), x)
        second = derivative(first, x)
        again = derivative(first, x)
        assert second is not again
        assert second.grad_fn is not again.grad_fn
        total = (second * 3 + again * 5).sum()
        assert torch.autograd.grad(total, [second, again], retain_graph=True) == (3.0, 5.0)

    def test_a_later_derivative_does_not_depend_on_an_earlier_one(self):
        """Though its formula has the same terms."""
        x = leaf(0.4)
        second = derivative(derivative(x.tanh(), x), x)
        for later in (derivative(second, x), derivative(derivative(second, x), x)):
            assert torch.autograd.grad(later.sum(), second, allow_unused=True) == (None,)

    def test_writing_into_one_leaves_the_others(self):
        x = leaf(0.4)
        first = derivative(x.tanh(), x)
        second, again = derivative(first, x), derivative(first, x)
        expected = again.item()
        with torch.no_grad():
            second.zero_()
        assert again.item() == expected
        assert derivative(first, x).item() == expected
        third = derivatives(torch.tanh, leaf(0.4), 3)[-1].item()
        assert derivative(again, x).item() == pytest.approx(third)

    def test_hooks_of_a_gradient_see_its_own(self):
        x = leaf(0.4)
        first = derivative(x.exp(), x)
        second = derivative(first, x)
        seen = []
        second.register_hook(seen.append)
        third = derivative(second * 2, x)
        torch.autograd.grad(third * 5 + second * 7, x)
        assert [g.item() for g in seen] == [2.0, 7.0]

    def test_a_function_may_write_into_what_it_computed(self):
        class Cube(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x**3

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                slope = x * x
                slope.mul_(3.0)
                return g * slope

        x = leaf(2.0)
        found = derivatives(lambda x: Cube.apply(x) * x, x, 4)
        assert [y.item() for y in found] == [32.0, 48.0, 48.0, 24.0]

    def test_a_leaf_with_new_data(self):
        x = leaf(0.4)
        for value in (0.4, 0.9):
            x.data = torch.tensor([value], dtype=torch.float64)
            found = derivatives(torch.tanh, x, 4)[-1].item()
            assert found == derivatives(torch.tanh, leaf(value), 4)[-1].item()

    def test_constants_written_between_passes(self):
        scale, x = torch.tensor([2.0, 3.0], dtype=torch.float64), leaf(0.4, 0.5)
        for value in (2.0, 5.0):
            scale.fill_(value)
            found = derivatives(lambda x: (x * scale).sin(), x, 5)[-1]
            expected = value**5 * (x.detach() * value).cos()
            torch.testing.assert_close(found.detach(), expected)

    def test_constants_written_through_numpy(self):
        scale, x = torch.tensor([2.0, 3.0], dtype=torch.float64), leaf(0.4, 0.5)
        memory = scale.numpy()
        for value in (2.0, 5.0):
            memory[:] = value
            found = derivatives(lambda x: (x * scale).sin(), x, 5)[-1]
            expected = value**5 * (x.detach() * value).cos()
            torch.testing.assert_close(found.detach(), expected)


class TestOptions:
    def test_a_graph_that_is_not_kept(self):
        x = leaf(0.4)
        y = derivative(derivative(x.tanh(), x), x)
        third = derivative(y, x, retain_graph=False)
        expected = derivatives(torch.tanh, leaf(0.4), 3)[-1].item()
        assert third.item() == pytest.approx(expected)
        with pytest.raises(RuntimeError, match="second time"):
            derivative(y, x)

    def test_saved_tensor_hooks_see_every_tensor(self):
        x, packed = leaf(0.4), []
        y = derivative(derivative(x.tanh(), x), x)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            derivative(y, x)
        plain = len(packed)
        packed.clear()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
            derivative(y, x)
        assert len(packed) == plain > 0

    def test_under_vmap(self):
        points = torch.linspace(-1, 1, 5, dtype=torch.float64)
        third = func.grad(func.grad(func.grad(lambda x: (x * x).tanh())))
        expected = torch.stack([third(p) for p in points])
        torch.testing.assert_close(func.vmap(third)(points), expected)

    def test_with_forward_mode_inside(self):
        x = torch.tensor(0.3, dtype=torch.float64)
        second = func.grad(func.grad(torch.tanh))
        _, third = func.jvp(second, (x,), (torch.ones_like(x),))
        assert third.item() == pytest.approx(func.grad(second)(x).item())


def test_nothing_is_kept_alive():
    x = leaf(0.3, -0.7)
    y = derivatives(FUNCTIONS["three tanh"], x, 5)[-1]
    watched = [weakref.ref(node) for node in nodes(y)]
    del y
    gc.collect()
    alive = [reference() for reference in watched if reference() is not None]
    assert [type(node).__name__ for node in alive if type(node).__name__ != "AccumulateGrad"] == []


def test_threads():
    expected = derivatives(FUNCTIONS["three tanh"], leaf(0.3, -0.7), 6)[-1].tolist()
    found = []

    def work():
        for _ in range(10):
            found.append(derivatives(FUNCTIONS["three tanh"], leaf(0.3, -0.7), 6)[-1].tolist())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 40
