"""What several checks want to know about a run."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.doctor._check import Listener
from rushlight.doctor._finding import of_node
from rushlight.doctor._graph import leaves_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rushlight.doctor._events import Backward, Call, Cut, Step
    from rushlight.doctor._finding import Place


def name_of(parameter: Any) -> str:
    """``encoder.weight``, or the shape of a tensor that no module holds."""
    from rushlight.nn._names import qualified_name

    return qualified_name(parameter) or f"a tensor of shape {list(parameter.shape)}"


def names_of(parameters: Iterable[Any], limit: int = 6) -> str:
    """The first names, and how many more there are."""
    names = [name_of(p) for p in parameters]
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def live_parameters() -> list[Any]:
    """The parameters of all modules there are."""
    found: dict[int, Any] = {}
    for module in _C._live_modules():
        for p in module.__dict__.get("_parameters", {}).values():
            if p is not None:
                found[id(p)] = p
    return list(found.values())


class Known:
    """What is known of a parameter that an optimizer holds."""

    def __init__(self, parameter: Any) -> None:
        self.parameter = parameter
        self.steps = 0  # of its optimizer
        self.with_grad = 0  # of them those where it had a gradient
        self.frozen = 0  # of them those where it did not require one


class Optimizers(Listener):
    """The optimizers that step, and their parameters."""

    def start(self) -> None:
        self.steps: dict[int, int] = {}
        self.all: dict[int, Any] = {}
        self.places: dict[int, Place | None] = {}
        self.known: dict[int, Known] = {}
        self.step_place: Place | None = None
        # The parameters that there were when an optimizer came to be, or the doctor.
        self._before: dict[int, weakref.ref[Any]] = {}
        self._note_live()

    def _note_live(self) -> None:
        for p in live_parameters():
            self._before[id(p)] = weakref.ref(p)

    def on_optimizer(self, optimizer: Any, place: Place | None) -> None:
        self.places.setdefault(id(optimizer), place)
        self.all[id(optimizer)] = optimizer
        self._before.clear()
        self._note_live()

    def existed(self, parameter: Any) -> bool:
        """Whether a parameter was there when the latest optimizer was made."""
        noted = self._before.get(id(parameter))
        return noted is not None and noted() is parameter

    def on_step(self, step: Step) -> None:
        key = id(step.optimizer)
        self.all[key] = step.optimizer
        self.steps[key] = self.steps.get(key, 0) + 1
        self.step_place = step.place
        for p in step.parameters:
            known = self.known.get(id(p))
            if known is None:
                known = self.known[id(p)] = Known(p)
            known.steps += 1
            known.with_grad += p.grad is not None
            known.frozen += not p.requires_grad

    def holds(self, parameter: Any) -> bool:
        """Whether an optimizer has the parameter."""
        if id(parameter) in self.known:
            return True
        groups = (g for o in self.all.values() for g in o.param_groups)
        return any(p is parameter for group in groups for p in group["params"])


class Reached(Listener):
    """Leaves that passes reach: those of optimizers, and others."""

    def start(self) -> None:
        self.optimizers = self.uses(Optimizers)
        self.known: set[int] = set()  # those that an optimizer holds
        self._others: dict[int, weakref.ref[Any]] = {}
        self._alone: set[int] = set()  # of the others: in a pass without any that is held
        self._times: dict[int, int] = {}
        self._first: dict[int, list[str]] = {}  # a few values of each, when first seen
        self.fresh: list[Any] = []  # parameters of the last pass that no pass had before
        self.fresh_passes = 0  # in a row

    def on_backward(self, event: Backward) -> None:
        from rushlight.nn import Parameter

        if not event.accumulates:
            return
        held = {id(leaf) for leaf in event.graph.leaves if id(leaf) in self.optimizers.known}
        self.known |= held
        if not self.optimizers.known:
            return  # nothing has stepped yet
        fresh = []
        for leaf in event.graph.leaves:
            key = id(leaf)
            if key in held:
                continue
            seen = self._others.get(key)
            if seen is None or seen() is not leaf:  # inputs come and go
                self._others[key] = weakref.ref(leaf)
                self._times[key] = 0
                self._first[key] = some_values(leaf)
                self._alone.discard(key)
                if held and isinstance(leaf, Parameter) and not self.optimizers.holds(leaf):
                    fresh.append(leaf)
            self._times[key] += 1
            if not held:
                self._alone.add(key)
        self.fresh_passes = self.fresh_passes + 1 if fresh else 0
        self.fresh = fresh

    def others(self) -> list[Any]:
        """Leaves that got gradients, more than once, and that nothing changes.

        A pass over a model that no optimizer has to do with is not training, unless no pass
        reaches anything that an optimizer holds.
        """
        found = []
        for key, seen in self._others.items():
            leaf = seen()
            if (
                leaf is not None
                and self._times[key] >= 2
                and (key not in self._alone or not self.known)
                and leaf.requires_grad
                and leaf.grad is not None
                and not self.optimizers.holds(leaf)
                and self._first[key] == some_values(leaf)
            ):
                found.append(leaf)
        return found


def some_values(tensor: Any) -> list[str]:
    """A few of a tensor's elements, as text: NaN equals NaN."""
    flat = tensor.detach().flatten()
    stride = max(1, flat.numel() // 16)
    return [str(v) for v in flat[::stride][:16].tolist()]


class Cuts(Listener):
    """Values that left the graph, and the leaves they were computed from."""

    PER_PLACE = 3

    def start(self) -> None:
        self.found: dict[tuple[str, Any], set[int]] = {}
        self._seen: dict[tuple[str, Any], int] = {}

    def on_cut(self, cut: Cut) -> None:
        key = cut.kind, cut.place
        seen = self._seen[key] = self._seen.get(key, 0) + 1
        if seen <= self.PER_PLACE:
            self.found.setdefault(key, set()).update(leaves_of(cut.tensor))

    def of(self, parameter: Any) -> tuple[str, Place] | None:
        """The first cut behind which a parameter lies."""
        for (kind, place), leaves in self.found.items():
            if id(parameter) in leaves and place is not None:
                return kind, place
        return None


class Calls(Listener):
    """Which modules were called, with and without recording."""

    def start(self) -> None:
        self.recorded: dict[int, Any] = {}
        self.unrecorded: dict[int, tuple[Any, Place | None]] = {}

    def on_call(self, call: Call) -> None:
        if call.recording:
            self.recorded[id(call.module)] = call.module
        elif id(call.module) not in self.unrecorded:
            self.unrecorded[id(call.module)] = call.module, call.place

    def of(self, parameter: Any) -> tuple[bool, bool]:
        """Whether a module that holds the parameter was called: recording, and without."""
        with_, without = False, False
        for module in self.recorded.values():
            with_ = with_ or any(p is parameter for p in module._parameters.values())
        for module, _ in self.unrecorded.values():
            without = without or any(p is parameter for p in module._parameters.values())
        return with_, without


def line_of(root: Any) -> Place | None:
    """The line that made a tensor."""
    node = getattr(root, "grad_fn", None)
    return of_node(node) if node is not None else None
