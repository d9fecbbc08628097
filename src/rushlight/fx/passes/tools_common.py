"""Names of targets, and graphs put in order."""

from __future__ import annotations

import collections
import heapq
import operator
from collections.abc import Mapping
from typing import Any

from rushlight import nn
from rushlight._C import Tensor
from rushlight.fx._names import public_module
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, _get_qualified_name

__all__ = [
    "get_acc_ops_name",
    "get_node_target",
    "is_node_output_tensor",
    "legalize_graph",
    "stable_topological_sort",
]

Tensors = tuple[Tensor, ...] | list[Tensor]
TensorOrTensors = Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}

# These are sorted in as soon as their arguments are there.
_EAGER = (
    operator.add, operator.mul, operator.sub, operator.floordiv, operator.truediv, operator.mod,
    operator.le, operator.lt, operator.ge, operator.gt, operator.eq, operator.ne,
)  # fmt: skip


def get_acc_ops_name(k: Any) -> str:
    """The full name of a function or class.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.tools_common import get_acc_ops_name
    >>> get_acc_ops_name(torch.nn.ReLU)
    'torch.nn.modules.activation.ReLU'
    """
    if isinstance(k, str):
        return k
    if k.__module__ and "acc_ops" in k.__module__:
        return f"acc_ops.{k.__name__}"
    return f"{public_module(k.__module__ or '')}.{k.__name__}"


def get_node_target(submodules: Mapping[str, nn.Module], node: Node) -> str:
    """The name of what a node calls: of the function, the method, or the module's class.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.tools_common import get_node_target
    >>> node = list(torch.fx.symbolic_trace(lambda x: torch.sin(x)).graph.nodes)[1]
    >>> get_node_target({}, node)
    'torch.sin'
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}"
        )
    if node.op == "call_module":
        module = submodules[node.target]
        return get_acc_ops_name(getattr(module, "_base_class_origin", type(module)))
    if node.op == "call_method":
        return str(node.target)
    accelerated = "acc_ops" in (node.target.__module__ or "")
    return get_acc_ops_name(node.target) if accelerated else _get_qualified_name(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """Whether :class:`ShapeProp` saw that a node's value is a tensor.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.tools_common import is_node_output_tensor
    >>> is_node_output_tensor(torch.fx.Graph().placeholder("x"))
    False
    """
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Tensor)


def _sorted_anew(gm: GraphModule, order: list[Node]) -> GraphModule:
    if len(order) < len(gm.graph.nodes):
        left = [node for node in gm.graph.nodes if node not in set(order)]
        raise RuntimeError(f"Input graph has cycles, unable to add {left}")
    graph = Graph()
    copies: dict[Node, Node] = {}
    for node in order:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph._codegen = gm.graph._codegen
    gm.graph = graph
    return gm


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Puts the nodes of a module's graph in an order in which each follows its arguments.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.tools_common import legalize_graph
    >>> traced = torch.fx.symbolic_trace(lambda x: x + 1)
    >>> x, add = list(traced.graph.nodes)[:2]
    >>> add.append(x)
    >>> [node.name for node in legalize_graph(traced).graph.nodes]
    ['x', 'add', 'output']
    """
    waiting = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    queue = collections.deque(node for node, count in waiting.items() if not count)
    order = []
    while queue:
        node = queue.popleft()
        order.append(node)
        for user in node.users:
            waiting[user] -= 1
            if waiting[user]:
                continue
            if user.op == "call_function" and user.target in _EAGER:
                queue.appendleft(user)
            else:
                queue.append(user)
    return _sorted_anew(gm, order)


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """:func:`legalize_graph`, with nodes left in their order as far as possible.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.tools_common import stable_topological_sort
    >>> traced = torch.fx.symbolic_trace(lambda x: (x + 1) * (x + 2))
    >>> [node.name for node in stable_topological_sort(traced).graph.nodes]
    ['x', 'add', 'add_1', 'mul', 'output']
    """
    nodes = list(gm.graph.nodes)
    position = {node: i for i, node in enumerate(nodes)}
    waiting = {node: len(node.all_input_nodes) for node in nodes}
    ready = [position[node] for node in nodes if not waiting[node]]
    order = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        order.append(node)
        for user in node.users:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, position[user])
    return _sorted_anew(gm, order)
