"""RMSprop."""

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

__all__ = ["RMSprop", "rmsprop"]


class RMSprop(SteppedOptimizer, rule="RMSprop"):
    """Gradients divided by the root of a running average of their squares.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = torch.optim.RMSprop([p], lr=0.05)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> [round(x, 4) for x in p.tolist()]
    [0.5, -1.5]
    """

    _options = {  # noqa: RUF012
        "momentum": 0,
        "centered": False,
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr, eps=eps)
        check(momentum >= 0.0, f"Invalid momentum value: {momentum}")
        check_rates(lr, weight_decay=weight_decay)
        check(alpha >= 0.0, f"Invalid alpha value: {alpha}")
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
            "capturable": capturable,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
        }
        super().__init__(params, defaults)

    @staticmethod
    def _update(
        p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        alpha = group["alpha"]
        state["step"] += 1
        grad = decayed(grad, p, group["weight_decay"])
        spread = average(state["square_avg"], grad * grad, 1 - alpha)
        if group["centered"]:
            mean = average(state["grad_avg"], grad, 1 - alpha).clone()
            spread = spread - mean * mean
        change = grad / (spread.sqrt() + group["eps"])
        if group["momentum"] > 0:
            buffer = state["momentum_buffer"]
            change = buffer.mul_(group["momentum"]).add_(change).clone()
        p.sub_(change * lr)


rmsprop = functional(
    RMSprop,
    "square_avgs grad_avgs momentum_buffer_list state_steps",
    "foreach maximize differentiable capturable has_complex",
    "lr alpha eps weight_decay momentum centered",
    example=(
        "[a], [], [], [c], centered=False",
        '"lr": 0.5, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0',
        "tensor([-4.0000])",
    ),
)
