"""Nodes of the graph called as functions: ``grad_fn(grad)``."""

import pytest

import rushlight as torch
from rushlight.autograd import grad
from support import check, leaf

ONES = torch.ones(2, dtype=torch.float64)


def test_a_node_turns_gradients_of_outputs_into_those_of_inputs():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    of_x, of_w = (x * w).grad_fn(ONES)
    check(of_x, [3.0, 4.0])
    check(of_w, [1.0, 2.0])
    check(x.exp().grad_fn(ONES), x.exp())
    check(x.sum().grad_fn(torch.tensor(2.0, dtype=torch.float64)), [2.0, 2.0])
    assert x.exp().grad_fn(None) is None
    assert x.grad is None


def test_a_broadcast_input_gets_its_own_shape():
    gradient, _ = (leaf(2.0) * ONES).grad_fn(ONES)
    check(gradient, 2.0)


def test_the_result_is_recorded_and_hooks_are_not_called():
    x, calls = leaf([1.0, 2.0]), []
    y = x.exp()
    y.grad_fn.register_hook(lambda *_: calls.append(1))
    g = y.grad_fn(ONES)
    assert calls == []
    with torch.no_grad():
        assert not y.grad_fn(ONES).requires_grad
    (second,) = grad(g.sum(), x)
    check(second, x.exp())


def test_an_accumulator_adds_to_grad():
    x = leaf([1.0, 2.0])
    accumulator = (x * 2).grad_fn.next_functions[0][0]
    assert accumulator(ONES) == ()
    check(x.grad, [1.0, 1.0])


def test_an_accumulator_called_by_hand_does_what_it_does_in_a_pass():
    x, seen = leaf([1.0, 2.0]), []
    accumulator = (x * 2).grad_fn.next_functions[0][0]
    handle = x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist()))
    accumulator(ONES)
    assert seen == [[1.0, 1.0]]
    handle.remove()
    x.requires_grad_(False)
    x.grad = None
    assert accumulator(ONES) == ()
    assert x.grad is None


def test_a_leaf_in_the_interior_of_a_graph_takes_no_gradient():
    x, w = leaf([1.0, 2.0]), leaf([3.0, 4.0])
    accumulator = (x * 2).grad_fn.next_functions[0][0]
    x.detach_()
    x.mul_(w)
    with pytest.raises(RuntimeError, match="moved into the graph interior"):
        accumulator(ONES)
    check(x, [3.0, 8.0])


def test_wrong_arguments():
    node = (leaf([1.0]) * 2).grad_fn
    with pytest.raises(TypeError, match="expected 1 arguments, got 0"):
        node()
    with pytest.raises(TypeError, match="is not a Variable"):
        node(3.0)
    with pytest.raises(TypeError, match="keyword arguments are not supported"):
        node(torch.ones(1), x=1)
