"""Adam."""

from __future__ import annotations

import rushlight as torch
from rushlight._C import Tensor
from rushlight.optim._stepped import (
    SteppedOptimizer,
    average,
    check,
    check_kinds,
    check_rates,
    decayed,
    functional,
    shrink,
)
from rushlight.optim.optimizer import ParamsT, _to_scalar

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Adam", "adam"]


class Adam(SteppedOptimizer, rule="Adam"):
    """Steps scaled by running averages of the gradient and of its square.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = torch.optim.Adam([p], lr=0.5)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> [round(x, 4) for x in p.tolist()]
    [0.5, -1.5]
    """

    _options = {  # noqa: RUF012
        "amsgrad": False,
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "fused": None,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        for name, value in (("lr", lr), ("betas[0]", betas[0]), ("betas[1]", betas[1])):
            if isinstance(value, Tensor):
                check(
                    not foreach or capturable,
                    f"{name} as a Tensor is not supported for capturable=False and foreach=True",
                )
                check(value.numel() == 1, f"Tensor {name} must be 1-element")
        check_rates(lr, betas, eps, weight_decay)
        check(
            all(isinstance(b, float) for b in betas) or all(isinstance(b, Tensor) for b in betas),
            "betas must be either both floats or both Tensors",
        )
        defaults = {
            "lr": lr,
            "betas": tuple(map(_to_scalar, betas)),
            "eps": eps,
            "weight_decay": weight_decay,
            "amsgrad": amsgrad,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
            "fused": fused,
            "decoupled_weight_decay": decoupled_weight_decay,
        }
        super().__init__(params, defaults)
        check_kinds(fused, foreach, differentiable)

    @staticmethod
    def _update(
        p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        beta1, beta2 = group["betas"]
        mean, square, decay = state["exp_avg"], state["exp_avg_sq"], group["weight_decay"]
        state["step"] += 1
        step = state["step"].item()
        if group["decoupled_weight_decay"]:
            shrink(p, lr, decay)
        else:
            grad = decayed(grad, p, decay)
        average(mean, grad, 1 - beta1)
        average(square, grad * grad, 1 - beta2)
        if group["amsgrad"]:
            largest = state["max_exp_avg_sq"]
            largest.copy_(torch.maximum(largest.clone(), square.clone()))
            square = largest
        size = lr / (1 - beta1**step)
        root = square.sqrt() / (1 - beta2**step) ** 0.5
        p.sub_(mean.clone() / (root + group["eps"]) * size)


adam = functional(
    Adam,
    "exp_avgs exp_avg_sqs max_exp_avg_sqs state_steps",
    "foreach capturable differentiable fused grad_scale found_inf has_complex"
    " decoupled_weight_decay",
    "amsgrad beta1 beta2 lr weight_decay eps maximize",
    example=(
        "[a], [b], [], [c], amsgrad=False, maximize=False",
        '"lr": 0.5, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0',
        "tensor([0.5000])",
    ),
)
