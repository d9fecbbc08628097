"""Finding a pattern, some nodes of which have names."""

from __future__ import annotations

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher

__all__ = ["SubgraphMatcherWithNameNodeMap"]


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """Takes the dict of names, which comes last, out of what a pattern returns."""
    output = gm.graph.output_node()
    result = output.args[0]
    if not isinstance(result, (list, tuple)) or not isinstance(result[-1], dict):
        raise AssertionError("Expecting the input graph to have a dict output as the last element")
    *values, names = result
    output.args = (values[0] if len(values) == 1 else tuple(values),)
    gm.recompile()
    return gm, dict(names)


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """A :class:`SubgraphMatcher` for a pattern that also returns a dict of names for its nodes.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.utils.matcher_with_name_node_map_utils import (
    ...     SubgraphMatcherWithNameNodeMap,
    ... )
    >>> def pattern(x):
    ...     y = torch.sin(x)
    ...     return torch.relu(y), {"inner": y}
    >>> matcher = SubgraphMatcherWithNameNodeMap(torch.fx.symbolic_trace(pattern))
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.relu(torch.sin(x)) + 1).graph
    >>> matcher.match(graph)[0].name_node_map
    {'inner': sin}
    """

    def __init__(
        self,
        pattern_gm: GraphModule,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        super().__init__(
            pattern_gm.graph,
            match_output,
            match_placeholder,
            remove_overlapping_matches,
            ignore_literals,
        )

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """The places, each with its nodes by name."""
        matches = super().match(graph, node_name_match)
        for match in matches:
            for name, node in self.name_node_map.items():
                match.name_node_map[name] = match.nodes_map[node]
        return matches
