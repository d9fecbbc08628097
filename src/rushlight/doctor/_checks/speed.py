"""Time that is lost."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

from rushlight.doctor._check import Check
from rushlight.doctor._finding import of_node
from rushlight.doctor._graph import children, shape_of

if TYPE_CHECKING:
    from rushlight.doctor._events import Backward, Batch, Read, Step
    from rushlight.doctor._finding import Place


def _kind(node: Any) -> str:
    return str(node.name().partition("Backward")[0])


class ManySyncs(Check):
    """Values are read one by one: each waits for the device and costs more than the operation."""

    name = "many-syncs"
    severity = "note"
    example = "for i in range(n): right += found[i].item() == y[i].item()"
    fix = "keep tensors, and read them once per epoch: one .tolist() instead of many .item()"

    PER_STEP = 30

    def start(self) -> None:
        self.reads: dict[Any, int] = {}
        self.seconds: dict[Any, float] = {}
        self.steps = 0
        self.worst: dict[Any, int] = {}

    def on_read(self, read: Read) -> None:
        # On a CPU nothing waits: there only tensors that are taken apart are slow to read.
        if read.tensor.is_cpu:
            base = read.tensor._base
            if base is None or base.numel() < self.PER_STEP:
                return
        self.reads[read.place] = self.reads.get(read.place, 0) + 1
        self.seconds[read.place] = self.seconds.get(read.place, 0.0) + read.seconds

    def on_gap(self) -> None:
        self.reads.clear()

    def on_step(self, step: Step) -> None:
        for place, count in self.reads.items():
            if self.steps and count >= self.PER_STEP:
                self.worst[place] = self.worst.get(place, 0) + 1
                if self.worst[place] >= 3:
                    self.report(
                        f"{count} values were read on this line in one step",
                        place,
                        reads_per_step=count,
                        steps_seen=self.worst[place],
                        milliseconds_reading=round(1000 * self.seconds[place], 3),
                    )
        self.reads.clear()
        self.steps += 1


class SlowLoader(Check):
    """The program waits for data longer than it computes."""

    name = "slow-loader"
    severity = "note"
    example = "DataLoader(images_from_disk)"
    fix = "DataLoader(num_workers=4, persistent_workers=True), or prepare the data once"

    SHARE, SECONDS, BATCHES = 0.5, 0.004, 5

    def start(self) -> None:
        self.waits: dict[int, list[float]] = {}
        self.places: dict[int, Place | None] = {}
        self.between: dict[int, float] = {}  # computing, by loader
        self.last: tuple[int, float] | None = None
        self.stepped: set[int] = set()

    def on_epoch(self, loader: Any, place: Place | None) -> None:
        self.last = None  # the first batch of an epoch waits for workers to start

    def on_gap(self) -> None:
        self.last = None

    def on_batch(self, batch: Batch) -> None:
        key, now = id(batch.loader), perf_counter()
        if self.last is not None and self.last[0] == key:
            spent = now - batch.seconds - self.last[1]
            self.between[key] = self.between.get(key, 0.0) + max(0.0, spent)
            self.waits.setdefault(key, []).append(batch.seconds)
        self.places.setdefault(key, batch.place)
        self.last = key, now

    def on_step(self, step: Step) -> None:
        if self.last is not None:
            self.stepped.add(self.last[0])

    def on_finish(self) -> None:
        for key, waits in self.waits.items():
            wait = sum(waits)
            share = wait / max(wait + self.between[key], 1e-9)
            mean = wait / len(waits)
            if (
                key in self.stepped
                and len(waits) >= self.BATCHES
                and share >= self.SHARE
                and mean >= self.SECONDS
            ):
                self.report(
                    f"{share:.0%} of the time of this loop is spent waiting for batches",
                    self.places[key],
                    batches=len(waits),
                    milliseconds_per_batch=round(1000 * mean, 2),
                    milliseconds_computing=round(1000 * self.between[key] / len(waits), 2),
                )


class TinyOps(Check):
    """A tensor is taken apart and worked on element by element in Python."""

    name = "tiny-ops"
    severity = "note"
    example = "for i in range(n): total = total + (output[i] - y[i]) ** 2"
    fix = "work on the whole tensor at once; torch.func.vmap writes the loop for you"

    COUNT, ELEMENTS = 100, 8

    def start(self) -> None:
        self.times: dict[Any, int] = {}

    def on_backward(self, event: Backward) -> None:
        pieces: dict[Any, list[Any]] = {}  # by what was taken apart, and the line
        for node in event.graph.named("Select", "Index", "Unbind"):
            below = children(node)
            size = 1
            for n in shape_of(node):
                size *= n
            if below and size <= self.ELEMENTS:
                key = id(below[0]), node._where
                # Iterating makes one node, which gives all the pieces.
                many = event.graph.consumers.get(id(node), ()) if _kind(node) == "Unbind" else [0]
                pieces.setdefault(key, []).extend([node] * len(many))
        for nodes in pieces.values():
            count = len(nodes)
            if count < self.COUNT:
                continue
            place = of_node(nodes[0])
            times = self.times[place] = self.times.get(place, 0) + 1
            if times >= 2:
                self.report(
                    f"one pass takes a tensor apart into {count} pieces on this line",
                    place,
                    pieces_per_pass=count,
                    nodes_per_pass=len(event.graph.nodes),
                    passes_seen=times,
                )
