"""Graphs as drawings; needs the package ``pydot``."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, _format_arg, map_aggregate
from rushlight.fx.passes.shape_prop import TensorMetadata

__all__ = ["FxGraphDrawer"]

_COLORS = {
    "placeholder": "AliceBlue",
    "get_attr": "LightGrey",
    "call_module": "LemonChiffon1",
    "call_function": "DarkSeaGreen1",
    "call_method": "LightSkyBlue",
    "output": "PowderBlue",
}


def _escaped(text: str) -> str:
    return "".join("\\" + c if c in "{}|<>" else c for c in text)


class FxGraphDrawer:
    """Draws the graph of a module, and those of graph modules that it calls.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.graph_drawer import FxGraphDrawer
    >>> traced = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> FxGraphDrawer(traced, "sum").get_dot_graph().write_svg("sum.svg")  # doctest: +SKIP
    """

    def __init__(
        self,
        graph_module: GraphModule,
        name: str,
        ignore_getattr: bool = False,
        ignore_parameters_and_buffers: bool = False,
        skip_node_names_in_args: bool = True,
        parse_stack_trace: bool = False,
        dot_graph_shape: str | None = None,
        normalize_args: bool = False,
    ) -> None:
        try:
            import pydot  # type: ignore[import-not-found]
        except ImportError as error:
            raise RuntimeError(
                "FXGraphDrawer requires the pydot package to be installed. Please install pydot "
                "through your favorite Python package manager."
            ) from error
        self._pydot: Any = pydot
        self._name = name
        self._shape = dot_graph_shape or "record"
        self._hidden = "get_attr" if ignore_getattr else ""
        self._without_parameters = ignore_parameters_and_buffers
        self._skip_nodes = skip_node_names_in_args
        self._dot_graphs = {name: self._to_dot(graph_module, name)}
        for path, module in graph_module.named_modules():
            if path and isinstance(module, GraphModule):
                self._dot_graphs[f"{name}_{path}"] = self._to_dot(module, f"{name}_{path}")

    def get_dot_graph(self, submod_name: str | None = None) -> Any:
        """The drawing of the module, or of a graph module in it by its path."""
        suffix = "" if submod_name is None else f"_{submod_name}"
        return self._dot_graphs[self._name + suffix]

    def get_main_dot_graph(self) -> Any:
        """The drawing of the module."""
        return self.get_dot_graph()

    def get_submod_dot_graph(self, submod_name: str) -> Any:
        """The drawing of a graph module in it, by its path."""
        return self.get_dot_graph(submod_name)

    def get_all_dot_graphs(self) -> dict[str, Any]:
        """All drawings by their names."""
        return self._dot_graphs

    def _label(self, module: GraphModule, node: Node) -> str:
        lines = [f"name=%{node.name}", f"op_code={node.op}"]
        if node.op == "call_module":
            lines.append(rushlight.typename(module.get_submodule(node.target)))
        else:
            lines.append(f"target={node._pretty_print_target(node.target)}")
            shown = [_format_arg(a, 8) for a in node.args]
            shown += [f"{k}={_format_arg(v, 8)}" for k, v in node.kwargs.items()]
            lines += [text for text in shown if not (self._skip_nodes and "%" in text)]
        lines.append(f"num_users={len(node.users)}")
        metas: list[TensorMetadata] = []
        known = node.meta.get("tensor_meta")
        if isinstance(known, TensorMetadata):
            metas.append(known)
        else:
            map_aggregate(known, lambda m: metas.append(m) if m is not None else None)
        lines += [f"{m.dtype} {list(m.shape)}" for m in metas if isinstance(m, TensorMetadata)]
        return "{" + "|".join(map(_escaped, lines)) + "}"

    def _to_dot(self, module: GraphModule, name: str) -> Any:
        drawing = self._pydot.Dot(name, rankdir="TB")
        style = {"shape": self._shape, "style": '"filled,rounded"', "fontcolor": "#000000"}
        nodes = [node for node in module.graph.nodes if node.op != self._hidden]
        for node in nodes:
            label = self._label(module, node)
            box = self._pydot.Node(node.name, label=label, fillcolor=_COLORS[node.op], **style)
            drawing.add_node(box)
            if node.op == "call_module" and not self._without_parameters:
                self._add_members(drawing, module, node, style)
        for node in nodes:
            for user in node.users:
                if user in nodes:
                    drawing.add_edge(self._pydot.Edge(node.name, user.name))
        return drawing

    def _add_members(
        self, drawing: Any, module: GraphModule, node: Node, style: dict[str, str]
    ) -> None:
        """The parameters and buffers of a module that is called."""
        called = module.get_submodule(node.target)
        for name, value in [*called.named_parameters(), *called.named_buffers()]:
            label = "{" + f"{node.name}.{name}|{value.dtype} {list(value.shape)}" + "}"
            key = f"{node.name}.{name}"
            drawing.add_node(self._pydot.Node(key, label=label, fillcolor="Salmon", **style))
            drawing.add_edge(self._pydot.Edge(key, node.name))
