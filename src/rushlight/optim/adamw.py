"""Adam with decoupled weight decay."""

from __future__ import annotations

from rushlight._C import Tensor
from rushlight.optim.adam import Adam, adam
from rushlight.optim.optimizer import ParamsT

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["AdamW", "adamw"]


class AdamW(Adam, rule="AdamW"):
    """Adam whose weight decay shrinks the parameters and does not enter the averages.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> optimizer = torch.optim.AdamW([p], lr=0.5, weight_decay=0.1)
    >>> (0 * p).sum().backward()
    >>> optimizer.step()
    >>> round(p.item(), 4)
    0.95
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:  # state dicts of older versions do not say
            group["decoupled_weight_decay"] = True


def adamw(*args: Any, **options: Any) -> None:
    """One step of AdamW for parameters, gradients and state in lists.

    >>> import rushlight as torch
    >>> from rushlight.optim.adamw import adamw
    >>> p, grad, mean, square, step = torch.ones(1), torch.ones(1), *torch.zeros(3, 1)
    >>> options = {"lr": 0.5, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.1}
    >>> adamw([p], [grad], [mean], [square], [], [step], **options, amsgrad=False, maximize=False)
    >>> p
    tensor([0.4500])
    """
    adam(*args, **options, decoupled_weight_decay=True)
