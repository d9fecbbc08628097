"""What happened: the arguments of the listeners' methods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rushlight.doctor._finding import Place
from rushlight.doctor._graph import Graph


class Backward:
    """A backward pass, ``autograd.grad`` included (then ``accumulates`` is False)."""

    def __init__(
        self,
        roots: tuple[Any, ...],
        retain: bool,
        create: bool,
        inputs: Any,
        accumulates: bool,
        place: Place | None,
    ) -> None:
        self.roots, self.retain, self.create = roots, retain, create
        self.inputs, self.accumulates = inputs, accumulates
        self.place = place

    @cached_property
    def graph(self) -> Graph:
        """Read when first asked for; before the pass, since that frees what nodes saved."""
        nodes = [
            getattr(root, "grad_fn", None) or getattr(root, "node", None) for root in self.roots
        ]
        return Graph([node for node in nodes if node is not None])


@dataclass
class Step:
    """A step of an optimizer; ``number`` counts those of all optimizers from 0."""

    optimizer: Any
    place: Place | None
    number: int

    @property
    def parameters(self) -> list[Any]:
        return [p for group in self.optimizer.param_groups for p in group["params"]]


@dataclass
class Call:
    """A call of a module that ended. ``top``: no module called it."""

    module: Any
    args: tuple[Any, ...]
    output: Any
    top: bool
    recording: bool
    place: Place | None
    by_library: bool  # called by a line of the library itself


@dataclass
class Cut:
    """A value that left the graph: ``kind`` is the name of what was called."""

    kind: str
    tensor: Any
    place: Place | None


@dataclass
class Read:
    """A tensor's value that became a Python number."""

    tensor: Any
    place: Place | None
    seconds: float


@dataclass
class Batch:
    """A batch that a DataLoader gave, and how long the program waited for it."""

    loader: Any
    data: Any
    seconds: float
    place: Place | None
