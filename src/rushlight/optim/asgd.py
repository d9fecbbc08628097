"""Averaged stochastic gradient descent."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.optim._stepped import SteppedOptimizer, average, check_rates, decayed, functional
from rushlight.optim.optimizer import ParamsT, _get_value

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ASGD", "asgd"]


class ASGD(SteppedOptimizer, rule="ASGD"):
    """Gradient descent that also keeps the average of the parameters, from step t0 on.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = torch.optim.ASGD([p], lr=0.25, lambd=0)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> p.tolist(), optimizer.state[p]["ax"].tolist()
    ([0.5, -1.0], [0.5, -1.0])
    """

    _scalars = ("step", "eta", "mu")
    _options = {  # noqa: RUF012
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "capturable": False,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_rates(lr, weight_decay=weight_decay)
        defaults = {
            "lr": lr,
            "lambd": lambd,
            "alpha": alpha,
            "t0": t0,
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
        eta, mu = state["eta"].item(), state["mu"].item()
        state["step"] += 1
        step = state["step"].item()
        grad = decayed(grad, p, group["weight_decay"])
        p.mul_(1 - group["lambd"] * eta).sub_(grad * eta)
        if mu != 1:
            average(state["ax"], p, mu)
        else:
            state["ax"].copy_(p)
        lr = _get_value(lr)
        state["eta"].fill_(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
        state["mu"].fill_(1 / max(1, step - group["t0"]))


asgd = functional(
    ASGD,
    "axs mus etas state_steps",
    "foreach maximize differentiable capturable has_complex",
    "lambd lr t0 alpha weight_decay",
    example=(
        "[a], [b + 1], [b + 0.5], [c]",
        '"lr": 0.5, "lambd": 1e-4, "alpha": 0.75, "t0": 1e6, "weight_decay": 0',
        "tensor([0.4999])",
    ),
)
