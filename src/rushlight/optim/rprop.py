"""Resilient backpropagation."""

from __future__ import annotations

import rushlight as torch
from rushlight._C import Tensor
from rushlight.optim._stepped import SteppedOptimizer, check, check_rates, functional
from rushlight.optim.optimizer import ParamsT

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Rprop", "rprop"]


class Rprop(SteppedOptimizer, rule="Rprop"):
    """Steps by the sign of the gradient, of a length that grows until the sign turns.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = torch.optim.Rprop([p], lr=0.25)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> p.tolist()
    [0.75, -1.75]
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
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_rates(lr)
        check(0.0 < etas[0] < 1.0 < etas[1], f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {
            "lr": lr,
            "etas": etas,
            "step_sizes": step_sizes,
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
        shrink, grow = group["etas"]
        state["step"] += 1
        turn = (grad * state["prev"]).detach()
        factor = torch.full_like(turn, 1.0)
        factor[turn > 0] = grow
        factor[turn < 0] = shrink
        size = state["step_size"].mul_(factor).clamp_(*group["step_sizes"]).clone()
        grad = torch.where(turn < 0, torch.zeros_like(grad), grad)
        p.sub_(grad.sign() * size)
        state["prev"].copy_(grad)


rprop = functional(
    Rprop,
    "prevs step_sizes state_steps",
    "foreach capturable maximize differentiable has_complex",
    "step_size_min step_size_max etaminus etaplus",
    example=(
        "[a], [b + 0.5], [c]",
        '"step_size_min": 1e-6, "step_size_max": 50, "etaminus": 0.5, "etaplus": 1.2',
        "tensor([0.5000])",
    ),
)
