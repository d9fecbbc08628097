"""Graphs for inference: normalisation folded into layers, dropout removed."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from rushlight import nn
from rushlight.fx._symbolic_trace import Tracer, symbolic_trace
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Transformer
from rushlight.fx.node import Node
from rushlight.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

__all__ = [
    "extract_subgraph",
    "fuse",
    "matches_module_pattern",
    "optimize_for_inference",
    "remove_dropout",
    "replace_node_module",
]

_PAIRS: list[tuple[type, type]] = [
    (nn.Conv1d, nn.BatchNorm1d),
    (nn.Conv2d, nn.BatchNorm2d),
    (nn.Conv3d, nn.BatchNorm3d),
    (nn.Linear, nn.BatchNorm1d),
]


def _parent_name(target: str) -> tuple[str, str]:
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(
    pattern: Iterable[type], node: Node, modules: dict[str, nn.Module]
) -> bool:
    """Whether a node calls a module of the second class on the result of one of the first.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.optimization import matches_module_pattern
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    >>> node = list(torch.fx.symbolic_trace(net).graph.nodes)[2]
    >>> matches_module_pattern((torch.nn.Linear, torch.nn.ReLU), node, dict(net.named_modules()))
    True
    """
    if not node.args:
        return False
    for kind, each in zip(pattern, (node.args[0], node), strict=False):
        if not isinstance(each, Node) or each.op != "call_module":
            return False
        if type(modules.get(each.target)) is not kind:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, nn.Module], new_module: nn.Module) -> None:
    """Puts a module in the place of the one that a node calls.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.optimization import replace_node_module
    >>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    >>> node = list(traced.graph.nodes)[1]
    >>> replace_node_module(node, dict(traced.named_modules()), torch.nn.Tanh())
    >>> traced.get_submodule("0")
    Tanh()
    """
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """A model in evaluation mode with batch normalisation folded into the layer before it.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.optimization import fuse
    >>> net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
    >>> [type(m).__name__ for m in fuse(net).children()]
    ['Conv2d']
    """
    if not inplace:
        model = copy.deepcopy(model)
    traced = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    graph = copy.deepcopy(traced.graph)
    for pair in _PAIRS:
        for node in graph.nodes:
            if not matches_module_pattern(pair, node, modules):
                continue
            before, norm = node.args[0], modules[node.target]
            if len(before.users) > 1 or not norm.track_running_stats:
                continue
            fold = fuse_linear_bn_eval if pair[0] is nn.Linear else fuse_conv_bn_eval
            replace_node_module(before, modules, fold(modules[before.target], norm))
            node.replace_all_uses_with(before)
            graph.erase_node(node)
    return GraphModule(traced, graph)


class _DropoutRemover(Transformer):
    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(self.submodules[target], nn.Dropout):
            return args[0]
        return super().call_module(target, args, kwargs)


def remove_dropout(model: nn.Module) -> nn.Module:
    """A model without its dropout layers.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.optimization import remove_dropout
    >>> net = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout())
    >>> [type(m).__name__ for m in remove_dropout(net).children()]
    ['ReLU']
    """
    return _DropoutRemover(symbolic_trace(model)).transform()


def extract_subgraph(
    orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]
) -> GraphModule:
    """A module that computes some nodes of a graph from some others.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.optimization import extract_subgraph
    >>> traced = torch.fx.symbolic_trace(lambda x: (x + 1) * 2)
    >>> x, add, mul, _ = traced.graph.nodes
    >>> extract_subgraph(traced, [mul], [add], [mul])(5)
    [10]
    """
    graph = Graph()
    copies = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        copies[node] = graph.node_copy(node, lambda n: copies[n])
    graph.output([copies[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(
    model: nn.Module,
    pass_config: dict[str, Any] | None = None,
    tracer: type[Tracer] = Tracer,
) -> nn.Module:
    """A model for inference: :func:`fuse` and :func:`remove_dropout`, unless `pass_config` says no.

    Layouts stay as they are: there are no others here.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.optimization import optimize_for_inference
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout()).eval()
    >>> [type(m).__name__ for m in optimize_for_inference(net).children()]
    ['Linear']
    """
    config = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if config["conv_bn_fuse"]:
        model = fuse(model)
    if config["remove_dropout"]:
        model = remove_dropout(model)
    traced = tracer()
    return GraphModule(model, traced.trace(model))
