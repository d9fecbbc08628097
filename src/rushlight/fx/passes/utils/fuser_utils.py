"""Making modules out of groups of nodes."""

from __future__ import annotations

import copy
import heapq
from collections.abc import Iterable
from typing import Any

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node
from rushlight.fx.proxy import Proxy

NodeList = list[Node]


def topo_sort(nodes: NodeList) -> NodeList:
    """Nodes in an order in which each comes after its arguments; else as they were.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.utils.fuser_utils import topo_sort
    >>> graph = torch.fx.symbolic_trace(lambda x: (x + 1) * 2).graph
    >>> topo_sort(list(graph.nodes)[::-1])
    [x, add, mul, output]
    """
    position = {node: i for i, node in enumerate(nodes)}
    waiting = {n: sum(arg in position for arg in n.all_input_nodes) for n in nodes}
    ready = [i for node, i in position.items() if not waiting[node]]
    heapq.heapify(ready)
    done: NodeList = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        done.append(node)
        for user in node.users:
            if user in waiting:
                waiting[user] -= 1
                if not waiting[user]:
                    heapq.heappush(ready, position[user])
    if len(done) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return done


def validate_partition(partition: Iterable[Node]) -> bool:
    """Whether nodes can become one call: nothing outside depends on some and is needed by others.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.utils.fuser_utils import validate_partition
    >>> graph = torch.fx.symbolic_trace(lambda x: (x + 1) * 2 - 3).graph
    >>> add, mul, sub = list(graph.nodes)[1:4]
    >>> validate_partition([add, mul]), validate_partition([add, sub])
    (True, False)
    """
    inside = set(partition)
    queue = [user for node in inside for user in node.users if user not in inside]
    seen: set[Node] = set()
    while queue:
        node = queue.pop()
        if node in inside:
            return False
        if node not in seen:
            seen.add(node)
            queue.extend(node.users)
    return True


def fuse_as_graphmodule(
    gm: GraphModule,
    nodes: NodeList,
    module_name: str,
    partition_lookup_table: Any = None,
    *,
    always_return_tuple: bool = False,
) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """A module that does what nodes of another do, and its inputs and outputs there.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.utils.fuser_utils import fuse_as_graphmodule
    >>> traced = torch.fx.symbolic_trace(lambda x: (x + 1) * 2)
    >>> fused, inputs, outputs = fuse_as_graphmodule(traced, list(traced.graph.nodes)[1:3], "Part")
    >>> inputs, outputs, fused(3)
    ((x,), (mul,), 8)
    """
    from rushlight.fx.passes.utils.common import lift_subgraph_as_module

    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(
                f"{node} doesn't belong to passed in graph module {gm._get_name()}"
            )
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    inside = set(nodes)
    part = Graph()
    inputs: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}

    def stand_in(node: Node) -> Node:
        if node in inside:
            return copies[node]
        if node not in inputs:
            inputs[node] = part.placeholder(node.name, type_expr=node.type)
            inputs[node].meta = copy.copy(node.meta)
        return inputs[node]

    for node in nodes:
        copies[node] = part.node_copy(node, stand_in)
    outputs = [n for n in nodes if any(user not in inside for user in n.users)]
    results = tuple(copies[node] for node in outputs)
    single = len(results) == 1 and not always_return_tuple
    part.output(results[0] if single else results)
    part.lint()
    fused, _ = lift_subgraph_as_module(gm, part, comp_name="", class_name=module_name)
    return fused, tuple(inputs), tuple(outputs)


def insert_subgm(
    gm: GraphModule,
    sub_gm: GraphModule,
    orig_inputs: tuple[Node, ...],
    orig_outputs: tuple[Node, ...],
    insertion_point: Node | None = None,
) -> GraphModule:
    """Adds a module and a call of it, which takes the place of nodes.

    >>> from rushlight.fx.passes.utils.fuser_utils import insert_subgm
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    if insertion_point is None:
        found = (node for node in reversed(gm.graph.nodes) if node in orig_outputs)
        insertion_point = next(found, None)
    if insertion_point is None:
        raise AssertionError(
            "Cannot determine insertion point: no insertion_point provided and orig_outputs is "
            "empty. Pass the last partition node as insertion_point."
        )
    with gm.graph.inserting_after(insertion_point):
        call = gm.graph.call_module(name, args=orig_inputs)
    single = not isinstance(sub_gm.graph.output_node().args[0], tuple)
    with gm.graph.inserting_before(call.next):
        for i, old in enumerate(orig_outputs):
            new = call if single else Proxy(call)[i].node  # type: ignore[index]
            old.replace_all_uses_with(new, propagate_meta=True)
    if orig_outputs and not single:
        call.meta["val"] = tuple(old.meta.get("val") for old in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: NodeList) -> None:
    """Removes nodes, the last one first.

    >>> from rushlight.fx.passes.utils.fuser_utils import erase_nodes
    """
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(
    gm: GraphModule,
    partitions: list[dict[Node, int | None]],
    prefix: str = "fused_",
    always_return_tuple: bool = False,
) -> GraphModule:
    """Makes each group of nodes a submodule.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.utils.fuser_utils import fuse_by_partitions
    >>> traced = torch.fx.symbolic_trace(lambda x: (x + 1) * 2 - 3)
    >>> group = dict.fromkeys(list(traced.graph.nodes)[1:3])
    >>> print(fuse_by_partitions(traced, [group]).recompile().src.strip())
    def forward(self, x):
        fused_0 = self.fused_0(x);  x = None
        sub = fused_0 - 3;  fused_0 = None
        return sub
    """
    from rushlight.fx.passes.tools_common import stable_topological_sort

    for i, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        fused, inputs, outputs = fuse_as_graphmodule(
            gm, nodes, f"{prefix}{i}", always_return_tuple=always_return_tuple
        )
        insert_subgm(gm, fused, inputs, outputs, nodes[-1])
        erase_nodes(gm, nodes)
    stable_topological_sort(gm)
    gm.graph.lint()
    return gm
