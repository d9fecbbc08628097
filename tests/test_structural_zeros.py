"""structural_zeros(): what was not selected adds exact zeros to gradients, never a NaN."""

import math

import numpy as np
import pytest

import rushlight as torch
from support import check, leaf, randleaf, values

structural_zeros = torch.autograd.structural_zeros


def gradient(f, x, mode=True, **options):
    with structural_zeros(mode):
        return torch.autograd.grad(f(x).sum(), x, **options)[0]


def divided_and_masked(x):
    """The example of PyTorch's notes on division by zero."""
    divisor = torch.tensor([0.0, 1.0], dtype=x.dtype)
    return (x / divisor)[divisor != 0]


CASES = {
    "division": (divided_and_masked, [0.0, 1.0], [0, 1]),
    "where": (lambda x: torch.where(x > 0, x.sqrt(), x), [-1.0, -4.0], [1, 1]),
    "where at the edge": (lambda x: torch.where(x > 0, x.log(), x * 2), [0.0, 2.0], [2, 0.5]),
    "masked_fill": (lambda x: x.rsqrt().masked_fill(x <= 0, 0), [0.0, 4.0], [0, -1 / 16]),
    "masked_select": (lambda x: x.log().masked_select(x > 0), [0.0, 2.0], [0, 0.5]),
    "index": (lambda x: x.reciprocal()[1:], [0.0, 2.0], [0, -0.25]),
    "index_select": (lambda x: x.log().index_select(0, torch.tensor([1])), [0.0, 2.0], [0, 0.5]),
    "clamp": (lambda x: x.sqrt().clamp(max=1.5), [0.25, 9.0], [1, 0]),
    "several steps": (lambda x: torch.where(x > 0, (x.log() * 2).exp(), x), [0.0, 2.0], [1, 4]),
    "pow": (lambda x: torch.where(x > 0, x**0.5, x), [0.0, 4.0], [1, 0.25]),
}


@pytest.mark.parametrize(("f", "at", "expected"), CASES.values(), ids=CASES)
class TestElements:
    def test_what_is_not_selected_adds_zero(self, f, at, expected):
        check(gradient(f, leaf(at)), expected)

    def test_a_recorded_pass_gives_the_same(self, f, at, expected):
        check(gradient(f, leaf(at), create_graph=True), expected)

    def test_in_a_transform(self, f, at, expected):
        with structural_zeros():
            check(torch.func.grad(lambda x: f(x).sum())(torch.tensor(at).double()), expected)


def test_the_default_is_ieee():
    x = leaf([-1.0, 4.0])
    assert math.isnan(gradient(CASES["where"][0], x, mode=False)[0].item())
    assert math.isnan(torch.autograd.grad(divided_and_masked(x / x - 1).sum(), x)[0][0].item())


def test_a_true_nan_goes_on():
    x = leaf([1.0, 2.0])
    with structural_zeros():
        (x.log() * torch.tensor([math.nan, 1.0])).sum().backward()
    assert math.isnan(x.grad[0])
    assert x.grad[1] == 0.5


def test_an_infinite_derivative_that_is_selected_stays():
    assert gradient(torch.sqrt, leaf([0.0])).item() == math.inf


def test_a_broadcast_operand():
    x, rows = leaf(2.0), torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    with structural_zeros():
        torch.where(rows > 0, x / rows, rows).sum().backward()
    assert x.grad == 1


def test_other_operations_where_all_of_their_gradient_is_zero():
    x = leaf([[-math.inf, -math.inf], [1.0, 2.0]])
    top, bottom = x.unbind()
    with structural_zeros():
        y = torch.where(torch.tensor(False), top.logsumexp(0), bottom.logsumexp(0))
        y.backward()
    assert values(x.grad[0]).tolist() == [0, 0]
    check(x.grad[1], np.exp([1, 2]) / np.exp([1, 2]).sum())


def test_second_derivatives():
    x = leaf([-1.0, 4.0])
    with structural_zeros():
        y = torch.where(x > 0, x**1.5, x).sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (h,) = torch.autograd.grad(g.sum(), x)
    check(g, [1, 3])
    check(h, [0, 0.375])


def test_nothing_else_changes():
    def f(x):
        return (torch.softmax(x * 2, 1) @ x.tanh().T).exp().cumsum(0).relu()

    x = randleaf(3, 3)
    check(gradient(f, x), gradient(f, x, mode=False))


def test_as_a_decorator_and_undone():
    x = leaf([-1.0])

    @structural_zeros()
    def step():
        torch.where(x > 0, x.sqrt(), x).sum().backward()
        return x.grad.item()

    assert step() == 1
    assert math.isnan(gradient(lambda x: torch.where(x > 0, x.sqrt(), x), x, mode=False).item())
