"""Units that no longer react to their input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.doctor._check import Check
from rushlight.doctor._finding import of_node
from rushlight.doctor._graph import saved

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward

OBSERVATIONS = 3
ELEMENTS = 2_000_000  # larger results are not looked at


class _Activation(Check):
    """Looks at the results of some operations, by the line that calls them."""

    OPS: tuple[str, ...] = ()

    def on_backward(self, event: Backward) -> None:
        if not event.accumulates:
            return
        count: dict[Any, int] = {}
        for node in event.graph.named(*self.OPS):
            result = saved(node, "result")
            if not isinstance(result, _C.Tensor) or not 0 < result.numel() <= ELEMENTS:
                continue
            if result.is_meta or _C._batch_levels(result):
                continue
            # Several layers may share a line: that of nn.Sequential or a loop.
            place = of_node(node)
            order = count[place] = count.get(place, 0) + 1
            self.look((place, order), node, result.detach())

    def look(self, key: Any, node: Any, result: Any) -> None:
        raise NotImplementedError


class DeadRelu(_Activation):
    """Units of a ReLU are 0 for every sample, so no gradient ever reaches them."""

    name = "dead-relu"
    severity = "warning"
    example = "SGD(model.parameters(), lr=10.0)"
    fix = (
        "lower the learning rate, check the bias and the scale of the inputs, or use LeakyReLU or "
        "GELU"
    )
    OPS = ("Relu",)
    SHARE = 0.8

    def start(self) -> None:
        self.alive: dict[Any, Any] = {}
        self.times: dict[Any, int] = {}

    def look(self, key: Any, node: Any, result: Any) -> None:
        if result.dim() < 2 or result.shape[0] < 2:
            return
        dims = [0, 2, 3] if result.dim() == 4 else list(range(result.dim() - 1))
        alive = (result > 0).sum(dims) > 0
        before = self.alive.get(key)
        if before is not None and before.shape == alive.shape:
            # Weights that recover count: only what is 0 in every late look is dead.
            alive = alive | before
        self.alive[key] = alive
        self.times[key] = self.times.get(key, 0) + 1

    def on_finish(self) -> None:
        for (place, _), alive in self.alive.items():
            units = alive.numel()
            dead = units - int(alive.sum().item())
            times = self.times[place, _]
            if units >= 4 and times >= OBSERVATIONS and dead >= self.SHARE * units:
                self.report(
                    f"{dead} of {units} units were 0 for every sample of every batch looked at",
                    place,
                    severity="serious" if dead == units else "",
                    dead_units=dead,
                    units=units,
                    batches=times,
                )


class SaturatedActivation(_Activation):
    """tanh, sigmoid or softmax sit at their limits from the first step: gradients are nearly 0."""

    name = "saturated-activation"
    severity = "warning"
    example = "torch.tanh(layer(pixels_up_to_255))"
    fix = (
        "scale what goes in: normalise inputs, initialise weights smaller, divide attention scores "
        "by the square root of the width"
    )
    OPS = ("Tanh", "Sigmoid", "Softmax")
    SHARE = 0.95

    def start(self) -> None:
        self.shares: dict[Any, list[float]] = {}
        self.kinds: dict[Any, str] = {}

    def look(self, key: Any, node: Any, result: Any) -> None:
        kind = node.name().partition("Backward")[0].lower()
        if result.numel() < 8:
            return
        if kind == "softmax":
            # The dimension is not kept; probabilities sum to 1 over the last one as a rule.
            if result.shape[-1] < 3:
                return
            share = (result.amax(-1) > 0.9999).float().mean().item()
        elif kind == "tanh":
            share = (result.abs() > 0.99).float().mean().item()
        else:
            share = ((result - 0.5).abs() > 0.49).float().mean().item()
        self.shares.setdefault(key, []).append(share)
        self.kinds[key] = kind

    def on_finish(self) -> None:
        for key, shares in self.shares.items():
            if len(shares) >= OBSERVATIONS and min(shares[: OBSERVATIONS + 2]) >= self.SHARE:
                place, _ = key
                self.report(
                    f"{self.kinds[key]} is saturated: almost all of its results are at its limits",
                    place,
                    saturated_at_first=f"{shares[0]:.1%}",
                    saturated_at_last=f"{shares[-1]:.1%}",
                    batches=len(shares),
                )
