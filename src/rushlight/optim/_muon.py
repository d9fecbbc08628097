"""Muon: momentum whose matrices are brought close to orthogonal ones."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._C import Tensor
from rushlight.optim._stepped import check
from rushlight.optim.optimizer import Optimizer, ParamsT, _to_scalar

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Muon"]


class Muon(Optimizer):
    """Steps of matrices along their momentum with all singular values brought near 1.

    For the hidden weights of a network; give vectors and embeddings to another optimizer.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.zeros(2, 2))
    >>> optimizer = torch.optim.Muon([p], lr=0.1)
    >>> p.grad = torch.tensor([[3.0, 0.0], [0.0, 0.5]])
    >>> optimizer.step()
    >>> bool((p.diagonal() < -0.05).all())
    True
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check(not isinstance(lr, Tensor) or lr.numel() == 1, "Tensor lr must be 1-element")
        check(bool(lr >= 0.0), f"Learning rate should be >= 0 but is: {lr}")
        check(momentum >= 0.0, f"momentum should be >= 0 but is: {momentum}")
        check(weight_decay >= 0.0, f"weight decay should be >= 0 but is: {weight_decay}")
        check(
            adjust_lr_fn in (None, "original", "match_rms_adamw"),
            f"Adjust learning rate function {adjust_lr_fn} is not supported",
        )
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for p in group["params"]:
                check(
                    p.ndim == 2,
                    "Muon only supports 2D parameters whereas we found a parameter with size: "
                    f"{p.size()}",
                )

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

    def _step_one(self, p: Any, group: dict[str, Any]) -> None:
        if p.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        state, momentum, lr = self.state[p], group["momentum"], _to_scalar(group["lr"])
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(p.grad)
        buffer = state["momentum_buffer"].lerp_(p.grad, 1 - momentum)
        update = p.grad.lerp(buffer, momentum) if group["nesterov"] else buffer
        update = _orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
        p.mul_(1 - lr * group["weight_decay"])
        p.sub_(update * (lr * _rate_factor(group["adjust_lr_fn"], p.shape)))


def _orthogonal(
    grad: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Newton-Schulz iterations in bfloat16: the singular vectors stay, their values go to 1."""
    check(steps < 100, "Number of steps must be less than 100 for computational efficiency")
    check(len(coefficients) == 3, "Coefficients must be a tuple of exactly 3 values")
    a, b, c = coefficients
    tall = grad.size(0) > grad.size(1)
    x = grad.bfloat16()
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x


def _rate_factor(rule: str | None, shape: Any) -> float:
    rows, columns = shape[:2]
    if rule == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1, rows / columns))
