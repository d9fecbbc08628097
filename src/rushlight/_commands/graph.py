"""draw the graph of a program's backward pass

Runs a program until a backward pass, measures that pass, and writes a page that shows its graph:
operations, parameters, source lines, modules, what is kept for backward, times and gradients.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from rushlight.cli import positive, written

PAGES, DRAWINGS, DOTS, TEXTS = (".html", ".htm"), (".svg",), (".dot", ".gv"), (".txt",)
PROGRAM = True
EXAMPLES = (
    ("rushlight graph train.py", "writes graph.html"),
    ("rushlight graph train.py -o net.html", "another file; the program does not see -o"),
    ("rushlight graph -o second.html --step 2 train.py", "of the second backward pass"),
    ("rushlight graph -o graph.svg train.py", "a drawing; .dot for Graphviz, .txt for text"),
)


def _output(path: str) -> str:
    """A path whose ending says what to write."""
    if os.path.splitext(path)[1].lower() not in PAGES + DRAWINGS + DOTS + TEXTS:
        raise argparse.ArgumentTypeError(
            f"{path!r} should end in .html (a page), .svg (a drawing), .dot or .txt"
        )
    return written(path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", type=_output, metavar="FILE",
        help="a page (.html), a drawing (.svg), Graphviz (.dot) or text (.txt); graph.html",
    )  # fmt: skip
    parser.add_argument(
        "--step", type=positive(int), default=1, help="which backward pass to show (1)"
    )
    parser.add_argument(
        "--continue", dest="goes_on", action="store_true",
        help="let the program run on to its end after that pass",
    )  # fmt: skip


class _Done(SystemExit):
    """Ends the program when the graph has been seen."""


class Catcher:
    """Stands in for ``backward``: notes the graph of one pass and measures it."""

    def __init__(self, step: int, goes_on: bool) -> None:
        from rushlight import _C
        from rushlight.graphview._collect import Spans

        self.step, self.goes_on, self.seen = step, goes_on, 0
        self.graph: Any = None
        self._spans = Spans()
        self._tensor = _C.Tensor
        self._original = _C.Tensor.backward

    def __enter__(self) -> Catcher:
        from rushlight import autograd

        catcher, original, passed = self, self._original, autograd.backward
        self._passed = passed

        def backward(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            return catcher.run(tensor, lambda: original(tensor, *args, **kwargs))

        def all_backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            return catcher.run(tensors, lambda: passed(tensors, *args, **kwargs))

        self._tensor.backward = backward  # type: ignore[method-assign,assignment]
        autograd.backward = all_backward
        self._spans.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        from rushlight import autograd

        self._tensor.backward = self._original  # type: ignore[method-assign]
        autograd.backward = self._passed
        self._spans.__exit__()

    def run(self, outputs: Any, run: Any) -> Any:
        """The pass itself; the one that was asked for is measured."""
        if self.graph is not None:
            return run()
        self.seen += 1
        if self.seen < self.step:
            self._spans.spans.clear()
            return run()
        from rushlight.graphview import Graph
        from rushlight.graphview._collect import collect

        self.graph = Graph(collect(outputs, spans=self._spans.spans), outputs)
        with self.graph.measuring():
            result = run()
        if not self.goes_on:
            raise _Done
        return result


def run(arguments: argparse.Namespace) -> int:
    from rushlight import _run

    program = arguments.program
    if arguments.output is None and len(program) > 2 and program[-2] == "-o":
        # Where nothing else is asked for, what stands at the end is meant for us.
        try:
            arguments.output = _output(program[-1])
            del program[-2:]
        except argparse.ArgumentTypeError:
            pass  # the program's own
    path = arguments.output or os.path.abspath("graph.html")
    with Catcher(arguments.step, arguments.goes_on) as caught:
        status = _run.finished(arguments.program)
    if caught.graph is None:
        if status == 0:
            print(
                f"rushlight graph: the program made {caught.seen} backward passes, not "
                f"{arguments.step}: there is no graph to show",
                file=sys.stderr,
            )
        return status or 1
    write(caught.graph, path, _run.program_name(arguments.program))
    print(f"{caught.graph!r}\nwritten to {path}", file=sys.stderr)
    return status


def write(graph: Any, path: str, program: str) -> None:
    """Writes the graph in the form that the path's ending asks for."""
    ending = os.path.splitext(path)[1].lower()
    if ending in PAGES:
        graph.to_html(path, title=f"Graph of {program}")
    elif ending in DRAWINGS:
        graph.to_svg(path)
    else:
        text = graph.to_dot() if ending in DOTS else str(graph)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "\n")
