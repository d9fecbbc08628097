"""Adadelta."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.optim._stepped import (
    SteppedOptimizer,
    average,
    check,
    check_rates,
    decayed,
    functional,
)
from rushlight.optim.optimizer import ParamsT

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Adadelta", "adadelta"]


class Adadelta(SteppedOptimizer, rule="Adadelta"):
    """Gradients scaled by running averages of past changes over those of past gradients.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.Adadelta([p], lr=1.0)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> round(p.item(), 4)
    0.9968
    """

    _options = {  # noqa: RUF012
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr)
        check(0.0 <= rho <= 1.0, f"Invalid rho value: {rho}")
        check_rates(lr, eps=eps, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "rho": rho,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "capturable": capturable,
            "foreach": foreach,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(
        p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        rho, eps, changes = group["rho"], group["eps"], state["acc_delta"]
        state["step"] += 1
        grad = decayed(grad, p, group["weight_decay"])
        square = average(state["square_avg"], grad * grad, 1 - rho)
        change = (changes + eps).sqrt() / (square + eps).sqrt() * grad
        average(changes, change * change, 1 - rho)
        p.sub_(change * lr)


adadelta = functional(
    Adadelta,
    "square_avgs acc_deltas state_steps",
    "capturable foreach differentiable has_complex",
    "lr rho eps weight_decay maximize",
    example=(
        "[a], [b], [c], maximize=False",
        '"lr": 0.5, "rho": 0.9, "eps": 1e-6, "weight_decay": 0',
        "tensor([0.9984])",
    ),
)
