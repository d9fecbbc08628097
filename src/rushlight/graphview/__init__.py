"""The recorded graph, to print, to draw and to look at in a browser."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rushlight.graphview._collect import Saved as Saved
from rushlight.graphview._collect import Spans, Step, collect
from rushlight.graphview._summary import Summary as Summary
from rushlight.graphview._summary import summary as summary

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Graph", "graph", "summary"]

_DRAWN = 400  # boxes that a picture may have before modules are drawn as one


def graph(outputs: Any, model: Any = None, *, measure: bool = False) -> Graph:
    """The graph that a backward pass from ``outputs`` would walk.

    ``outputs`` is a tensor, several, or a function without arguments that computes them: it is run
    then, and every operation knows the module that it ran in. Parameters are called what ``model``
    (a module, or pairs of names and tensors) calls them; without it, what live modules call them.
    ``measure=True`` runs a backward pass of its own, which leaves ``.grad`` and the graph alone,
    and notes the time and the gradient's norm at every node.

    >>> import rushlight as torch
    >>> model = torch.nn.Linear(3, 2)
    >>> g = torch.graph(model(torch.ones(4, 3)).relu().sum(), model)
    >>> [step.label for step in g.steps]
    ['weight', 'bias', 'linear', 'relu', 'sum']
    >>> print(g)
    3 operations, 2 leaves; 80 B kept for backward...
    """
    spans = None
    if callable(outputs) and not isinstance(outputs, (list, tuple)) and not _is_tensor(outputs):
        with Spans(model) as spans:
            outputs = outputs()
    found = Graph(collect(outputs, model, spans.spans if spans else ()), outputs)
    if measure:
        found.measure()
    return found


def _is_tensor(value: Any) -> bool:
    from rushlight import _C

    return isinstance(value, (_C.Tensor, _C.Node))


class Graph:
    """The steps of a graph, in the order in which they ran forward; see :func:`graph`.

    >>> import rushlight as torch
    >>> x = torch.ones(3, requires_grad=True)
    >>> g = torch.graph((x * x).sum())
    >>> g.steps[1].name, g.steps[1].shape
    ('MulBackward0', (3,))
    """

    def __init__(self, steps: list[Step], outputs: Any = None) -> None:
        self.steps = steps
        self._outputs = outputs

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def nbytes(self) -> int:
        """What is kept for the backward pass: every storage once, parameters not counted."""
        return sum(step.nbytes for step in self.steps)

    def __str__(self) -> str:
        from rushlight.graphview._text import text_of

        return text_of(self.steps)

    def __repr__(self) -> str:
        return f"<Graph of {len(self.steps)} steps, {self.nbytes:,} bytes kept>"

    def measure(self) -> Graph:
        """Runs a backward pass that changes nothing; notes times and norms of gradients.

        >>> import rushlight as torch
        >>> x = torch.full((4,), 2.0, requires_grad=True)
        >>> g = torch.graph((x * x).sum()).measure()
        >>> g.steps[0].norm, x.grad
        (8.0, None)
        """
        from rushlight import _C, autograd

        given = self._outputs if isinstance(self._outputs, (list, tuple)) else [self._outputs]
        outputs = [t for t in given if isinstance(t, _C.Tensor)]
        leaves = [(step, step.node.variable) for step in self.steps if _is_leaf(step)]
        if not outputs or not leaves:
            return self
        with self.measuring():
            grads = autograd.grad(
                outputs,
                [leaf for _, leaf in leaves],
                [t.new_ones(t.shape) for t in outputs],
                retain_graph=True,
                allow_unused=True,
            )
        for (step, _), grad in zip(leaves, grads, strict=True):
            step.norm = None if grad is None else _norm(grad)
        return self

    @contextmanager
    def measuring(self) -> Iterator[Graph]:
        """Inside, a backward pass over the graph is measured.

        >>> import rushlight as torch
        >>> x = torch.ones(4, requires_grad=True)
        >>> loss = (x * x).sum()
        >>> with torch.graph(loss).measuring() as g:
        ...     loss.backward()
        >>> g.steps[1].seconds > 0, g.steps[1].norm
        (True, 2.0)
        """
        handles = []
        for step in self.steps:
            if not _is_leaf(step):
                handles.append(step.node.register_prehook(_before(step)))
                handles.append(step.node.register_hook(_after(step)))
        try:
            yield self
        finally:
            for handle in handles:
                handle.remove()
        for step in self.steps:
            if _is_leaf(step) and step.node.variable.grad is not None:
                step.norm = _norm(step.node.variable.grad)

    def timeline(self) -> list[tuple[int, int]]:
        """Bytes kept after each step: forward, then backward. Pairs of a step's number and bytes.

        >>> import rushlight as torch
        >>> x = torch.ones(16, requires_grad=True)
        >>> torch.graph(x.exp().sum()).timeline()
        [(1, 64), (2, 64), (2, 64), (1, 0)]
        """
        now, found = 0, []
        ops = [step for step in self.steps if not _is_leaf(step)]
        for step in ops:
            now += step.nbytes
            found.append((step.id, now))
        for step in reversed(ops):
            now -= step.nbytes
            found.append((step.id, now))
        return found

    def to_dot(self) -> str:
        """The graph in Graphviz's language.

        >>> import rushlight as torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> print(torch.graph(x.sum()).to_dot())
        digraph rushlight {
        ...
        }
        """
        from rushlight.graphview._text import dot_of

        return dot_of(self.steps)

    def to_svg(self, path: str | os.PathLike[str] | None = None, *, group: str = "auto") -> str:
        """A drawing of the graph: returned, and written when a path is given.

        ``group`` is "none", "line", "module" (the innermost), or "auto": modules, when there are
        many steps.

        >>> import rushlight as torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> torch.graph(x.sum()).to_svg().startswith("<svg")
        True
        """
        from rushlight.graphview._svg import svg_of

        text = svg_of(self._view(group), self.steps)
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return text

    def _view(self, group: str) -> Any:
        from rushlight.graphview import _views as views

        depth = views.depth_of(self.steps)
        if group == "auto":
            group = "none" if len(self.steps) <= _DRAWN else "module" if depth else "line"
        if group == "none":
            return views.by_step(self.steps)
        if group == "line":
            return views.by_line(self.steps)
        if group == "module":
            return views.by_module(self.steps, depth)
        raise ValueError(f'to_svg(): group is "auto", "none", "line" or "module", got {group!r}')

    def to_html(self, path: str | os.PathLike[str] | None = None, title: str = "Graph") -> str:
        """A page to look at: returned, and written when a path is given. It needs no network.

        >>> import rushlight as torch
        >>> x = torch.ones(3, requires_grad=True)
        >>> torch.graph(x.sum()).to_html().startswith("<!doctype html>")
        True
        """
        from rushlight import _pages
        from rushlight.graphview._page import page_of

        text = page_of(self, title)
        if path is not None:
            _pages.save(path, text)
        return text

    def show(self) -> str:
        """Opens the page in a browser; gives the path of the file."""
        from rushlight import _pages

        return _pages.show(self.to_html(), "graph")

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def _repr_html_(self) -> str:
        from html import escape

        return (
            '<iframe title="Graph" style="width:100%;height:640px;border:1px solid #8884;'
            f'border-radius:8px" srcdoc="{escape(self.to_html())}"></iframe>'
        )


def _is_leaf(step: Step) -> bool:
    return step.kind in ("parameter", "leaf")


def _norm(grad: Any) -> float:
    if grad.is_sparse:
        grad = grad.to_dense()
    return float(grad.detach().norm())


def _before(step: Step) -> Any:
    def note(grads: Any) -> None:
        present = [_norm(g) for g in grads if g is not None]
        step.norm = sum(n * n for n in present) ** 0.5 if present else None
        step.seconds = -time.perf_counter()

    return note


def _after(step: Step) -> Any:
    def note(grad_inputs: Any, grad_outputs: Any) -> None:
        if step.seconds is not None and step.seconds < 0:
            step.seconds += time.perf_counter()

    return note
