"""A graph cut into submodules."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rushlight import nn
from rushlight.fx._paths import _get_attr
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_arg
from rushlight.fx.proxy import Proxy

__all__ = ["Partition", "split_module", "split_module_simple"]


class Partition:
    """A part of a graph: its nodes, what it needs and gives, and the parts it depends on.

    >>> from rushlight.fx.passes.split_module import Partition
    >>> Partition("0").submod_name
    'submod_0'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.submod_name = f"submod_{name}"
        self.node_names: list[str] = []
        self.inputs: dict[str, None] = {}
        self.outputs: dict[str, None] = {}
        self.dependencies: dict[str, None] = {}
        self.dependents: dict[str, None] = {}
        self.graph = Graph()
        self.environment: dict[Node, Node] = {}
        self.targets: dict[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"name: {self.name},\n nodes: {self.node_names},\n inputs: {self.inputs},\n"
            f" outputs: {self.outputs},\n partitions depended on: {self.dependencies},\n"
            f" partition dependents: {self.dependents}"
        )


class _Splitter:
    """The state of one :func:`split_module`."""

    def __init__(self, m: GraphModule, callback: Callable[[Node], int], affix: str | None) -> None:
        self.module, self.nodes = m, list(m.graph.nodes)
        self.by_name = {node.name: node for node in self.nodes}
        self.partitions: dict[str, Partition] = {}
        self.home: dict[Node, str] = {}
        for node in self.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(callback(node))
            name = name if affix is None else f"{affix}_{name}"
            self.partitions.setdefault(name, Partition(name)).node_names.append(node.name)
            self.home[node] = name
        for node in self.nodes:
            if node.op == "output":
                map_arg(node.args[0], lambda used: self.note_use(used, None))
            elif node in self.home:
                for used in node.all_input_nodes:
                    self.note_use(used, self.home[node])

    def note_use(self, made: Node, user: str | None) -> None:
        """Notes that a value is used in a part, or by the output."""
        maker = self.home.get(made)
        if maker == user:
            return
        if maker is not None:
            self.partitions[maker].outputs.setdefault(made.name)
            if user is not None:
                self.partitions[maker].dependents.setdefault(user)
        if user is not None:
            self.partitions[user].inputs.setdefault(made.name)
            if maker is not None:
                self.partitions[user].dependencies.setdefault(maker)

    def in_order(self) -> list[str]:
        """The parts, each after those it depends on."""
        ready = [name for name, part in self.partitions.items() if not part.dependencies]
        order: list[str] = []
        while ready:
            first = ready.pop()
            order.append(first)
            for name in self.partitions[first].dependents:
                self.partitions[name].dependencies.pop(first)
                if not self.partitions[name].dependencies:
                    ready.append(name)
        if len(order) != len(self.partitions):
            raise RuntimeError("cycle exists between partitions!")
        return order

    def add_inputs(self, part: Partition, keep_names: bool) -> None:
        """Gives a part a placeholder for each value it needs; modules become its attributes."""
        nodes = [self.by_name[name] for name in part.inputs]
        fetched = {n: _get_attr(self.module, n.target) for n in nodes if n.op == "get_attr"}
        modules = [n for n in nodes if isinstance(fetched.get(n), nn.Module)]
        values = [n for n in nodes if n not in modules]
        for i, node in enumerate(values):
            name = node.name if keep_names else f"arg_{i}"
            part.environment[node] = part.graph.placeholder(name, type_expr=node.type)
        for node in modules:
            part.environment[node] = part.graph.get_attr(node.target)
            part.targets[node.target] = fetched[node]
        for node in nodes:
            part.environment[node].meta = dict(node.meta)
        part.inputs = dict.fromkeys(node.name for node in values)

    def copy_nodes(self, keep_names: bool, qualname_map: dict[str, str] | None) -> None:
        for node, home in self.home.items():
            part, target = self.partitions[home], node.target
            known = part.environment
            if node.op == "call_module":
                target = node.target.replace(".", "_")
                part.targets[target] = _get_attr(self.module, node.target)
                if qualname_map is not None:
                    qualname_map[f"{part.submod_name}.{target}"] = node.target
            new = part.graph.create_node(
                node.op,
                target,
                map_arg(node.args, known.__getitem__),
                map_arg(node.kwargs, known.__getitem__),
                node.name if keep_names else None,
                node.type,
            )
            new.meta = dict(node.meta)
            known[node] = new


