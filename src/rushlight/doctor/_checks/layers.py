"""Sizes of gradients and updates, layer by layer."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

from rushlight.doctor._check import Check, Listener
from rushlight.doctor._trackers import Optimizers, name_of, names_of

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward, Step

OBSERVATIONS = 3


class Layer:
    """A weight matrix and its figures at the steps that were looked at."""

    def __init__(self, parameter: Any) -> None:
        self.parameter = parameter
        self.before: Any = None
        self.weights: list[float] = []  # norm
        self.gradients: list[float] = []  # root of the mean square
        self.norms: list[float] = []
        self.updates: list[float] = []  # norm of the change by that of the weights


class Layers(Listener):
    """Norms of weights, gradients and updates of all matrices that optimizers step."""

    MATRICES = 400
    KEPT = 256  # observations

    def start(self) -> None:
        self.layers: dict[int, Layer] = {}

    def _of(self, step: Step) -> list[Layer]:
        found = []
        for p in step.parameters[: self.MATRICES]:
            if p.dim() >= 2 and p.grad is not None and p.is_floating_point():
                found.append(self.layers.setdefault(id(p), Layer(p)))
        return found

    def on_step(self, step: Step) -> None:
        for layer in self._of(step):
            p, grad = layer.parameter, layer.parameter.grad
            if len(layer.norms) < self.KEPT and not grad.is_sparse:
                norm = grad.detach().norm().item()
                layer.before = p.detach().clone()
                layer.weights.append(layer.before.norm().item())
                layer.norms.append(norm)
                layer.gradients.append(norm / max(1, grad.numel()) ** 0.5)

    def on_stepped(self, step: Step) -> None:
        for layer in self._of(step):
            if layer.before is not None:
                change = (layer.parameter.detach() - layer.before).norm().item()
                layer.updates.append(change / max(layer.weights[-1], 1e-12))
                layer.before = None

    def seen(self) -> list[Layer]:
        return [layer for layer in self.layers.values() if len(layer.norms) >= OBSERVATIONS]


class _LayerCheck(Check):
    def start(self) -> None:
        self.layers = self.uses(Layers)
        self.optimizers = self.uses(Optimizers)


class VanishingGradients(_LayerCheck):
    """The gradients of some layers are far smaller than those of the others."""

    name = "vanishing-gradients"
    severity = "warning"
    example = "nn.Sequential(*12 * [nn.Linear(8, 8), nn.Sigmoid()])"
    fix = (
        "use ReLU or GELU instead of tanh or sigmoid, add normalisation or skip connections, and "
        "initialise for the activation (nn.init.kaiming_normal_)"
    )
    RATIO = 1e-6

    def on_finish(self) -> None:
        seen = self.layers.seen()
        if len(seen) < 2:
            return
        typical = {id(layer): median(layer.gradients) for layer in seen}
        largest = max(seen, key=lambda layer: typical[id(layer)])
        small = [
            layer
            for layer in seen
            if max(layer.gradients) < self.RATIO * typical[id(largest)] and typical[id(largest)] > 0
        ]
        if small:
            worst = min(small, key=lambda layer: typical[id(layer)])
            self.report(
                f"{len(small)} of {len(seen)} weight matrices get almost no gradient",
                self.optimizers.step_place,
                names=names_of(layer.parameter for layer in small),
                smallest=f"{name_of(worst.parameter)}: {typical[id(worst)]:.2g} per element",
                largest=f"{name_of(largest.parameter)}: {typical[id(largest)]:.2g} per element",
                steps_seen=len(worst.gradients),
            )


class ExplodingGradients(_LayerCheck):
    """The gradients of a layer grow without bound, or are huge beside its weights."""

    name = "exploding-gradients"
    severity = "warning"
    example = "for _ in range(100): state = cell(state)"
    fix = "clip them (nn.utils.clip_grad_norm_), lower the learning rate, or normalise activations"
    GROWTH = 1e4
    OF_WEIGHTS = 1e5

    def on_finish(self) -> None:
        for layer in self.layers.seen():
            first = median(layer.norms[:OBSERVATIONS])
            last = max(layer.norms)
            weight = max(layer.weights)  # those that start at 0 grow
            grown = first > 0 and last > self.GROWTH * first and last > 10 * weight
            huge = median(layer.norms) > self.OF_WEIGHTS * weight
            if grown or huge:
                self.report(
                    f"the gradient of {name_of(layer.parameter)} explodes",
                    self.optimizers.step_place,
                    norm_at_first=first,
                    largest_norm=last,
                    weight_norm=weight,
                    steps_seen=len(layer.norms),
                )
                return


class UpdateTooLarge(_LayerCheck):
    """A step changes weights by more than their own size."""

    name = "update-too-large"
    severity = "serious"
    example = "SGD(model.parameters(), lr=100)"
    fix = "lower the learning rate, by a factor of 10 to start with"
    RATIO = 1.0

    def start(self) -> None:
        super().start()
        self.losses: list[float] = []

    def on_backward(self, event: Backward) -> None:
        if event.accumulates and event.roots[0].numel() == 1 and len(self.losses) < Layers.KEPT:
            self.losses.append(float(event.roots[0].item()))

    def _worse(self) -> bool:
        """Whether the loss is far above where it began."""
        late = self.losses[OBSERVATIONS:]
        return bool(late) and median(late) > 2 * max(map(abs, self.losses[:1]))

    def on_finish(self) -> None:
        seen = [layer for layer in self.layers.seen() if layer.updates]
        worse = self._worse()
        large = [
            layer
            for layer in seen
            if _low(layer.updates) > self.RATIO or (worse and _thrown(layer) > self.RATIO)
        ]
        if large and 2 * len(large) >= len(seen):
            worst = max(large, key=lambda layer: median(layer.updates))
            self.report(
                f"steps change {len(large)} of {len(seen)} weight matrices by more than their own "
                "size",
                self.optimizers.step_place,
                change_by_weight=max(median(worst.updates), _thrown(worst)),
                usual="about 0.001",
                names=names_of(layer.parameter for layer in large),
                rate=_rates(self.optimizers),
                steps_seen=len(worst.updates),
            )


class UpdateTooSmall(_LayerCheck):
    """Steps leave the weights as they are, to the precision of their numbers."""

    name = "update-too-small"
    severity = "warning"
    example = "SGD(model.parameters(), lr=1e-12)"
    fix = "raise the learning rate; check that the loss is not multiplied by something tiny"
    RATIO = 1e-7

    def on_finish(self) -> None:
        seen = [
            layer
            for layer in self.layers.seen()
            # Where there is no gradient the rate is not to blame.
            if len(layer.updates) >= OBSERVATIONS and median(layer.norms) > 0
        ]
        if seen and all(max(layer.updates) < self.RATIO for layer in seen):
            best = max(seen, key=lambda layer: max(layer.updates))
            self.report(
                "no step changes the weights by more than rounding would",
                self.optimizers.step_place,
                largest_change_by_weight=max(best.updates),
                usual="about 0.001",
                rate=_rates(self.optimizers),
                steps_seen=len(best.updates),
            )


def _low(values: list[float]) -> float:
    """A quarter of the values are below: one large step among many is no habit."""
    return sorted(values)[len(values) // 4] if len(values) >= OBSERVATIONS else 0.0


def _thrown(layer: Layer) -> float:
    """The least of the first changes, by the weights at the start: Adam's soon outgrow them."""
    changes = zip(layer.updates[:OBSERVATIONS], layer.weights, strict=False)
    first = layer.weights[0]
    return min(update * weight for update, weight in changes) / first if first > 1e-6 else 0.0


def _rates(optimizers: Optimizers) -> str:
    rates = {g.get("lr") for o in optimizers.all.values() for g in o.param_groups}
    return ", ".join(sorted(str(r.item() if hasattr(r, "item") else r) for r in rates))
