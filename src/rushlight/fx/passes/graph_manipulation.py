"""Targets replaced throughout a graph, and the sizes of values."""

from __future__ import annotations

from typing import NamedTuple

import rushlight
from rushlight._C import Tensor
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, Target, map_arg
from rushlight.fx.passes.shape_prop import ShapeProp, TensorMetadata

__all__ = [
    "get_size_of_all_nodes",
    "get_size_of_node",
    "get_tensor_meta",
    "replace_target_nodes_with",
    "size_bytes",
]


def replace_target_nodes_with(
    fx_module: GraphModule, old_op: str, old_target: Target, new_op: str, new_target: Target
) -> None:
    """Has all nodes of a kind and target be of another.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.graph_manipulation import replace_target_nodes_with
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.sin(x))
    >>> replace_target_nodes_with(
    ...     traced, "call_function", torch.sin, "call_function", torch.cos
    ... )
    >>> traced(torch.zeros(2))
    tensor([1., 1.])
    """
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = (map_arg(a, lambda n: copies[n]) for a in (node.args, node.kwargs))
            copies[node] = graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            copies[node] = graph.node_copy(node, lambda n: copies[n])
    fx_module.graph = graph


class size_bytes(NamedTuple):
    """The bytes of a node's value, and of it with the parameters that it needs.

    >>> from rushlight.fx.passes.graph_manipulation import size_bytes
    >>> size_bytes(4, 8).total_size
    8
    """

    output_size: int
    total_size: int


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Tensor] | None = None) -> None:
    """Sets ``size_bytes`` of each node, after a run on example inputs if they are given.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.graph_manipulation import get_size_of_all_nodes
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.sin(x))
    >>> get_size_of_all_nodes(traced, [torch.zeros(3)])
    >>> list(traced.graph.nodes)[1].size_bytes
    size_bytes(output_size=12, total_size=12)
    """
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op != "output":
            node.size_bytes = get_size_of_node(fx_module, node)


def get_tensor_meta(node: Node) -> TensorMetadata:
    """What :class:`ShapeProp` noted of a node's value.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.graph_manipulation import get_tensor_meta
    >>> get_tensor_meta(torch.fx.Graph().placeholder("x"))
    Traceback (most recent call last):
        ...
    RuntimeError: Node x has no tensor metadata associated with it! ...
    """
    meta: TensorMetadata | None = node.meta.get("tensor_meta")
    if not meta:
        raise RuntimeError(
            f"Node {node} has no tensor metadata associated with it! Check that shape propagation "
            "has run."
        )
    return meta


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """The bytes of a node's value, and of the parameters of the module that it calls.

    >>> from rushlight.fx.passes.graph_manipulation import get_size_of_node
    """
    meta = get_tensor_meta(node)
    count = meta.shape.numel()
    own = 0
    if node.op == "call_module":
        own = sum(p.numel() for p in fx_module.get_submodule(node.target).parameters())
    each = rushlight.empty(0, dtype=meta.dtype).element_size()
    return size_bytes(each * count, each * (count + own))
