"""The names of the ``functorch`` package: ``func``, and the older way to call a model by its state.

Under ``rushlight run``, ``import functorch`` gives this module.
"""

from __future__ import annotations

from rushlight import nn, stack
from rushlight.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vjp,
    vmap,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble",
    "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip


class FunctionalModuleWithBuffers(nn.Module):
    """A model that takes its parameters and buffers as arguments, before its own.

    >>> import rushlight as torch
    >>> from rushlight.functorch import make_functional_with_buffers
    >>> model, params, buffers = make_functional_with_buffers(torch.nn.BatchNorm1d(2))
    >>> type(model).__name__, len(params), len(buffers)
    ('FunctionalModuleWithBuffers', 2, 3)
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.stateless_model = model
        self.param_names = tuple(name for name, _ in model.named_parameters())
        self.buffer_names = tuple(name for name, _ in model.named_buffers())

    def forward(
        self, params: Sequence[Any], buffers: Sequence[Any], *args: Any, **kwargs: Any
    ) -> Any:
        """The model's output for this state; what it changes of the buffers, it changes in them."""
        names = self.param_names + self.buffer_names
        state = dict(zip(names, (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A model without buffers that takes its parameters as first argument.

    >>> import rushlight as torch
    >>> from rushlight.functorch import make_functional
    >>> model, params = make_functional(torch.nn.Linear(2, 1, bias=False))
    >>> model((torch.ones(1, 2),), torch.tensor([[3.0, 4.0]]))
    tensor([[7.]])
    """

    def forward(self, params: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
        """The model's output for these parameters."""
        return super().forward(params, (), *args, **kwargs)


def _copied(model: nn.Module, untracked: bool) -> nn.Module:
    from copy import deepcopy

    model = deepcopy(model)
    return model.requires_grad_(False) if untracked else model


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Any, ...]]:
    """A function of parameters and inputs, and copies of the model's parameters.

    >>> import rushlight as torch
    >>> from rushlight.functorch import make_functional
    >>> model, params = make_functional(torch.nn.Linear(3, 1))
    >>> model(params, torch.ones(2, 3)).shape
    torch.Size([2, 1])
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use "
            "make_functional_with_buffers(model) instead."
        )
    model = _copied(model, disable_autograd_tracking)
    return FunctionalModule(model), tuple(model.parameters())


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """A function of parameters, buffers and inputs, and copies of the model's own.

    >>> import rushlight as torch
    >>> from rushlight.functorch import make_functional_with_buffers
    >>> model, params, buffers = make_functional_with_buffers(torch.nn.BatchNorm1d(2).eval())
    >>> model(params, buffers, torch.zeros(1, 2)).shape
    torch.Size([1, 2])
    """
    model = _copied(model, disable_autograd_tracking)
    return FunctionalModuleWithBuffers(model), tuple(model.parameters()), tuple(model.buffers())


def combine_state_for_ensemble(
    models: Sequence[nn.Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Any, ...], tuple[Any, ...]]:
    """One function for models of one kind, and their stacked parameters and buffers, for ``vmap``.

    >>> import rushlight as torch
    >>> from rushlight.functorch import combine_state_for_ensemble, vmap
    >>> models = [torch.nn.Linear(3, 2) for _ in range(4)]
    >>> model, params, buffers = combine_state_for_ensemble(models)
    >>> vmap(model, in_dims=(0, 0, None))(params, buffers, torch.ones(5, 3)).shape
    torch.Size([4, 5, 2])
    """
    name = "combine_state_for_ensemble"
    if not models:
        raise RuntimeError(f"{name}: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError(f"{name}: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError(f"{name}: Expected all models to be of the same class.")
    parts = [make_functional_with_buffers(model) for model in models]
    params = tuple(stack(group).detach() for group in zip(*(p[1] for p in parts), strict=True))
    buffers = tuple(stack(group) for group in zip(*(p[2] for p in parts), strict=True))
    return parts[0][0], params, buffers
