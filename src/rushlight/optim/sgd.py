"""Stochastic gradient descent."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.optim._stepped import (
    SteppedOptimizer,
    check,
    check_kinds,
    check_rates,
    decayed,
    functional,
)
from rushlight.optim.optimizer import ParamsT

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["SGD", "sgd"]


class SGD(SteppedOptimizer, rule="SGD"):
    """Gradient descent, with momentum if wanted.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = torch.optim.SGD([p], lr=0.5, momentum=0.9)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> p.tolist()
    [0.0, 0.0]
    """

    _scalars = ()
    _options = {  # noqa: RUF012
        "nesterov": False,
        "maximize": False,
        "foreach": None,
        "differentiable": False,
        "fused": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rates(lr)
        check(momentum >= 0.0, f"Invalid momentum value: {momentum}")
        check_rates(lr, weight_decay=weight_decay)
        check(
            not nesterov or (momentum > 0 and dampening == 0),
            "Nesterov momentum requires a momentum and zero dampening",
        )
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
            "maximize": maximize,
            "foreach": foreach,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_kinds(fused, foreach, differentiable)

    def _state_of(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if group["momentum"] == 0:
            return {}
        state: dict[str, Any] = self.state[p]
        grad: Any = p.grad
        kept = dict(state)
        self._complete(p, grad, kept, group)
        state["momentum_buffer"] = kept["momentum_buffer"]
        return kept

    _takes_sparse = True

    @staticmethod
    def _complete(p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """A buffer starts as the first gradient."""
        if group["momentum"] != 0 and state.get("momentum_buffer") is None:
            start = decayed(-grad if group["maximize"] else grad, p, group["weight_decay"])
            state["momentum_buffer"] = start.detach().clone()
            state["first"] = None

    @staticmethod
    def _update(
        p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        momentum = group["momentum"]
        grad = decayed(grad, p, group["weight_decay"])
        if momentum != 0:
            buffer = state["momentum_buffer"]
            if "first" not in state:
                buffer.mul_(momentum).add_(grad * (1 - group["dampening"]))
            grad = grad + buffer * momentum if group["nesterov"] else buffer.clone()
        p.sub_(grad * lr)


sgd = functional(
    SGD,
    "momentum_buffer_list",
    "has_sparse_grad foreach fused grad_scale found_inf",
    "weight_decay momentum lr dampening nesterov maximize",
    grads="d_p_list",
    example=(
        "[None], nesterov=False, maximize=False",
        '"lr": 0.5, "momentum": 0.9, "dampening": 0, "weight_decay": 0',
        "tensor([0.5000])",
    ),
)
