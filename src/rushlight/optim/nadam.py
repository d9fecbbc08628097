"""NAdam."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.optim._stepped import (
    SteppedOptimizer,
    average,
    check,
    check_rates,
    decayed,
    functional,
    shrink,
)
from rushlight.optim.optimizer import ParamsT

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["NAdam", "nadam"]


class NAdam(SteppedOptimizer, rule="NAdam"):
    """Adam with Nesterov's momentum.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = torch.optim.NAdam([p], lr=0.5)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> [round(x, 2) for x in p.tolist()]
    [0.47, -1.47]
    """

    _scalars = ("step", "mu_product")
    _options = {  # noqa: RUF012
        "maximize": False,
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr, betas, eps, weight_decay)
        check(momentum_decay >= 0.0, f"Invalid momentum_decay value: {momentum_decay}")
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(
        p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        (beta1, beta2), decay = group["betas"], group["weight_decay"]
        state["step"] += 1
        step = state["step"].item()
        mu, mu_next = (
            beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1)
        )
        state["mu_product"] *= mu
        product = state["mu_product"]
        product = product.double() if product.requires_grad else product.item()
        if group["decoupled_weight_decay"]:
            shrink(p, lr, decay)
        else:
            grad = decayed(grad, p, decay)
        mean = average(state["exp_avg"], grad, 1 - beta1).clone()
        square = average(state["exp_avg_sq"], grad * grad, 1 - beta2)
        scale = (square / (1 - beta2**step)).sqrt() + group["eps"]
        p.sub_(grad / scale * (lr * (1 - mu) / (1 - product)))
        p.sub_(mean / scale * (lr * mu_next / (1 - product * mu_next)))


nadam = functional(
    NAdam,
    "exp_avgs exp_avg_sqs mu_products state_steps",
    "decoupled_weight_decay foreach capturable differentiable has_complex maximize",
    "beta1 beta2 lr weight_decay momentum_decay eps",
    example=(
        "[a], [b], [b + 1], [c], weight_decay=0",
        '"lr": 0.5, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "momentum_decay": 0.004',
        "tensor([0.4718])",
    ),
)
