"""Graphs that live longer than they should, and writes that break them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING, Any

from rushlight import _C
from rushlight.doctor._check import Check, Listener
from rushlight.doctor._finding import Place, size_text
from rushlight.doctor._trackers import Optimizers

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward, Call, Step


class Growth(Listener):
    """Graphs that pile up from step to step, by the line that made them."""

    PATIENCE = 5  # passes after which there are more nodes than before
    CALLS = 8  # of models, in a row without a pass

    def start(self) -> None:
        self.marks: list[int] = []  # the number of the last node of each pass
        self.before = 0
        self.streak = 0
        self.calls: list[int] = []  # the same of models' calls since the last pass
        self.unused: dict[Any, dict[str, Any]] = {}  # what those left, unless a pass needs it
        self.found: dict[Any, dict[str, Any]] = {}

    def on_call(self, call: Call) -> None:
        """An evaluation that records has no passes: its calls are counted instead."""
        results = call.output if isinstance(call.output, (list, tuple)) else [call.output]
        node = next((r.grad_fn for r in results if isinstance(r, _C.Tensor)), None)
        if call.top and not call.by_library and node is not None:
            self.calls.append(node._sequence_nr())
            if len(self.calls) == self.CALLS and _C._live_nodes() > self.before + self.CALLS:
                self.unused = self._look(self.calls)

    def on_step(self, step: Step) -> None:
        self.calls.clear()

    def on_gap(self) -> None:
        self.calls.clear()
        self.unused.clear()

    def on_finish(self) -> None:
        self._settle(set())

    def _settle(self, needed: set[int]) -> None:
        """A pass goes over these nodes: what it does not need was kept for nothing."""
        for where, facts in self.unused.items():
            if not needed & facts["numbers"]:
                self.found.setdefault(where, facts)
        self.unused = {}

    def on_backward(self, event: Backward) -> None:
        self.calls.clear()
        if self.unused:
            self._settle(event.graph.numbers)
        node = getattr(event.roots[0], "grad_fn", None)
        if node is not None:
            self.marks.append(node._sequence_nr())
            del self.marks[:-4096]

    def on_backward_end(self, event: Backward, error: BaseException | None) -> None:
        if not event.accumulates:
            return
        now = _C._live_nodes()
        if now > self.before:
            self.streak += 1
        elif self.streak > 0:
            self.streak -= 1  # the garbage collector may have freed something else
        self.before = now
        if self.streak >= self.PATIENCE:
            self.streak = -12  # looking is not free
            self.found.update(self._look(self.marks))

    def _look(self, marks: list[int]) -> dict[Any, dict[str, Any]]:
        """The lines whose results of at least three of the marked steps are alive."""
        import gc

        from rushlight.autograd._growth import _holders, _repeats

        gc.collect()  # graphs on cycles wait for it, and nobody holds them
        holders = _holders()
        found: dict[Any, dict[str, Any]] = {}
        by_line: dict[Any, list[tuple[Any, int, int]]] = {}
        for roots, nodes, size in _C._live_graphs():
            for root in roots[:1]:
                by_line.setdefault((root._where, root.name()), []).append((root, nodes, size))
        for (where, _), graphs in by_line.items():
            numbers = [number for graph in graphs for number in _repeats(graph[0])]
            kept = len({bisect_left(marks, number) for number in numbers})
            if kept < 3 or where is None:
                continue
            names = [name for graph in graphs for name in holders.get(graph[0], ())]
            found[where] = {
                "kept": kept,
                "numbers": set(numbers),
                "sum": len(numbers) > len(graphs),
                "bytes": sum(graph[2] for graph in graphs),
                "nodes": sum(graph[1] for graph in graphs),
                "holder": _most_common(names),
            }
        return found


def _most_common(names: list[str]) -> str:
    """The variable that holds most of the graphs: ``history`` for ``history[0]`` and so on."""
    counts = Counter(name.partition("[")[0] for name in names)
    return counts.most_common(1)[0][0] if counts else ""


def _kept_at(holder: str, made: Place) -> Place | None:
    """The line that puts something into a variable, in the file of the line that made it."""
    import linecache

    name = re.escape(holder.rpartition(".")[2])  # of an attribute: self.history is it, too
    item = r"(\[[^\]]*\])*"
    puts = r"\.(append|extend|add|insert|setdefault)\b|\[[^\]]*\]\s*=|\s*\+="
    put = re.compile(rf"\b{name}\b{item}({puts})")
    for number, line in enumerate(linecache.getlines(made.file), 1):
        if holder and put.search(line):
            return Place(made.file, number, made.function)
    return None


class GraphKeptAlive(Check):
    """A list or an attribute holds results together with the graphs of all steps."""

    name = "graph-kept-alive"
    severity = "warning"
    example = "history.append(loss)"
    fix = "keep loss.item() or output.detach() instead of the tensor with its graph"

    def start(self) -> None:
        self.growth = self.uses(Growth)

    def on_finish(self) -> None:
        for where, facts in self.growth.found.items():
            if not facts["sum"]:
                made = Place(*where)
                kept = _kept_at(facts["holder"], made)
                held = f" (in `{facts['holder']}`)" if facts["holder"] else ""
                self.report(
                    f"tensors are kept{held}, and with them the graph of every step",
                    kept or made,
                    made_at=str(made),
                    **_growth_evidence(facts),
                )


class LossAccumulatedWithGraph(Check):
    """A running sum of losses or metrics keeps the graph of every step alive."""

    name = "loss-accumulated-with-graph"
    severity = "warning"
    example = "total += loss"
    fix = "add loss.item() or loss.detach(): total += loss.item()"

    def start(self) -> None:
        self.growth = self.uses(Growth)

    def on_finish(self) -> None:
        for where, facts in self.growth.found.items():
            if facts["sum"]:
                held = f" `{facts['holder']}`" if facts["holder"] else ""
                self.report(
                    f"the running sum{held} is recorded: it holds the graph of every step it added",
                    Place(*where),
                    **_growth_evidence(facts),
                )


def _growth_evidence(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "steps_kept": facts["kept"],
        "nodes_per_step": round(facts["nodes"] / facts["kept"], 1),
        "saved_per_step": size_text(facts["bytes"] / facts["kept"]),
    }


class RetainGraphInLoop(Check):
    """backward(retain_graph=True) in a loop, although no second pass uses the graph."""

    name = "retain-graph-in-loop"
    severity = "warning"
    example = "loss.backward(retain_graph=True)"
    fix = (
        "leave retain_graph=True out; where it hides an error about a second pass, detach() the "
        "state that is carried from step to step"
    )

    def start(self) -> None:
        self.times: dict[Any, int] = {}
        self.used: set[Any] = set()
        self.last: tuple[Any, set[int]] | None = None

    def on_backward(self, event: Backward) -> None:
        if self.last is not None and self.last[1] & event.graph.numbers:
            self.used.add(self.last[0])
        if event.retain and not event.create and event.accumulates:
            self.times[event.place] = self.times.get(event.place, 0) + 1
            self.last = event.place, event.graph.numbers

    def on_gap(self) -> None:
        self.last = None

    def on_finish(self) -> None:
        for place, times in self.times.items():
            if times >= 3 and place not in self.used:
                self.report(
                    "the graph is kept after every pass, and no later pass goes over it",
                    place,
                    passes_seen=times,
                    second_passes=0,
                )


class GraphCarriedOver(Check):
    """A state that is kept from step to step brings the graphs of all earlier steps along."""

    name = "graph-carried-over"
    severity = "serious"
    example = "output, self.state = self.rnn(x, self.state)"
    fix = "detach() the state where a new step begins: state = state.detach()"

    STEPS = 4

    def start(self) -> None:
        self.optimizers = self.uses(Optimizers)
        self.last: tuple[int, set[int]] | None = None  # the steps so far, and the pass's nodes
        self.sizes: list[int] = []

    def on_gap(self) -> None:
        self.last = None
        self.sizes.clear()

    def on_backward(self, event: Backward) -> None:
        if not event.accumulates or not event.retain:
            return
        steps, numbers = self.observer.steps, event.graph.numbers
        if self.last is not None and steps > self.last[0]:
            if self.last[1] & numbers and len(numbers) > len(self.last[1]):
                self.sizes.append(len(numbers))
            else:
                self.sizes.clear()
        self.last = steps, numbers
        if len(self.sizes) >= self.STEPS:
            self.report(
                "every pass goes over the graphs of all earlier steps as well: steps take longer "
                "and longer, and gradients mix old weights with new ones",
                event.place,
                nodes_in_the_last_passes=", ".join(str(n) for n in self.sizes[-4:]),
                steps_seen=len(self.sizes),
            )

    def on_backward_end(self, event: Backward, error: BaseException | None) -> None:
        text = str(error) if error is not None else ""
        if "backward through the graph a second time" not in text or not self.optimizers.steps:
            return
        from rushlight.doctor._checks.reach import cut_place

        made = next((line for line in text.splitlines() if "used again was made at" in line), "")
        self.report(
            "backward() goes into the graph of an earlier step, which is freed already",
            cut_place(made, last=False) or event.place,
            used_again=made.strip() or "unknown",
            backward=str(event.place),
        )


class InPlaceBreaksBackward(Check):
    """A tensor that backward needs was overwritten in place."""

    name = "in-place-breaks-backward"
    severity = "serious"
    example = "y = x.exp(); y += 1"
    fix = (
        "use the operation that makes a new tensor (x = x + 1 instead of x += 1), or write to a "
        "clone()"
    )

    def on_backward_end(self, event: Backward, error: BaseException | None) -> None:
        text = str(error) if error is not None else ""
        if "modified by an inplace operation" not in text:
            return
        from rushlight.doctor._checks.reach import cut_place

        lines = {key: line for line in text.splitlines() for key in _KEYS if key in line}
        written = lines.get("overwritten by", "")
        self.report(
            "backward() needs a value that was overwritten in place",
            cut_place(written, last=False) or event.place,
            overwritten=written.strip() or "unknown",
            saved=lines.get("saved by", "unknown").strip(),
            tensor=text.splitlines()[0].partition(": ")[2],
            backward=str(event.place),
        )


_KEYS = "overwritten by", "saved by"


class InputRequiresGrad(Check):
    """An input of the model requires grad, and nobody uses its gradient."""

    name = "input-requires-grad"
    severity = "note"
    example = "model(x.requires_grad_())"
    fix = "leave out requires_grad=True and requires_grad_() on data"

    def start(self) -> None:
        self.optimizers = self.uses(Optimizers)
        self.inputs: dict[int, tuple[Any, Place | None]] = {}
        self.times: dict[Any, int] = {}
        self.elements = 0
        self.wanted = False

    def on_call(self, call: Call) -> None:
        if call.top and call.recording and not call.by_library:
            for value in call.args:
                if isinstance(value, _C.Tensor) and value.is_leaf and value.requires_grad:
                    self.inputs[id(value)] = value, call.place

    def on_backward(self, event: Backward) -> None:
        if not event.accumulates or event.inputs is not None or event.create:
            self.wanted = True
        elif self.inputs:
            for leaf in event.graph.leaves:
                if id(leaf) in self.inputs and not self._needed(leaf):
                    place = self.inputs[id(leaf)][1]
                    self.times[place] = self.times.get(place, 0) + 1
                    self.elements = leaf.numel()
            if event.place is not None and _reads_grad(event.place):
                self.wanted = True

    def on_backward_end(self, event: Backward, error: BaseException | None) -> None:
        self.inputs.clear()

    def _needed(self, leaf: Any) -> bool:
        from rushlight.nn import Parameter

        held = isinstance(leaf, Parameter) or self.optimizers.holds(leaf)
        return held or bool(leaf._backward_hooks) or bool(leaf._post_accumulate_grad_hooks)

    def on_finish(self) -> None:
        for place, times in self.times.items():
            if times >= 3 and not self.wanted and place and not _reads_grad(place):
                self.report(
                    "backward() computes the gradient of the model's input, which nothing reads",
                    place,
                    passes_seen=times,
                    elements_per_pass=self.elements,
                )


def _reads_grad(place: Place) -> bool:
    """Whether the file of a line mentions ``.grad`` at all."""
    import linecache
    import re

    return any(re.search(r"\.grad\b(?!\()", line) for line in linecache.getlines(place.file))
