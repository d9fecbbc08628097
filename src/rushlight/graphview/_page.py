"""The page of a graph: its data, and the template it goes into."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import _pages
from rushlight.graphview import _views as views
from rushlight.graphview._text import head_of, saved_text, shape_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight.graphview import Graph
    from rushlight.graphview._collect import Step

_DEEPEST = 5  # depths of modules that can be chosen


class _Table:
    """Texts by number: most of them occur often."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number


def _steps(steps: Sequence[Step], text: _Table) -> dict[str, Any]:
    return {
        "label": [text(s.label) for s in steps],
        "name": [text(s.name) for s in steps],
        "kind": [text(s.kind) for s in steps],
        "shape": [text(shape_text(s.shape)) for s in steps],
        "dtype": [text(s.dtype) for s in steps],
        "line": [text(s.line) for s in steps],
        "file": [text(f"{s.place[0]}:{s.place[1]}" if s.place else "") for s in steps],
        "function": [text(s.place[2] if s.place else "") for s in steps],
        "source": [text(s.source) for s in steps],
        "module": [text(s.module) for s in steps],
        "freed": [int(s.freed) for s in steps],
        "bytes": [s.nbytes for s in steps],
        "time": [s.seconds for s in steps],
        "norm": [s.norm for s in steps],
        "saved": [[[text(saved_text(x)), x.nbytes] for x in s.saved] for s in steps],
        "inputs": [s.inputs for s in steps],
    }


def _view(view: views.View, title: str, text: _Table) -> dict[str, Any]:
    drawn = view.layout
    routes = []
    for points in drawn.routes:
        flat: list[float] = []
        for x, y in points:
            flat += [round(x, 1), round(y, 1)]
        routes.append(flat)
    return {
        "name": view.name,
        "title": title,
        "x": [round(x, 1) for x in drawn.x],
        "y": [round(y, 1) for y in drawn.y],
        "w": [round(w, 1) for w in view.widths],
        "size": [round(drawn.width), round(drawn.height)],
        "label": [text(item.title) for item in view.items],
        "detail": [text(item.detail) for item in view.items],
        "kind": [text(item.kind) for item in view.items],
        "members": [item.members for item in view.items],
        "edges": view.edges,
        "routes": routes,
    }


def data_of(graph: Graph) -> dict[str, Any]:
    """What the page's script draws."""
    steps, text = graph.steps, _Table()
    drawn = [
        _view(views.by_step(steps), "Operations", text),
        _view(views.by_line(steps), "Source lines", text),
    ]
    depth = views.depth_of(steps)
    for level in range(1, min(depth, _DEEPEST) + 1):
        title = "Modules" if depth == 1 else f"Modules, level {level}"
        drawn.append(_view(views.by_module(steps, level), title, text))
    return {
        "head": head_of(steps),
        "steps": _steps(steps, text),
        "views": drawn,
        "boxHeight": views.HEIGHT,
        "timeline": graph.timeline() if graph.nbytes else [],
        "texts": text.texts,
    }


def page_of(graph: Graph, title: str) -> str:
    """The page as text."""
    return _pages.page(
        title,
        body=_pages.read("graph.html"),
        facts=head_of(graph.steps),
        data=data_of(graph),
        styles=["graph.css"],
        scripts=["graph_data.js", "graph_stage.js", "graph.js"],
    )
