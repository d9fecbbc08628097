"""Eight ways in which a graph and Python objects come to own each other.

Each function makes one cycle and returns an object on it, whose death can be watched.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

SIZE = 256


def grad_with_history(torch: Any) -> Any:
    """backward(create_graph=True): the leaf owns its .grad, whose graph owns the leaf."""
    x = torch.ones(SIZE, requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x * x * x).sum().backward(create_graph=True)
    return x


def saved_view_of_output(torch: Any) -> Any:
    """A Function saves a view of its own output."""

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = x.exp()
            ctx.save_for_backward(y.view(-1))
            return y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.saved_tensors[0]

    return Exp.apply(torch.ones(SIZE, requires_grad=True))


def hook_on_itself(torch: Any) -> Any:
    """A hook of a computed tensor that closes over that tensor."""
    y = torch.ones(SIZE, requires_grad=True) * 2
    y.register_hook(lambda g: g * y.detach())
    return y


def saved_tensors_identity_hooks(torch: Any) -> Any:
    """Saved-tensor hooks that keep the tensor as it is, on an op that saves its output."""
    x = torch.ones(SIZE, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return x.exp()


def leaf_attribute(torch: Any) -> Any:
    """A leaf with an attribute that was computed from it, two ops away."""
    x = torch.ones(SIZE, requires_grad=True)
    x.result = (x * 2).exp()
    return x


def ctx_attribute(torch: Any) -> Any:
    """A Function keeps its output as an attribute of ctx."""

    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.y = x.exp()
            return ctx.y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.y

    return Exp.apply(torch.ones(SIZE, requires_grad=True))


def leaf_hook_on_itself(torch: Any) -> Any:
    """A hook of a leaf that closes over the leaf."""
    x = torch.ones(SIZE, requires_grad=True)
    x.register_hook(lambda g: g + x.detach())
    return x


class Owner:
    weight: Any
    output: Any


def module_and_output(torch: Any) -> Any:
    """A module keeps its output, and its parameter keeps the module."""
    module = Owner()
    module.weight = torch.ones(SIZE, requires_grad=True)
    module.weight.module = module
    module.output = module.weight * 2
    return module.weight


PATTERNS: list[Callable[[Any], Any]] = [
    grad_with_history,
    saved_view_of_output,
    hook_on_itself,
    saved_tensors_identity_hooks,
    leaf_attribute,
    ctx_attribute,
    leaf_hook_on_itself,
    module_and_output,
]
