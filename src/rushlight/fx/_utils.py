"""Small helpers."""

from __future__ import annotations

from typing import Any

from rushlight.fx.graph_module import GraphModule


def lazy_format_graph_code(
    name: str, gm: GraphModule, maybe_id: int | None = None, **kwargs: Any
) -> str:
    """The code of a graph module under a heading."""
    number = "" if maybe_id is None else f" {maybe_id}"
    code = gm.print_readable(
        print_output=False,
        **{k: kwargs[k] for k in ("include_stride", "include_device", "colored") if k in kwargs},
    )
    return f"TRACED GRAPH{number}\n ===== {name} =====\n {code}\n"


def first_call_function_nn_module_stack(graph: Any) -> dict[str, Any] | None:
    """The stack of modules that the first function call of a graph was made in."""
    for node in graph.nodes:
        if node.op == "call_function" and "nn_module_stack" in node.meta:
            return dict(node.meta["nn_module_stack"])
    return None


def get_node_context(node: Any, num_nodes: int = 2) -> str:
    """A node and those before it, as text, the last one first."""
    found: list[str] = []
    while node.op != "root" and len(found) < num_nodes:
        found.append(str(node.format_node()))
        node = node.prev
    return "\n".join(found)
