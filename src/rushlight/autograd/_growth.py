"""Graphs that stay alive: which there are, who holds them, and a warning when they pile up."""

from __future__ import annotations

import gc
import sys
import warnings
from bisect import bisect_left
from collections import namedtuple

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_warned: set[Any] = set()


class LiveGraph(namedtuple("LiveGraph", "nodes bytes root line holders")):
    """A recorded graph that is still alive.

    ``nodes`` and ``bytes`` say how large it is (what is kept for backward alone), ``root`` is the
    name of the node it ends in, ``line`` is (file, line, function) of the operation that made it,
    and ``holders`` names the variables that hold it, as far as they are found.
    """

    __slots__ = ()

    def __str__(self) -> str:
        at = f"{self.line[0]}:{self.line[1]}" if self.line else "an unknown line"
        held = f", held by {', '.join(self.holders)}" if self.holders else ""
        return f"{self.root} at {at}: {self.nodes} nodes, {self.bytes / 2**20:.1f} MiB saved{held}"


def _variables() -> Iterator[tuple[str, Any]]:
    """Names and values of the variables of running functions, and of their modules."""
    spaces: dict[int, Any] = {}
    for frame in sys._current_frames().values():
        at: Any = frame
        while at is not None:
            if not at.f_code.co_filename.startswith(_package):
                spaces[id(at.f_locals)] = at.f_locals
                spaces[id(at.f_globals)] = at.f_globals
            at = at.f_back
    for space in spaces.values():
        yield from list(space.items())


_package = __file__.rsplit("autograd", 1)[0]


def _holders() -> dict[Any, list[str]]:
    """The names of variables by the node their tensor ends in, looking into lists and dicts."""
    found: dict[Any, list[str]] = {}

    def note(name: str, value: Any) -> None:
        if issubclass(type(value), _C.Tensor) and value.grad_fn is not None:
            names = found.setdefault(value.grad_fn, [])
            if name not in names:
                names.append(name)

    seen: dict[int, Any] = {}
    left = _ITEMS

    def look(name: str, value: Any, depth: int) -> None:
        kind = type(value)  # isinstance would wake up proxies
        if issubclass(kind, _C.Tensor):
            note(name, value)
            return
        nonlocal left
        if depth > _DEPTH or id(value) in seen or left < 0:
            return
        if issubclass(kind, (list, tuple)):
            if value and type(value[0]) in (int, float, str, bytes):
                return  # data, and much of it
            inner = [(f"{name}[{i}]", item) for i, item in enumerate(value[:1000])]
        elif issubclass(kind, dict) and not name.startswith("__"):
            inner = [(f"{name}[{key!r}]", item) for key, item in list(value.items())[:1000]]
        elif hasattr(kind, "__dict__") and type(kind) is type and _of_program(kind):
            attributes = getattr(value, "__dict__", None)
            inner = [(f"{name}.{key}", v) for key, v in list((attributes or {}).items())[:100]]
        else:
            return
        seen[id(value)] = value
        left -= len(inner)
        for path, item in inner:
            look(path, item, depth + 1)

    for name, value in _variables():
        look(name, value, 0)
    return found


_DEPTH, _ITEMS = 3, 50_000  # how far to look, and at how many things


def _of_program(kind: type) -> bool:
    """Whether a class is one of the program's or its libraries', not ours or Python's."""
    top = kind.__module__.partition(".")[0]
    return top not in ("rushlight", "builtins") and top not in sys.stdlib_module_names


def live() -> list[LiveGraph]:
    """See autograd.graph.live."""
    holders = _holders()
    graphs = []
    for roots, nodes, size in _C._live_graphs():
        if not roots:
            continue
        root = max(roots, key=lambda node: node._sequence_nr())
        names = tuple(name for node in roots for name in holders.get(node, ()))
        graphs.append(LiveGraph(nodes, size, root.name(), root._where, names))
    return sorted(graphs, key=lambda graph: (-graph.bytes, -graph.nodes))


def _repeats(root: Any) -> Iterator[int]:
    """The numbers of the nodes in a row from ``root`` on that one operation on one line made."""
    node = root
    for _ in range(1000):
        yield node._sequence_nr()
        same = [
            step
            for step, _ in node.next_functions
            if step is not None and step._where == root._where and step.name() == root.name()
        ]
        if not same:
            return
        node = same[0]


def warn_of_growth(marks: list[int]) -> None:
    """Warns once of a line whose results keep the graphs of several iterations alive.

    ``marks`` are the numbers of nodes made until each of the latest backward passes: they tell in
    which iteration a node was made.
    """
    gc.collect()  # graphs on cycles wait for it, and nobody holds them
    holders = _holders()
    by_line: dict[Any, list[tuple[Any, int, int]]] = {}
    for roots, nodes, size in _C._live_graphs():
        for root in roots[:1]:
            by_line.setdefault((root._where, root.name()), []).append((root, nodes, size))
    for (where, _), graphs in by_line.items():
        numbers = (number for graph in graphs for number in _repeats(graph[0]))
        kept = len({bisect_left(marks, number) for number in numbers})
        if kept < 3 or where is None or where in _warned:
            continue
        _warned.add(where)
        file, line, function = where
        names = [name for graph in graphs for name in holders.get(graph[0], ())]
        holder = f" `{names[0]}`" if names else ""
        size = sum(graph[2] for graph in graphs)
        nodes = sum(graph[1] for graph in graphs)
        warnings.warn_explicit(
            f"the result{holder} of this line keeps the graphs of {kept} or more iterations alive "
            f"({nodes} nodes, {size / 2**20:.1f} MiB saved) and grows with each backward(). If "
            "only its value is wanted, add loss.item() or loss.detach() instead of loss.",
            UserWarning,
            file,
            line,
            module=function,
        )
