"""Adafactor: squares of gradients kept as rows and columns."""

from __future__ import annotations

import rushlight as torch
from rushlight._C import Tensor
from rushlight.optim._stepped import check
from rushlight.optim.optimizer import Optimizer, ParamsT, _get_scalar_dtype, _to_scalar

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Steps scaled by averages of squared gradients that take a row and a column of memory.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.ones(3, 2))
    >>> optimizer = torch.optim.Adafactor([p], lr=0.25)
    >>> p.grad = torch.ones(3, 2)
    >>> optimizer.step()
    >>> {k: tuple(v.shape) for k, v in optimizer.state[p].items()}
    {'step': (), 'row_var': (3, 1), 'col_var': (1, 2)}
    >>> round(p[0, 0].item(), 4)
    0.75
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check(not isinstance(lr, Tensor) or lr.numel() == 1, "Tensor lr must be 1-element")
        check(bool(lr >= 0.0), f"Learning rate should be >= 0 but is: {lr}")
        check(beta2_decay <= 0.0, f"beta2_decay should be <= 0 but is: {beta2_decay}")
        check(eps[0] is None or eps[0] >= 0.0, f"epsilon1 should be >= 0 but is: {eps[0]}")
        check(eps[1] >= 0.0, f"epsilon2 should be >= 0 but is: {eps[1]}")
        check(d >= 1.0, f"Clipping threshold d should be >= 1 but is: {d}")
        check(weight_decay >= 0.0, f"weight_decay should be >= 0 but is: {weight_decay}")
        defaults = {
            "lr": lr,
            "beta2_decay": beta2_decay,
            "eps": eps,
            "d": d,
            "weight_decay": weight_decay,
            "foreach": foreach,
            "maximize": maximize,
        }
        super().__init__(params, defaults)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("foreach", None)
            for p in group["params"]:
                kept = self.state.get(p) or {}
                if "step" in kept and not isinstance(kept["step"], Tensor):
                    kept["step"] = torch.tensor(float(kept["step"]), dtype=_get_scalar_dtype())

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient. A closure computes the loss anew."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._step_one(p, group)
        return loss

    def _state_of(self, p: Any) -> dict[str, Any]:
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        state: dict[str, Any] = self.state[p]
        if not state:
            state["step"] = torch.tensor(0.0, dtype=_get_scalar_dtype())
            if p.grad.dim() > 1:
                *outer, rows, columns = p.grad.shape
                state["row_var"] = p.grad.new_zeros([*outer, rows, 1])
                state["col_var"] = p.grad.new_zeros([*outer, 1, columns])
            else:
                state["variance"] = torch.zeros_like(p.grad)
        return state

    def _step_one(self, p: Any, group: dict[str, Any]) -> None:
        state, lr, (eps1, eps2) = self._state_of(p), _to_scalar(group["lr"]), group["eps"]
        grad = -p.grad if group["maximize"] else p.grad
        if eps1 is None:
            eps1 = torch.finfo(p.dtype).eps
        state["step"] += 1
        step = state["step"].item()
        weight = step ** group["beta2_decay"]
        size = max(eps2, p.norm(2).item() / p.numel() ** 0.5) * min(lr, 1 / step**0.5)
        if group["weight_decay"] != 0:
            p.mul_(1 - lr * group["weight_decay"])
        if grad.dim() > 1:
            square = grad * grad
            rows = state["row_var"].lerp_(square.mean(-1, keepdim=True), weight)
            columns = state["col_var"].lerp_(square.mean(-2, keepdim=True), weight)
            variance = rows @ columns / rows.mean(-2, keepdim=True).clamp(min=eps1)
        else:
            variance = state["variance"].lerp_(grad * grad, weight)
        update = variance.clamp(min=eps1 * eps1).rsqrt() * grad
        large = max(1.0, update.norm(2).item() / (update.numel() ** 0.5 * group["d"]))
        p.sub_(update * (size / large))
