"""Adamax."""

from __future__ import annotations

import rushlight as torch
from rushlight._C import Tensor
from rushlight.optim._stepped import SteppedOptimizer, average, check_rates, decayed, functional
from rushlight.optim.optimizer import ParamsT

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Adamax", "adamax"]


class Adamax(SteppedOptimizer, rule="Adamax"):
    """Adam with the largest recent gradient in the place of the average of squares.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = torch.optim.Adamax([p], lr=0.5)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> [round(x, 4) for x in p.tolist()]
    [0.5, -1.5]
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
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rates(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "capturable": capturable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(
        p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        beta1, beta2 = group["betas"]
        state["step"] += 1
        grad = decayed(grad, p, group["weight_decay"])
        mean = average(state["exp_avg"], grad, 1 - beta1).clone()
        largest = torch.maximum(state["exp_inf"] * beta2, grad.abs() + group["eps"])
        state["exp_inf"].copy_(largest)
        p.sub_(mean / largest * (lr / (1 - beta1 ** state["step"].item())))


adamax = functional(
    Adamax,
    "exp_avgs exp_infs state_steps",
    "foreach maximize differentiable capturable has_complex",
    "eps beta1 beta2 lr weight_decay",
    example=(
        "[a], [b], [c]",
        '"lr": 0.5, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0',
        "tensor([0.5000])",
    ),
)
