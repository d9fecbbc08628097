"""Adam for embeddings of which a batch touches a few rows."""

from __future__ import annotations

import math

import rushlight as torch
from rushlight._C import Tensor
from rushlight.optim._stepped import check, check_rates
from rushlight.optim.optimizer import Optimizer, ParamsT, _to_scalar

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that moves and averages only the rows whose gradient is not zero.

    Of sparse gradients, as those of `nn.Embedding(sparse=True)`, these are the elements that are
    stored; of dense ones the rows that are not all zeros.

    >>> import rushlight as torch
    >>> rows = torch.nn.Embedding(3, 1, sparse=True)
    >>> optimizer = torch.optim.SparseAdam(rows.parameters(), lr=0.5)
    >>> before = rows.weight.detach().clone()
    >>> rows(torch.tensor([1])).sum().backward()
    >>> optimizer.step()
    >>> [round(x, 4) for x in (rows.weight - before).flatten().tolist()]
    [0.0, -0.5, 0.0]
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_rates(lr, betas, eps)
        check(bool(lr > 0.0), f"Invalid learning rate: {lr}")
        check(eps > 0.0, f"Invalid epsilon value: {eps}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)
        for i, group in enumerate(self.param_groups):
            for j, p in enumerate(group["params"]):
                check(
                    not p.is_sparse,
                    f"Sparse params at indices [[{i}, {j}]]: SparseAdam requires dense parameter "
                    "tensors",
                )
                check(
                    not p.is_complex(),
                    f"Complex params at indices [[{i}, {j}]]: SparseAdam does not support complex "
                    "parameters",
                )

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the rows that have a gradient. A closure computes the loss anew."""
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
        state = self.state[p]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(p)
            state["exp_avg_sq"] = torch.zeros_like(p)
        state["step"] += 1
        grad = -p.grad if group.get("maximize", False) else p.grad
        if grad.is_sparse:
            self._step_sparse(p, grad.coalesce(), state, group)
            return
        touched = grad != 0
        if p.dim() > 1:
            touched = touched.flatten(1).any(1)
        rows = touched.nonzero().flatten() if p.dim() > 0 else None
        if rows is not None and rows.numel() == 0:
            return
        averages = (state["exp_avg"], state["exp_avg_sq"])
        value = grad if rows is None else grad[rows]
        change = _change(averages, rows, value, state["step"], group)
        if rows is None:
            p.sub_(change)
        else:
            p.index_add_(0, rows, -change)

    @staticmethod
    def _step_sparse(p: Any, grad: Any, state: dict[str, Any], group: dict[str, Any]) -> None:
        from rushlight._sparse.pattern import keys

        pattern = grad._pattern
        if pattern.nnz == 0:
            return
        flat = (-1, *pattern.dense_size)
        rows = keys(pattern.indices, pattern.sparse_size)
        averages = tuple(state[name].view(flat) for name in ("exp_avg", "exp_avg_sq"))
        change = _change(averages, rows, grad.values(), state["step"], group)
        p.sub_(pattern.make(change))


def _change(
    averages: Any, rows: Tensor | None, value: Tensor, step: int, group: dict[str, Any]
) -> Tensor:
    """How far some rows go, whose averages are moved."""
    beta1, beta2 = group["betas"]
    mean = _moved(averages[0], rows, value, 1 - beta1)
    square = _moved(averages[1], rows, value * value, 1 - beta2)
    size = _to_scalar(group["lr"]) * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    return mean / (square.sqrt() + group["eps"]) * size


def _moved(average: Tensor, rows: Tensor | None, value: Tensor, weight: float) -> Tensor:
    """Moves some rows of an average towards a value, and returns them."""
    if rows is None:
        return average.lerp_(value, weight)
    new = average[rows].lerp(value, weight)
    average.index_copy_(0, rows, new)
    return new
