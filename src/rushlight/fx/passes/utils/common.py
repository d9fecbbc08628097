"""Parts of graphs as modules, and graphs compared."""

from __future__ import annotations

from rushlight import nn
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.passes.utils.matcher_utils import SubgraphMatcher

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]


class HolderModule(nn.Module):
    """A module that holds others.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.utils.common import HolderModule
    >>> HolderModule({"relu": torch.nn.ReLU()})
    HolderModule(
      (relu): ReLU()
    )
    """

    def __init__(self, d: dict[str, nn.Module]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(
    gm: GraphModule,
    subgraph: Graph,
    comp_name: str = "",
    class_name: str = "GraphModule",
) -> tuple[GraphModule, dict[str, str]]:
    """A module with a graph of copied nodes, and all that these refer to in the module they are of.

    Also where each thing it refers to is now, below `comp_name`.

    >>> from rushlight.fx.passes.utils.common import lift_subgraph_as_module
    """
    root, places = HolderModule({}), {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        *path, name = node.target.split(".")
        to, source = root, gm
        for part in path:
            if not hasattr(to, part):
                to.add_module(part, HolderModule({}))
            to, source = getattr(to, part), getattr(source, part)
        places[node.target] = f"{comp_name}.{node.target}"
        setattr(to, name, getattr(source, name))
    return GraphModule(root, subgraph, class_name), places


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs compute the same in the same way.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.utils.common import compare_graphs
    >>> trace = torch.fx.symbolic_trace
    >>> compare_graphs(trace(lambda x: x + 1).graph, trace(lambda y: y + 1).graph)
    True
    """
    return bool(SubgraphMatcher(left, match_output=True, match_placeholder=True).match(right))
