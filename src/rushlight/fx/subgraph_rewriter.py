"""Replacing parts of a graph that look like a pattern."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight import nn
from rushlight.fx._symbolic_trace import symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node

if TYPE_CHECKING:
    from rushlight.fx.passes.utils.matcher_utils import InternalMatch

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

_Filter = Callable[["InternalMatch", Graph, Graph], bool]
_Callback = Callable[["InternalMatch", Graph, Graph], Graph]


class Match(NamedTuple):
    """A place that a pattern was found at: the node it ended with, and which nodes were which.

    >>> from rushlight.fx.subgraph_rewriter import Match
    >>> Match._fields
    ('anchor', 'nodes_map')
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A :class:`Match`, and the nodes that were put there.

    >>> from rushlight.fx.subgraph_rewriter import ReplacedPatterns
    >>> ReplacedPatterns(None, {}, []).replacements
    []
    """

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def _attribute(module: nn.Module, path: str) -> Any:
    holder, _, name = path.rpartition(".")
    try:
        return getattr(module.get_submodule(holder), name, None)
    except AttributeError:
        return None


def _replace_attributes(gm: GraphModule, replacement: nn.Module) -> None:
    """Hands what the new nodes refer to from the replacement to the module."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op not in ("call_module", "get_attr") or _attribute(gm, node.target) is not None:
            continue
        value = _attribute(replacement, node.target)
        if value is None:
            raise RuntimeError(
                f'Attempted to create a "{node.op}" node during subgraph rewriting with target '
                f"{node.target}, but the referenced attribute does not exist in the replacement "
                "GraphModule"
            )
        if isinstance(value, nn.Module):
            gm.add_submodule(node.target, copy.deepcopy(value))
        else:
            setattr(gm, node.target, copy.deepcopy(value))
    gm.graph.lint()


def replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | GraphModule,
    replacement: Callable[..., Any] | GraphModule,
) -> list[Match]:
    """Puts one piece of program in the place of another wherever that is found.

    Both take the same inputs; those of the pattern stand for any value. Of overlapping places the
    first is replaced. Returns where.

    >>> import rushlight as torch
    >>> traced = torch.fx.symbolic_trace(lambda x, y: torch.relu(torch.add(x, y)) * 2)
    >>> matches = torch.fx.replace_pattern(
    ...     traced, lambda a, b: torch.relu(torch.add(a, b)), lambda a, b: torch.maximum(a, b)
    ... )
    >>> print(traced.code.strip())
    def forward(self, x, y):
        maximum = torch.maximum(x, y);  x = y = None
        mul = maximum * 2;  maximum = None
        return mul
    """
    replaced = _replace_pattern(gm, pattern, replacement)
    return [Match(each.anchor, each.nodes_map) for each in replaced]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[_Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: _Callback | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """:func:`replace_pattern` where all filters hold.

    With `ignore_literals` constants in the pattern stand for any constant. `replacement_callback`
    makes the replacement for each place. Filters and callback get the match, the graph and the
    pattern's graph.

    >>> import rushlight as torch
    >>> from rushlight.fx.subgraph_rewriter import replace_pattern_with_filters
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.add(torch.add(x, 1), 2))
    >>> replaced = replace_pattern_with_filters(
    ...     traced, lambda x: torch.add(x, 0), lambda x: torch.neg(x), ignore_literals=True,
    ...     match_filters=[lambda match, graph, pattern: match.returning_nodes[0].args[1] == 2],
    ... )
    >>> [node.name for node in traced.graph.nodes]
    ['x', 'add', 'neg', 'output']
    """
    return _replace_pattern(
        gm, pattern, replacement, match_filters, ignore_literals, replacement_callback,
        node_name_match,
    )  # fmt: skip


def _graph_of(program: Any) -> Graph:
    if isinstance(program, GraphModule):
        return program.graph
    return program if isinstance(program, Graph) else symbolic_trace(program).graph


def _insert_point(graph: Graph, returning: list[Node]) -> Node:
    """The first node that uses what is returned, or the one after it where nobody does."""
    users = {user for node in returning for user in node.users}
    for node in graph.nodes:
        if node in users:
            return node
    after: Node | None = None
    for node in reversed(graph.nodes):
        if node in returning:
            break
        after = node
    if after is None:
        raise AssertionError("The insert point can't be None")
    return after


def _replace_pattern(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[_Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: _Callback | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher

    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals)
    matches = matcher.match(graph, node_name_match=node_name_match)
    tests = match_filters or []
    matches = [m for m in matches if all(test(m, graph, pattern_graph) for test in tests)]
    if replacement is None and replacement_callback is None:
        raise AssertionError(
            "Must provide either a replacement GraphModule or a replacement callback"
        )
    common = None if replacement is None else _graph_of(replacement)
    changed: dict[Node, Node] = {}  # what stands now for nodes that other matches refer to
    done = []
    for match in matches:
        new = replacement_callback(match, graph, pattern_graph) if replacement_callback else common
        done.append(_replace_match(gm, match, pattern_graph, new, changed))  # type: ignore[arg-type]
    gm.recompile()
    if isinstance(replacement, nn.Module):
        _replace_attributes(gm, replacement)
    return done


def _replace_match(
    gm: GraphModule,
    match: InternalMatch,
    pattern: Graph,
    replacement: Graph,
    changed: dict[Node, Node],
) -> ReplacedPatterns:
    graph = gm.graph
    for key, node in match.nodes_map.items():
        if key.op == "placeholder" and isinstance(node, Node):
            match.nodes_map[key] = changed.get(node, node)
    match.placeholder_nodes = [
        changed.get(node, node) if isinstance(node, Node) else node
        for node in match.placeholder_nodes
    ]
    inputs = [node for node in replacement.nodes if node.op == "placeholder"]
    if len(inputs) != len(match.placeholder_nodes):
        raise AssertionError(
            f"Placeholder count mismatch: {len(match.placeholder_nodes)} vs {len(inputs)}"
        )
    values = dict(zip(inputs, match.placeholder_nodes, strict=True))
    with graph.inserting_before(_insert_point(graph, match.returning_nodes)):
        results = graph.graph_copy(replacement, values)
    if isinstance(results, Node):
        results = (results,)
    added = [v for v in values.values() if not any(v is p for p in match.placeholder_nodes)]
    if len(match.returning_nodes) != len(results):
        raise AssertionError(
            f"Returning nodes count mismatch: {len(match.returning_nodes)} vs {len(results)}"
        )
    for old, result in zip(match.returning_nodes, results, strict=True):
        old.replace_all_uses_with(result)
        changed[old] = result
    for node in reversed(pattern.nodes):
        if node.op not in ("placeholder", "output"):
            graph.erase_node(match.nodes_map[node])
    return ReplacedPatterns(match.anchors[0], match.nodes_map, added)
