"""Gradients that stay from one step to the next, or are gone before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.doctor._check import Check
from rushlight.doctor._trackers import names_of

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward, Step


class _Carried:
    """An optimizer's gradients after a step: one of them stands for all."""

    def __init__(self, parameter: Any) -> None:
        self.parameter, self.grad = parameter, parameter.grad
        self.first_pass = True  # no backward pass since the step
        self.stale = False  # the gradient of the last step is still part of it

    def there(self) -> bool:
        return self.parameter.grad is self.grad and bool(self.grad.any().item())


class GradsNotCleared(Check):
    """The optimizer steps again with the gradients of earlier steps still added in."""

    name = "grads-not-cleared"
    severity = "serious"
    example = "loss.backward(); optimizer.step()"
    fix = "call optimizer.zero_grad() once per step, before backward()"

    def start(self) -> None:
        self.carried: dict[int, _Carried] = {}
        self.times: dict[int, int] = {}

    def on_gap(self) -> None:
        self.carried.clear()

    def on_backward(self, event: Backward) -> None:
        if not event.accumulates:
            return
        for carried in self.carried.values():
            if carried.first_pass:
                carried.stale = carried.there()
                carried.first_pass = False
            elif carried.stale:
                carried.stale = carried.there()

    def on_step(self, step: Step) -> None:
        carried = self.carried.pop(id(step.optimizer), None)
        if carried is None or not carried.stale or carried.parameter.grad is not carried.grad:
            return
        times = self.times[id(step.optimizer)] = self.times.get(id(step.optimizer), 0) + 1
        if times >= 2:
            kind = type(step.optimizer).__name__
            self.report(
                f"{kind}.step() runs on the sum of the gradients of all steps so far: "
                "nothing clears them between two steps",
                step.place,
                steps_with_old_gradients=times,
                gradient_norm_now=_norm(step.parameters),
            )

    def on_stepped(self, step: Step) -> None:
        with_grad = [p for p in step.parameters if p.grad is not None and p.grad.numel()]
        if with_grad:
            smallest = min(with_grad, key=lambda p: p.numel())
            self.carried[id(step.optimizer)] = _Carried(smallest)


class GradsClearedBeforeStep(Check):
    """Gradients are cleared between backward() and step(): no step changes anything."""

    name = "grads-cleared-before-step"
    severity = "serious"
    example = "loss.backward(); optimizer.zero_grad(); optimizer.step()"
    fix = "clear first: optimizer.zero_grad(), then loss.backward(), then optimizer.step()"

    def start(self) -> None:
        self.reached: set[int] = set()  # leaves of the passes since the last step
        self.times: dict[int, int] = {}

    def on_gap(self) -> None:
        self.reached.clear()

    def on_backward(self, event: Backward) -> None:
        if event.accumulates:
            leaves = event.graph.leaves if event.inputs is None else _listed(event.inputs)
            self.reached.update(map(id, leaves))

    def on_step(self, step: Step) -> None:
        with_pass = [p for p in step.parameters if id(p) in self.reached]
        self.reached.clear()
        if not with_pass or any(p.grad is not None and p.grad.any().item() for p in with_pass):
            return
        times = self.times[id(step.optimizer)] = self.times.get(id(step.optimizer), 0) + 1
        if times >= 2:
            self.report(
                "backward() gave these parameters gradients, and step() finds none: they were "
                "cleared in between",
                step.place,
                parameters=len(with_pass),
                names=names_of(with_pass),
                steps_without_gradients=times,
            )


def _listed(inputs: Any) -> list[Any]:
    return list(inputs) if isinstance(inputs, (list, tuple)) else [inputs]


def _norm(parameters: list[Any]) -> float:
    squares = (p.grad.detach().norm().item() ** 2 for p in parameters if p.grad is not None)
    return float(sum(squares) ** 0.5)
