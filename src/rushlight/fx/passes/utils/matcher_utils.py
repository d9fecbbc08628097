"""Finding a small graph inside a large one."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from rushlight._C import Tensor
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import _get_attr
from rushlight.fx.node import Node
from rushlight.fx.passes.utils.fuser_utils import validate_partition

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """A place that a pattern was found at.

    ``anchors`` are the pattern's nodes that it was found from, ``nodes_map`` says which node of the
    graph is which of the pattern; ``placeholder_nodes`` and ``returning_nodes`` are what stands in
    the graph for the pattern's inputs and results.

    >>> from rushlight.fx.passes.utils.matcher_utils import InternalMatch
    >>> InternalMatch(anchors=[]).nodes_map
    {}
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            self.anchors,
            dict(self.nodes_map),
            list(self.placeholder_nodes),
            list(self.returning_nodes),
        )


class SubgraphMatcher:
    """Finds a pattern in graphs.

    The pattern's inputs stand for any value unless `match_placeholder`, and so do its constants
    with `ignore_literals`; its output counts only with `match_output`. A value inside a match is
    used only inside it.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher
    >>> pattern = torch.fx.symbolic_trace(lambda a: torch.relu(a) + 1).graph
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.sin(torch.relu(x) + 1)).graph
    >>> [match.returning_nodes for match in SubgraphMatcher(pattern).match(graph)]
    [[add]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ValueError("SubgraphMatcher cannot be initialized with an empty pattern")
        for node in pattern.nodes:
            if node.op != "output" and not node.users and not node.is_impure():
                raise AssertionError(
                    "SubgraphMatcher cannot be initialized with an pattern with dead code"
                )
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = next(iter(reversed(pattern.nodes)))
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        ends = [n for n in self.pattern_returning_nodes if len(n.users) == 1]
        self.pattern_anchors: list[Node] = [output] if match_output else ends

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        owners = pn.graph.owning_module, gn.graph.owning_module
        if owners[0] is None or owners[1] is None:
            raise AssertionError("the graphs must belong to modules to match their attributes")
        ours, theirs = _get_attr(owners[0], pn.target), _get_attr(owners[1], gn.target)
        if type(ours) is not type(theirs):
            return False
        if not isinstance(ours, Tensor):
            raise RuntimeError(f"Unsupported type {ours} when matching attributes")
        return True

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else pn.target == gn.target

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Whether values inside a match are used only inside it."""
        inside = {gn: pn for pn, gn in nodes_map.items() if pn.op != "placeholder"}
        return all(
            pn in self.pattern_returning_nodes or all(user in inside for user in gn.users)
            for gn, pn in inside.items()
        )

    def _remove_overlapping_matches(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept: list[InternalMatch] = []
        taken: set[Node] = set()
        for match in matches:
            nodes = self._computing(match)
            if not taken.intersection(nodes):
                kept.append(match)
                taken.update(nodes)
        return kept

    @staticmethod
    def _computing(match: InternalMatch) -> list[Node]:
        pairs = match.nodes_map.items()
        return [gn for pn, gn in pairs if pn.op not in ("placeholder", "output")]

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        if not isinstance(pn, Node):
            return not isinstance(gn, Node) and type(gn) is type(pn) and bool(gn == pn)
        if pn.op != "placeholder":
            return False
        if pn in match.nodes_map:
            known = match.nodes_map[pn]
            return not isinstance(known, Node) and bool(known == gn)
        match.nodes_map[pn] = gn
        return True

    def _match_args(self, ours: Any, theirs: Any, match: InternalMatch) -> bool:
        if len(ours) != len(theirs):
            return False
        for a, b in zip(ours, theirs, strict=True):
            if isinstance(a, Node) and isinstance(b, Node):
                matched = self._match_nodes(a, b, match)
            elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
                matched = self._match_args(a, b, match)
            else:
                matched = self._match_literals(a, b, match) or self.ignore_literals
            if not matched:
                return False
        return True

    def _match_nodes(
        self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = ""
    ) -> bool:
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        taken = any(node is gn for node in match.nodes_map.values())
        if taken or not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        before = dict(match.nodes_map)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder":
            return True
        same_form = len(pn.args) == len(gn.args) and list(pn.kwargs) == list(gn.kwargs)
        ours, theirs = [*pn.args, *pn.kwargs.values()], [*gn.args, *gn.kwargs.values()]
        if same_form and self._match_args(ours, theirs, match):
            return True
        match.nodes_map = before
        return False

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places in a graph where the pattern is, in order."""
        candidates = [
            (anchor, [n for n in graph.nodes if self._nodes_are_equal(anchor, n, node_name_match)])
            for anchor in self.pattern_anchors
        ]
        candidates = [(anchor, nodes) for anchor, nodes in candidates if nodes]
        matches: list[InternalMatch] = []

        def extend(at: int, match: InternalMatch) -> None:
            """Matches the anchors from `at` on in every way that fits."""
            if at == len(candidates):
                known = match.nodes_map
                if all(p in known for p in self.pattern_returning_nodes):
                    match.placeholder_nodes = [known[p] for p in self.pattern_placeholder_nodes]
                    match.returning_nodes = [known[p] for p in self.pattern_returning_nodes]
                    matches.append(match)
                return
            anchor, nodes = candidates[at]
            for node in nodes:
                tried = copy.copy(match)
                if self._match_nodes(anchor, node, tried, node_name_match):
                    extend(at + 1, tried)

        if candidates:
            extend(0, InternalMatch(anchors=self.pattern_anchors))
        matches = [m for m in matches if self._is_contained(m.nodes_map)]
        matches = [m for m in matches if validate_partition(self._computing(m))]
        if self.remove_overlapping_matches:
            matches = self._remove_overlapping_matches(matches)
        return matches