def split_module(
    m: GraphModule,
    root_m: nn.Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    keep_original_node_name: bool | None = False,
    keep_original_input_name: bool = True,
    *,
    partition_affix: str | None = None,
    tuple_return: bool = False,
) -> GraphModule:
    """Cuts a graph into submodules ``submod_0``, ``submod_1``... as `split_callback` says.

    `qualname_map` learns the old paths of the modules that are called. The parts are called in an
    order that their inputs allow, or in that of their first nodes with `keep_original_order`.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.split_module import split_module
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.sin(x) * 2)
    >>> cut = split_module(traced, traced, lambda node: int(node.name == "mul"))
    >>> print(cut.code.strip())
    def forward(self, x):
        submod_0 = self.submod_0(x);  x = None
        submod_1 = self.submod_1(submod_0);  submod_0 = None
        return submod_1
    """
    splitter = _Splitter(m, split_callback, partition_affix)
    first = list(splitter.partitions)
    order = splitter.in_order()
    for name in order:
        splitter.add_inputs(splitter.partitions[name], keep_original_input_name)
    splitter.copy_nodes(bool(keep_original_node_name), qualname_map)
    base = Graph()
    values: dict[str, Node] = {}
    attributes: dict[str, Any] = {}

    def add_source(node: Node) -> None:
        """Adds an input or attribute to the outer graph."""
        if node.name in values:
            return
        if node.op == "placeholder":
            default = node.args[0] if node.args else inspect.Signature.empty
            name = node.name if keep_original_node_name else node.target
            values[node.name] = base.placeholder(name, node.type, default)
        elif node.op == "get_attr":
            values[node.name] = base.get_attr(node.target)
            attributes[node.target] = _get_attr(m, node.target)
        else:
            return
        values[node.name].meta = dict(node.meta)

    if not keep_original_order or not first:
        for node in splitter.nodes:
            add_source(node)
    else:
        for node in splitter.nodes:
            if node.op == "placeholder":
                add_source(node)
    for name in first if keep_original_order else order:
        part = splitter.partitions[name]
        results = tuple(part.environment[splitter.by_name[n]] for n in part.outputs)
        single = len(results) == 1 and not tuple_return
        part.graph.output(results[0] if single else results)
        for used in part.inputs:
            add_source(splitter.by_name[used])
        attributes[part.submod_name] = GraphModule(part.targets, part.graph)
        call = base.call_module(part.submod_name, tuple(values[n] for n in part.inputs))
        for i, output in enumerate(part.outputs):
            values[output] = call if single else Proxy(call)[i].node  # type: ignore[index]
    for node in splitter.nodes:
        if node.op == "output":
            map_arg(node.args[0], add_source)
            base.output(map_arg(node.args[0], lambda n: values[n.name]))
    made = GraphModule(attributes, base)
    made.meta["partition_names"] = {p.submod_name for p in splitter.partitions.values()}
    return made


def split_module_simple(
    m: GraphModule,
    node_to_partition: dict[Node, int],
    *,
    partition_affix: str | None = None,
) -> GraphModule:
    """:func:`split_module` by a dict, with the parts in the order of their first nodes.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.split_module import split_module_simple
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.sin(x) * 2)
    >>> sin, mul = list(traced.graph.nodes)[1:3]
    >>> [name for name, _ in split_module_simple(traced, {sin: 0, mul: 1}).named_children()]
    ['submod_0', 'submod_1']
    """
    return split_module(
        m,
        m,
        node_to_partition.__getitem__,
        keep_original_order=True,
        partition_affix=partition_affix,
    )
