"""Groups of supported nodes, as large as can be."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, _get_qualified_name
from rushlight.fx.passes.operator_support import OperatorSupportBase
from rushlight.fx.passes.utils.fuser_utils import fuse_by_partitions


class Partition:
    """A group of nodes.

    >>> from rushlight.fx.passes.infra.partitioner import Partition
    >>> Partition(id=0).size()
    0
    """

    def __init__(
        self,
        id: int | None = None,
        nodes: Iterable[Node] | None = None,
        node_orders: Iterable[int] | None = None,
    ) -> None:
        self.id = id
        self.nodes: dict[Node, int | None] = dict.fromkeys(nodes or ())
        if node_orders is not None:
            self.nodes = dict(zip(self.nodes, node_orders, strict=True))

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Adds a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Removes a node."""
        del self.nodes[node]

    def size(self) -> int:
        """The number of nodes."""
        return len(self.nodes)


def _is_getitem(node: Node) -> bool:
    return node.op == "call_function" and _get_qualified_name(node.target) == "_operator.getitem"


class CapabilityBasedPartitioner:
    """Finds groups of supported nodes that can each become one submodule.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.infra.partitioner import CapabilityBasedPartitioner
    >>> from rushlight.fx.passes.operator_support import OperatorSupport
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.tan(torch.cos(torch.sin(x))))
    >>> support = OperatorSupport({"torch.sin": None, "torch.cos": None})
    >>> partitioner = CapabilityBasedPartitioner(traced, support)
    >>> partitioner.propose_partitions()
    [{sin: 3, cos: 2}]
    """

    def __init__(
        self,
        graph_module: GraphModule,
        operator_support: OperatorSupportBase,
        allows_single_node_partition: bool = False,
        non_compute_ops: Sequence[str] | None = None,
        allowed_single_node_partition_ops: Sequence[str] | None = None,
        skip_horizontal_fusion: bool = False,
    ) -> None:
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = list(non_compute_ops or ())
        self.allowed_single_node_partition_ops = list(allowed_single_node_partition_ops or ())
        self.skip_horizontal_fusion = skip_horizontal_fusion

    def _is_node_supported(self, node: Node) -> bool:
        if node.op in ("placeholder", "output"):
            return False
        modules = dict(self.graph_module.named_modules())
        return self.operator_support.is_node_supported(modules, node)

    @staticmethod
    def _may_merge(a: Partition, b: Partition, home: dict[Node, Partition]) -> bool:
        """Whether no path leaves the two, through other groups as a whole, and comes back."""
        inside = a.nodes.keys() | b.nodes.keys()
        queue = [user for node in inside for user in node.users if user not in inside]
        seen: set[Node] = set()
        while queue:
            node = queue.pop()
            if node in inside:
                return False
            if node in seen:
                continue
            group = home[node].nodes if node in home else {node: None}
            seen.update(group)
            queue.extend(user for each in group for user in each.users)
        return True

    def propose_partitions(self) -> list[Partition]:
        """The groups, in no particular order; single nodes count only if so asked."""
        home: dict[Node, Partition] = {}
        groups: list[Partition] = []
        for order, node in enumerate(reversed(self.graph_module.graph.nodes)):
            if not self._is_node_supported(node):
                continue
            mine = Partition(len(groups), [node], [order])
            home[node] = mine
            others = list(groups)
            if self.skip_horizontal_fusion:
                others = [g for g in groups if any(user in g.nodes for user in node.users)]
            groups.append(mine)
            for other in others:
                if self._may_merge(mine, other, home):
                    other.nodes.update(mine.nodes)
                    home.update(dict.fromkeys(mine.nodes, other))
                    groups.remove(mine)
                    mine = other
        self._follow_tuples(home)
        for group in groups:
            ordered = sorted(group.nodes.items(), key=lambda item: -(item[1] or 0))
            group.nodes = dict(ordered)
        return [g for g in groups if g.size() and self._is_worth_it(g)]

    def _follow_tuples(self, home: dict[Node, Partition]) -> None:
        """Puts items of a tuple into the group of what makes the tuple."""
        for order, node in enumerate(reversed(self.graph_module.graph.nodes)):
            maker = node.args[0] if _is_getitem(node) else None
            if not isinstance(maker, Node) or not all(map(_is_getitem, maker.users)):
                continue
            if home.get(maker) is not home.get(node):
                if node in home:
                    home.pop(node).remove_node(node)
                if maker in home:
                    home[node] = home[maker]
                    home[node].add_node(node, order)

    def _is_worth_it(self, group: Partition) -> bool:
        if self.allows_single_node_partition:
            return True
        idle = {"torch.ops.aten.view", "_operator.getitem", *self.non_compute_ops}
        names = [_get_qualified_name(n.target) for n in group.nodes if n.op == "call_function"]
        count = sum(name not in idle for name in names)
        count += sum(name in self.allowed_single_node_partition_ops for name in names)
        return count > 1

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Makes each group a submodule."""
        return fuse_by_partitions(self.graph_module, [p.nodes for p in partitions], prefix=prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Takes nodes that compute nothing out of groups where nothing computes before or after."""

        def idle(node: Node) -> bool:
            function = node.op == "call_function"
            return function and _get_qualified_name(node.target) in self.non_compute_ops

        for partition in partitions:
            for nodes in (list(partition.nodes), list(reversed(partition.nodes))):
                forward = nodes[:1] == list(partition.nodes)[:1]
                for node in nodes:
                    beside = node.all_input_nodes if forward else list(node.users)
                    if idle(node) and not any(other in partition.nodes for other in beside):
                        partition.nodes.pop(node, None)

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Finds the groups and makes them submodules."""
        return self.fuse_partitions(self.propose_partitions(), prefix=prefix)
