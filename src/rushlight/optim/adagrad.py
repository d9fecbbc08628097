"""Adagrad."""

from __future__ import annotations

from rushlight import _C
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

__all__ = ["Adagrad", "adagrad"]


class Adagrad(SteppedOptimizer, rule="Adagrad"):
    """Gradients divided by the root of the sum of all their squares so far.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    >>> optimizer = torch.optim.Adagrad([p], lr=0.5)
    >>> p.pow(2).sum().backward()
    >>> optimizer.step()
    >>> [round(x, 4) for x in p.tolist()]
    [0.5, -1.5]
    """

    _options = {  # noqa: RUF012
        "foreach": None,
        "maximize": False,
        "differentiable": False,
        "fused": None,
        "initial_accumulator_value": 0,
    }

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_rates(lr)
        check(lr_decay >= 0.0, f"Invalid lr_decay value: {lr_decay}")
        check_rates(lr, weight_decay=weight_decay)
        check(
            initial_accumulator_value >= 0.0,
            f"Invalid initial_accumulator_value value: {initial_accumulator_value}",
        )
        check_rates(lr, eps=eps)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
            "foreach": foreach,
            "maximize": maximize,
            "differentiable": differentiable,
            "fused": fused,
        }
        super().__init__(params, defaults)
        check_kinds(fused, foreach, differentiable)
        for group in self.param_groups:
            for p in group["params"]:
                if getattr(p, "_is_spread", False):  # a DTensor
                    from rushlight.distributed.tensor._optim import initial_state

                    initial_state(self, group, p)
                else:
                    _C._optimizer_init(self._rule, group, p, self.state[p])

    _takes_sparse = True

    def share_memory(self) -> None:
        """Moves the sums to memory that processes share."""
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["sum"].share_memory_()

    @staticmethod
    def _update(
        p: Tensor, grad: Tensor, state: dict[str, Any], group: dict[str, Any], lr: Any
    ) -> None:
        state["step"] += 1
        if grad.is_sparse and group["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        grad = decayed(grad, p, group["weight_decay"])
        size = lr / (1 + (state["step"].item() - 1) * group["lr_decay"])
        if grad.is_sparse:
            stored: Any = grad
            stored = stored.coalesce()
            total = state["sum"].add_(stored * stored).sparse_mask(stored)
            slope = stored.values() / (total.values().sqrt() + group["eps"])
            p.sub_(stored._pattern.make(slope * size))
            return
        total = state["sum"].add_(grad * grad)
        p.sub_(grad / (total.sqrt() + group["eps"]) * size)


adagrad = functional(
    Adagrad,
    "state_sums state_steps",
    "fused grad_scale found_inf has_sparse_grad foreach differentiable has_complex",
    "lr weight_decay lr_decay eps maximize",
    example=(
        "[a], [b], maximize=False",
        '"lr": 0.5, "lr_decay": 0, "eps": 1e-10, "weight_decay": 0',
        "tensor([0.5000])",
    ),
)
