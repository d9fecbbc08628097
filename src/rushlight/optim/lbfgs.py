"""L-BFGS, a quasi-Newton method for objectives that can be evaluated again and again."""

from __future__ import annotations

import rushlight as torch
from rushlight._C import Tensor
from rushlight.optim._line_search import Point, cubic_minimum, strong_wolfe
from rushlight.optim._stepped import check_rates
from rushlight.optim.optimizer import Optimizer, ParamsT, _to_scalar

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """Limited-memory BFGS; `step` needs a closure that computes the loss and its gradients.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([3.0, -2.0]))
    >>> optimizer = torch.optim.LBFGS([p], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (p * p).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    13.0
    >>> bool(p.abs().max() < 1e-5)
    True
    """

    _numel_cache: int | None = None

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_rates(lr)
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    # -- all parameters as one vector -----------------------------------------------------------

    def _gather_flat_grad(self) -> Tensor:
        parts = []
        for p in self._params:
            grad = torch.zeros_like(p) if p.grad is None else p.grad
            if grad.is_complex():
                grad = torch.view_as_real(grad)
            parts.append(grad.reshape(-1))
        return torch.cat(parts, 0)

    def _add_grad(self, size: Any, direction: Tensor) -> None:
        at = 0
        for p in self._params:
            target = torch.view_as_real(p) if p.is_complex() else p
            n = target.numel()
            target.add_(direction[at : at + n].view_as(target), alpha=float(size))
            at += n

    def _clone_param(self) -> list[Tensor]:
        return [p.clone(memory_format=torch.contiguous_format) for p in self._params]

    def _set_param(self, values: list[Tensor]) -> None:
        for p, value in zip(self._params, values, strict=True):
            p.copy_(value)

    # -- the method -----------------------------------------------------------------------------

    @torch.no_grad()
    def step(self, closure: Callable[[], Any]) -> Any:
        """Runs up to `max_iter` iterations; returns the loss before the first."""
        group = self.param_groups[0]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        search = group["line_search_fn"]
        if search not in (None, "strong_wolfe"):
            raise RuntimeError(
                f"only 'strong_wolfe' is supported as line_search_fn, got {search!r}"
            )
        first_loss = _evaluate(closure)
        state["func_evals"] += 1
        gradient = self._gather_flat_grad()
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first_loss
        self._iterate(closure, group, state, float(first_loss), gradient)
        return first_loss

    def _iterate(
        self,
        closure: Callable[[], Any],
        group: dict[str, Any],
        state: dict[str, Any],
        loss: float,
        gradient: Tensor,
    ) -> None:
        lr, tolerance = _to_scalar(group["lr"]), group["tolerance_change"]
        evaluations = 1
        direction, size = state.get("d"), state.get("t")
        before_loss = state.get("prev_loss")
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                direction = gradient.neg()
                state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            else:
                direction = self._direction(group, state, gradient, direction, size)
            if state.get("prev_flat_grad") is None:
                state["prev_flat_grad"] = gradient.clone(memory_format=torch.contiguous_format)
            else:
                state["prev_flat_grad"].copy_(gradient)
            before_loss = loss
            size = lr
            if state["n_iter"] == 1:
                size = min(1.0, 1.0 / gradient.abs().sum()) * lr
            slope = gradient.dot(direction)
            if slope > -tolerance:
                break
            if group["line_search_fn"] is not None:
                room = group["max_eval"] - evaluations
                loss, gradient, size, used = self._search(
                    closure, size, direction, loss, gradient, slope, room
                )
                self._add_grad(size, direction)
                flat = gradient.abs().max() <= group["tolerance_grad"]
            else:
                self._add_grad(size, direction)
                used, flat = 0, False
                if iteration != group["max_iter"]:
                    loss = float(_evaluate(closure))
                    gradient = self._gather_flat_grad()
                    flat = gradient.abs().max() <= group["tolerance_grad"]
                    used = 1
            evaluations += used
            state["func_evals"] += used
            if (
                iteration == group["max_iter"]
                or evaluations >= group["max_eval"]
                or flat
                or (direction * size).abs().max() <= tolerance
                or abs(loss - before_loss) < tolerance
            ):
                break
        state.update(d=direction, t=size, prev_loss=before_loss)

    def _direction(
        self,
        group: dict[str, Any],
        state: dict[str, Any],
        gradient: Tensor,
        direction: Any,
        size: Any,
    ) -> Tensor:
        """The gradient times the inverse Hessian that the latest steps imply (two loops)."""
        steps, changes, inverses = state["old_stps"], state["old_dirs"], state["ro"]
        change = gradient - state["prev_flat_grad"]
        step = direction * size
        curvature = change.dot(step)
        if curvature > 1e-10:
            if len(changes) == group["history_size"]:
                for history in (changes, steps, inverses):
                    history.pop(0)
            changes.append(change)
            steps.append(step)
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / change.dot(change)
        weights = state.setdefault("al", [None] * group["history_size"])
        q = gradient.neg()
        for i in reversed(range(len(changes))):
            weights[i] = steps[i].dot(q) * inverses[i]
            q.sub_(changes[i] * weights[i])
        r = q * state["H_diag"]
        for i in range(len(changes)):
            r.add_(steps[i] * (weights[i] - changes[i].dot(r) * inverses[i]))
        return r

    def _search(
        self,
        closure: Callable[[], Any],
        size: Any,
        direction: Tensor,
        loss: float,
        gradient: Tensor,
        slope: Tensor,
        room: int,
    ) -> tuple[float, Tensor, Any, int]:
        start = self._clone_param()

        def objective(size: Any) -> tuple[float, Tensor]:
            self._add_grad(size, direction)
            value = float(_evaluate(closure))
            there = self._gather_flat_grad()
            self._set_param(start)
            return value, there

        return strong_wolfe(objective, size, direction, loss, gradient, slope, room)


def _evaluate(closure: Callable[[], Any]) -> Any:
    with torch.enable_grad():
        return closure()


def _cubic_interpolate(
    x1: Any, f1: Any, g1: Any, x2: Any, f2: Any, g2: Any, bounds: Any = None
) -> Any:
    """PyTorch's private name of the cubic's minimum, which libraries import."""
    return cubic_minimum(Point(x1, f1, g1, g1), Point(x2, f2, g2, g2), bounds)


def _strong_wolfe(
    obj_func: Callable[..., Any],
    x: Any,
    t: Any,
    d: Any,
    f: Any,
    g: Any,
    gtd: Any,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
    max_ls: int = 25,
) -> tuple[Any, Any, Any, int]:
    """PyTorch's private name of the line search, which libraries import."""
    return strong_wolfe(
        lambda size: obj_func(x, size, d), t, d, f, g, gtd, max_ls, c1, c2, tolerance_change
    )
