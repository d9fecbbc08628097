"""NaN and infinity, and the operation that made them first."""

from __future__ import annotations

import math
from time import perf_counter
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight import _C
from rushlight.doctor._check import Check
from rushlight.doctor._finding import Place, number, of_node
from rushlight.doctor._graph import children, saved
from rushlight.doctor._trackers import Optimizers, name_of

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward, Step

# What the operations' rules save their operands as, and their result.
_OPERANDS = ("self", "input", "other", "mat1", "mat2", "vec2", "exponent", "weight", "end")


def _is_bad(value: Any, nan: bool) -> bool:
    """Whether a tensor has NaN, or infinity where that is asked for."""
    if not isinstance(value, _C.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return False
    if value.is_meta or _C._batch_levels(value):
        return False
    plain = value.detach()
    return bool((plain.isnan() if nan else plain.isinf()).any().item())


def _range(value: Any) -> str:
    plain = value.detach()
    finite = plain[plain.isfinite()]
    if plain.is_complex() or not finite.numel():
        return f"shape {list(plain.shape)}"
    low, high = finite.min().item(), finite.max().item()
    return f"shape {list(plain.shape)}, from {number(low)} to {number(high)}"


class NonFinite(Check):
    """A loss or a gradient is NaN or infinite; the operation that made it first is named."""

    name = "non-finite"
    severity = "serious"
    example = "(x - x).norm(), probabilities.log()"
    fix = (
        "keep the operation within its domain: clamp or add an epsilon before log, sqrt and "
        "division; otherwise lower the learning rate or clip gradients"
    )

    def start(self) -> None:
        self.optimizers = self.uses(Optimizers)
        self.found = False
        self.scaled: set[int] = set()

    def on_scaled(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        self.scaled = {id(scaled)}

    def on_backward(self, event: Backward) -> None:
        if self.found:
            return
        root = event.roots[0]
        if not isinstance(root, _C.Tensor) or root.numel() != 1 or root.is_complex():
            return
        value = root.item()
        if not math.isfinite(value):
            if id(root) not in self.scaled:  # an overflow that a GradScaler takes care of
                self._forward(event, value)
        elif id(root) not in self.scaled and not event.create:
            self._listen(event)

    # -- forward --------------------------------------------------------------------------------

    def _forward(self, event: Backward, value: float) -> None:
        self.found = True
        nan = math.isnan(value)
        word = "NaN" if nan else "infinite"
        step = self.observer.steps
        for leaf in event.graph.leaves:
            if _is_bad(leaf, nan):
                self.report(
                    f"the loss is {word}: {name_of(leaf)} was {word} before this pass began",
                    event.place, step=step, loss=str(value), operand=_range(leaf),
                )  # fmt: skip
                return
        bad: set[int] = set()
        ordered = sorted(
            (n for n, name in event.graph.nodes if name != "AccumulateGrad"),
            key=lambda n: n._sequence_nr(),
        )
        for node in ordered:
            if any(id(child) in bad for child in children(node)):
                bad.add(id(node))
                continue
            operands = [saved(node, name) for name in _OPERANDS]
            tensors = [t for t in operands if isinstance(t, _C.Tensor)]
            op = node.name().partition("Backward")[0]
            given = [t for t in tensors if _is_bad(t, nan)]
            if given and nan:
                self.report(
                    f"the loss is {word}: the data that {op} gets is {word} already",
                    of_node(node), step=step, loss=str(value), operand=_range(given[0]),
                    fix="look at the data: it has NaN before the model sees it",
                )  # fmt: skip
                return
            if self._makes(node, op, operands, nan, event):
                shown = {f"operand_{i}": _range(t) for i, t in enumerate(_distinct(tensors))}
                self.report(
                    f"the loss is {word}: {op.lower()} made it so first",
                    of_node(node), step=step, loss=str(value), **shown,
                )  # fmt: skip
                return
        self.report(f"the loss is {word}", event.place, step=step, loss=str(value))

    def _makes(self, node: Any, op: str, operands: list[Any], nan: bool, event: Backward) -> bool:
        """Whether an operation's result is bad: as it was saved, there or by who used it, or as
        computing it again from saved operands shows."""
        if op.startswith("MaskedFill"):
            return False
        result = saved(node, "result")
        if isinstance(result, _C.Tensor):
            return _is_bad(result, nan)
        for user in event.graph.consumers.get(id(node), ()):
            used = saved(user, "self")
            if isinstance(used, _C.Tensor) and len(children(user)) == 1:
                return _is_bad(used, nan)
        function = getattr(rushlight, _snake(op), None)
        given = [value for value in (operands[0], operands[2]) if value is not None]
        if function is None or not given:
            return False
        try:
            return _is_bad(function(*given), nan)
        except (RuntimeError, TypeError, ValueError):
            return False

    # -- backward -------------------------------------------------------------------------------

    def _listen(self, event: Backward) -> None:
        for node, name in event.graph.nodes:
            if name != "AccumulateGrad":
                node.register_hook(self._checker(node._sequence_nr(), name, node))

    def _checker(self, sequence: int, name: str, node: Any) -> Any:
        described = node._where  # read now: a hook that holds its node would keep it alive
        observer = self.observer

        def check(grad_inputs: Any, grad_outputs: Any) -> None:
            if self.found:
                return
            began = perf_counter()
            if not all(map(_finite, grad_inputs)) and all(map(_finite, grad_outputs)):
                self.found = True
                at = Place(*described) if described else None
                arrived = [g for g in grad_outputs if g is not None]
                self.report(
                    f"the backward of {name.partition('Backward')[0].lower()} turned finite "
                    "gradients into NaN or infinity",
                    at,
                    step=observer.steps,
                    gradient_that_arrived=_range(arrived[0]) if arrived else "none",
                    node=f"{name} {sequence}",
                )
            observer.charge(perf_counter() - began + 1e-6)

        return check

    def on_step(self, step: Step) -> None:
        if self.found:
            return
        for p in step.parameters:
            if p.grad is not None and not _finite(p.grad):
                self.found = True
                self.report(
                    f"the gradient of {name_of(p)} is NaN or infinite, and the optimizer uses it",
                    step.place,
                    step=step.number,
                    gradient=_range(p.grad),
                    fix="run with --every-step to see the operation that made it",
                )
                return

    def on_finish(self) -> None:
        """What came in steps that were not watched is still in the parameters."""
        for known in () if self.found else self.optimizers.known.values():
            if not _finite(known.parameter):
                self.report(
                    f"{name_of(known.parameter)} is NaN or infinite at the end",
                    self.optimizers.step_place,
                    parameter=_range(known.parameter),
                    fix="run with --every-step to see the operation that made it",
                )
                return


def _finite(gradient: Any) -> bool:
    if gradient is None or not gradient.is_floating_point() or _C._batch_levels(gradient):
        return True
    # A sum is finite where all is; the other way round it may overflow.
    if math.isfinite(gradient.detach().sum().item()):
        return True
    return bool(gradient.detach().isfinite().all().item())


def _distinct(tensors: list[Any]) -> list[Any]:
    return list({id(t): t for t in tensors}.values())[:2]


def _snake(name: str) -> str:
    import re

    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
