"""Backward passes inside backward passes, thousands of them."""

import sys
import threading

import pytest

import rushlight as torch
from rushlight.autograd import Function
from rushlight.utils.checkpoint import checkpoint
from support import check, leaf

DEPTH = 2000


class Nested(Function):
    """The identity, whose backward runs a backward pass through itself, one level less deep."""

    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        if ctx.depth:
            with torch.enable_grad():
                x = leaf([1.0])
                Nested.apply(x, ctx.depth - 1).sum().backward()
            check(x.grad, [1.0])
        return grad, None


def test_in_custom_functions():
    x = leaf([1.0, 2.0])
    Nested.apply(x, DEPTH).sum().backward()
    check(x.grad, [1.0, 1.0])


@pytest.mark.parametrize("kind", ["tensor", "pre", "post", "accumulated", "saved"])
def test_in_hooks(kind):
    reached = []

    @torch.enable_grad()
    def run(depth):
        x = leaf(2.0)

        def go_on(*_):
            if depth:
                run(depth - 1)
            else:
                reached.append(True)

        def unpack(tensor):
            go_on()
            return tensor

        if kind == "saved":
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
                y = x.exp()
        else:
            y = x.exp()
        if kind == "tensor":
            y.register_hook(go_on)
        elif kind == "pre":
            y.grad_fn.register_prehook(go_on)
        elif kind == "post":
            y.grad_fn.register_hook(go_on)
        elif kind == "accumulated":
            x.register_post_accumulate_grad_hook(go_on)
        y.backward()
        check(x.grad, torch.tensor(2.0, dtype=torch.float64).exp())

    run(DEPTH)
    assert reached == [True]


def test_with_grad_and_create_graph():
    class Twice(Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            if ctx.depth:
                with torch.enable_grad():
                    inner = leaf(3.0)
                    (g,) = torch.autograd.grad(
                        Twice.apply(inner, ctx.depth - 1), inner, create_graph=True
                    )
                check(g, 6.0)
            return 2 * x * grad, None

    x = leaf(3.0)
    Twice.apply(x, DEPTH).backward()
    check(x.grad, 6.0)


def test_regions_inside_regions():
    def wrapped(function):
        return lambda x: checkpoint(function, x.sin())

    function = torch.sin
    for _ in range(150):
        function = wrapped(function)
    x = leaf([0.5])
    function(x).sum().backward()
    y = leaf([0.5])
    plain = y
    for _ in range(151):
        plain = plain.sin()
    plain.sum().backward()
    check(x.grad, y.grad)


def test_in_a_thread_with_a_small_stack():
    found = []

    def work():
        x = leaf([1.0])
        Nested.apply(x, DEPTH).sum().backward()
        found.append(x.grad.tolist())

    before = threading.stack_size(1 << 20)
    try:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    assert found == [[1.0]]


def test_an_error_comes_out_of_the_depth():
    class Fails(Nested):
        @staticmethod
        def backward(ctx, grad):
            if not ctx.depth:
                raise LookupError("at the bottom")
            with torch.enable_grad():
                Fails.apply(leaf([1.0]), ctx.depth - 1).sum().backward()
            return grad, None

    with pytest.raises(LookupError, match="at the bottom"):
        Fails.apply(leaf([1.0]), DEPTH).sum().backward()
    x = leaf([1.0])
    Nested.apply(x, 3).sum().backward()
    check(x.grad, [1.0])


def test_recursion_of_python_code_is_still_limited():
    def endless(grad):
        def further():
            further()

        further()

    y = leaf([1.0]) * 2
    y.register_hook(endless)
    with pytest.raises(RecursionError):
        y.sum().backward()
    limit = sys.getrecursionlimit()
    x = leaf([1.0])
    Nested.apply(x, 5).sum().backward()
    assert sys.getrecursionlimit() == limit
