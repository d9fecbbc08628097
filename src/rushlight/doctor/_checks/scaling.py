"""Losses that are scaled, should be, or were not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.doctor._check import Check, Listener
from rushlight.doctor._graph import children, saved

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward, Call, Step
    from rushlight.doctor._finding import Place


class Scaled(Listener):
    """Which passes started from a loss that a GradScaler scaled, since the last step."""

    def start(self) -> None:
        self.results: dict[int, tuple[Any, Any]] = {}  # scaled losses and their scalers
        self.pending: Any = None  # the scaler whose scaled gradients are in .grad
        self.plain = 0  # passes from losses that were not scaled
        self.scaled = 0
        self.unscaled: set[int] = set()  # optimizers
        self.by_scaler = False  # the next step is called by a scaler
        self.last_scaled = False  # the latest pass

    def on_scaled(self, scaler: Any, outputs: Any, scaled: Any) -> None:
        self.results[id(scaled)] = scaled, scaler

    def on_backward(self, event: Backward) -> None:
        if not event.accumulates:
            return
        held = self.results.get(id(event.roots[0]))
        self.last_scaled = held is not None
        if held is None:
            self.plain += 1
        else:
            self.scaled += 1
            self.pending = held[1]
        self.results.clear()

    def on_unscaled(self, scaler: Any, optimizer: Any) -> None:
        self.unscaled.add(id(optimizer))

    def on_stepped(self, step: Step) -> None:
        self.on_gap()

    def on_gap(self) -> None:
        self.pending = None
        self.plain = self.scaled = 0
        self.unscaled.clear()
        self.by_scaler = False

    def on_scaler_step(self, scaler: Any, optimizer: Any, place: Any, error: Any) -> None:
        self.by_scaler = error is None


class ClipBeforeUnscale(Check):
    """Gradients are clipped while they are still multiplied by the GradScaler's scale."""

    name = "clip-before-unscale"
    severity = "serious"
    example = "scaler.scale(loss).backward(); clip_grad_norm_(...)"
    fix = "call scaler.unscale_(optimizer) before clipping"

    def start(self) -> None:
        self.scaled = self.uses(Scaled)
        self.times: dict[Any, int] = {}

    def on_clip(self, grads: list[Any], place: Place | None) -> None:
        scaler = self.scaled.pending
        if scaler is None or self.scaled.unscaled or not grads:
            return
        times = self.times[place] = self.times.get(place, 0) + 1
        total = sum(g.detach().norm().item() ** 2 for g in grads) ** 0.5
        self.report(
            "gradients are clipped while they carry the scale of the loss: all of them are cut to "
            "almost nothing",
            place,
            scale=scaler.get_scale(),
            norm_clipped=total,
            norm_unscaled=total / scaler.get_scale(),
            times=times,
        )


class ScalerMisuse(Check):
    """A GradScaler is used in part: scaled gradients are stepped as they are, or the reverse."""

    name = "scaler-misuse"
    severity = "serious"
    example = "scaler.scale(loss).backward(); optimizer.step()"
    fix = "scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()"

    def start(self) -> None:
        self.scaled = self.uses(Scaled)

    def on_step(self, step: Step) -> None:
        held = self.scaled
        if held.pending is not None and not held.by_scaler and not held.unscaled:
            self.report(
                "optimizer.step() uses gradients that still carry the scale of the loss",
                step.place,
                scale=held.pending.get_scale(),
                step=step.number,
            )

    def on_scaler_step(
        self, scaler: Any, optimizer: Any, place: Place | None, error: BaseException | None
    ) -> None:
        if error is not None:
            first = str(error).splitlines()[0]
            self.report("the GradScaler refuses to step", place, error=first)
        elif self.scaled.plain and not self.scaled.scaled:
            self.report(
                "scaler.step() divides gradients by the scale, but backward() ran on a loss that "
                "was not scaled",
                place,
                scale=scaler.get_scale(),
                passes_without_scale=self.scaled.plain,
            )


class AccumulationNotScaled(Check):
    """Several passes add up before each step, and their mean losses are not divided."""

    name = "accumulation-not-scaled"
    severity = "warning"
    example = "loss.backward(); if i % 4 == 3: optimizer.step()"
    fix = "divide the loss by the number of passes per step: (loss / steps).backward()"

    def start(self) -> None:
        self.scaled = self.uses(Scaled)
        self.runs: list[Any] = []  # places of the passes since the last step, unless scaled
        self.inputs: list[set[int]] = [set()]
        self.kept: list[Any] = []
        self.versions: dict[int, int] = {}
        self.clipped = False
        self.steps: dict[Any, list[int]] = {}

    def on_call(self, call: Call) -> None:
        if call.top and call.recording:
            tensors = [v for v in call.args if isinstance(v, _C.Tensor) and v.grad_fn is None]
            self.kept += tensors  # alive, so that an id is not used twice
            del self.kept[:-64]
            self.inputs[-1].update(map(id, tensors))

    def on_backward(self, event: Backward) -> None:
        if not event.accumulates:
            return
        node = getattr(event.roots[0], "grad_fn", None)
        if node is None:
            self.runs.append(None)
            return
        if self.scaled.last_scaled:  # by a GradScaler: below its product
            node = children(node)[0]
        plain = _unscaled_mean(node)
        self.runs.append(event.place if plain else None)
        self.inputs.append(set())

    def on_backward_end(self, event: Backward, error: BaseException | None) -> None:
        self.versions.clear()
        if len(self.runs) >= 2:
            self._note_versions()

    def _note_versions(self) -> None:
        self.versions = {id(grad): grad._version for grad in self._grads()}

    def _grads(self) -> list[Any]:
        return [p.grad for p in self._parameters[:4] if p.grad is not None]

    _parameters: list[Any] = []  # noqa: RUF012 - of the last step's optimizer

    def on_clip(self, grads: list[Any], place: Place | None) -> None:
        self.clipped = True

    def on_unscaled(self, scaler: Any, optimizer: Any) -> None:
        self._note_versions()  # that write is the scaler's

    def on_gap(self) -> None:
        self.runs, self.inputs, self.kept = [None], [set()], []  # it may begin within a step
        self.clipped = False
        self.versions.clear()

    def on_step(self, step: Step) -> None:
        self._parameters = step.parameters
        runs, inputs = self.runs, [i for i in self.inputs if i]
        self.runs, self.inputs, self.kept = [], [set()], []
        changed = not self.clipped and any(
            self.versions.get(id(g), g._version) != g._version for g in self._grads()
        )
        self.clipped = False
        one_line = len(set(runs)) == 1 and runs[0] is not None
        fresh = len(inputs) == len(runs) and not set.intersection(*inputs) if inputs else False
        if len(runs) < 2 or not one_line or not fresh or changed:
            return
        counts = self.steps.setdefault(runs[0], [])
        counts.append(len(runs))
        if len(counts) >= 2:
            self.report(
                f"{counts[-1]} passes add up before each step, and each is the mean over its own "
                f"batch: the gradient is {counts[-1]} times that of the whole batch",
                runs[0],
                passes_per_step=counts[-1],
                steps_seen=len(counts),
            )


def _unscaled_mean(root: Any) -> bool:
    """Whether a loss is a mean over its batch that nothing divides."""
    stack, seen = [root], 0
    while stack and seen < 32:
        node = stack.pop()
        seen += 1
        kind = node.name().partition("Backward")[0]
        if kind == "Mean" or saved(node, "reduction") == 1:
            return True
        if kind in ("Add", "Sub", "View", "Squeeze", "Neg"):
            stack += children(node)
    return False
