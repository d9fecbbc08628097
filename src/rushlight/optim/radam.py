"""RAdam."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.optim._stepped import (
    SteppedOptimizer,
    average,
    check_rates,
    decayed,
    functional,
    shrink,
)
from rushlight.optim.optimizer import ParamsT

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["RAdam", "radam"]


class RAdam(SteppedOptimizer, rule="RAdam"):
    """Adam that uses the average of squares only once it rests on enough steps.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = torch.optim.RAdam([p], lr=0.25)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> p.tolist()
    [0.5, -1.0]
    """

    _options = {  # noqa: RUF012
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "decoupled_weight_decay": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr, betas, eps, weight_decay)
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "maximize": maximize,
            "foreach": foreach,
            "capturable": capturable,
            "decoupled_weight_decay": decoupled_weight_decay,
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
        if group["decoupled_weight_decay"]:
            shrink(p, lr, decay)
        else:
            grad = decayed(grad, p, decay)
        change = average(state["exp_avg"], grad, 1 - beta1) / (1 - beta1**step) * lr
        square = average(state["exp_avg_sq"], grad * grad, 1 - beta2)
        correction = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction
        if length > 5:
            variance = (length - 4) * (length - 2) * longest
            variance /= (longest - 4) * (longest - 2) * length
            change = change * (correction**0.5 / (square.sqrt() + group["eps"])) * variance**0.5
        p.sub_(change)


radam = functional(
    RAdam,
    "exp_avgs exp_avg_sqs state_steps",
    "decoupled_weight_decay foreach differentiable capturable has_complex maximize",
    "beta1 beta2 lr weight_decay eps",
    example=(
        "[a], [b], [c]",
        '"lr": 0.5, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0',
        "tensor([0.5000])",
    ),
)
