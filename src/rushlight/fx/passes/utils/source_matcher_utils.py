"""Nodes grouped by the function or module that they come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.fx.graph import Graph
from rushlight.fx.node import Node

__all__ = ["SourcePartition", "check_subgraphs_connected", "get_source_partitions"]


@dataclass
class SourcePartition:
    """Nodes that come from one source, and what they take and give.

    >>> from rushlight.fx.passes.utils.source_matcher_utils import SourcePartition
    >>> SourcePartition([], None).params
    []
    """

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def _source(node: Node, wanted: list[Any]) -> tuple[Any, str] | None:
    """The wanted source that a node comes from, and the name of that call."""
    stack = node.meta.get("source_fn_stack")
    if stack is not None:
        name, source = stack[-1]
        return (source, name) if source in wanted else None
    modules = node.meta.get("nn_module_stack")
    if node.op != "call_function" or not modules:
        return None
    path, kind = list(modules.values())[-1]
    for source in wanted:
        matches = isinstance(source, type) and isinstance(kind, type) and issubclass(kind, source)
        if matches or kind == source:
            return source, path
    return None


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    inside = set(nodes)
    inputs: dict[Node, None] = {}
    for node in nodes:
        for arg in node.args:
            if isinstance(arg, Node) and arg not in inside and arg.op != "get_attr":
                inputs.setdefault(arg)
    params = [node for node in nodes if node.op == "get_attr"]
    computing = [node for node in nodes if node.op != "get_attr"]
    outputs = [n for n in computing if any(user not in inside for user in n.users)]
    return SourcePartition(nodes, source, list(inputs), outputs, params)


def get_source_partitions(
    graph: Graph,
    wanted_sources: list[Any],
    filter_fn: Callable[[Node], bool] | None = None,
) -> dict[Any, list[SourcePartition]]:
    """The nodes that come from each of some functions or modules, a group for each call.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.utils.source_matcher_utils import get_source_partitions
    >>> class Inlined(torch.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return False
    >>> graph = Inlined().trace(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()))
    >>> get_source_partitions(graph, [torch.nn.ReLU])[torch.nn.ReLU][0].nodes
    [relu]
    """
    found: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        known = _source(node, wanted_sources)
        if known is not None:
            found.setdefault(known[0], {}).setdefault(known[1], []).append(node)
    return {
        source: [
            _partition(nodes, source)
            for nodes in calls.values()
            if filter_fn is None or all(map(filter_fn, nodes))
        ]
        for source, calls in found.items()
    }


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second uses a value of the first.

    >>> from rushlight.fx.passes.utils.source_matcher_utils import (
    ...     SourcePartition, check_subgraphs_connected,
    ... )
    >>> check_subgraphs_connected(SourcePartition([], None), SourcePartition([], None))
    False
    """
    return any(user in subgraph2.nodes for node in subgraph1.nodes for user in node.users)
