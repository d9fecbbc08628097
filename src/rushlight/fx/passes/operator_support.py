"""Which nodes somebody can run."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import rushlight
from rushlight import nn
from rushlight.fx.node import Node
from rushlight.fx.passes.shape_prop import TensorMetadata
from rushlight.fx.passes.tools_common import CALLABLE_NODE_OPS, get_node_target

__all__ = [
    "OpSupports",
    "OperatorSupport",
    "OperatorSupportBase",
    "any_chain",
    "chain",
    "create_op_support",
]

TargetTypeName = str
SupportedArgumentDTypes = (
    tuple[Sequence[Sequence[rushlight.dtype]], dict[str, Sequence[rushlight.dtype]]] | None
)
SupportDict = Mapping[TargetTypeName, SupportedArgumentDTypes]
IsNodeSupported = Callable[[Mapping[str, nn.Module], Node], bool]


class OperatorSupportBase(abc.ABC):
    """Says whether a node is supported; subclasses write ``is_node_supported``.

    >>> from rushlight.fx.passes.operator_support import OperatorSupportBase
    >>> OperatorSupportBase.__abstractmethods__
    frozenset({'is_node_supported'})
    """

    @abc.abstractmethod
    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        """Whether a node is supported; `submodules` are those of the graph's module."""


class OperatorSupport(OperatorSupportBase):
    """Supports the targets in a dict by name, for the dtypes it lists: of ``args``, of ``kwargs``.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.operator_support import OperatorSupport
    >>> node = list(torch.fx.symbolic_trace(lambda x: torch.sin(x)).graph.nodes)[1]
    >>> OperatorSupport({"torch.sin": None}).is_node_supported({}, node)
    True
    """

    def __init__(self, support_dict: SupportDict | None = None) -> None:
        self._support_dict = support_dict or {}

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        """Whether the dict has the node's target, for the dtypes of its arguments."""
        if node.op not in CALLABLE_NODE_OPS:
            return True
        target = get_node_target(submodules, node)
        if target not in self._support_dict:
            return False
        known = self._support_dict[target]
        if known is None:
            return True
        pairs: list[tuple[Any, Any]] = list(zip(node.args, known[0], strict=False))
        pairs += [(node.kwargs[k], dtypes) for k, dtypes in known[1].items() if k in node.kwargs]
        return all(
            dtypes is None or not isinstance(arg, Node) or _get_arg_dtype(arg) in dtypes
            for arg, dtypes in pairs
        )


class _Asked(OperatorSupportBase):
    def __init__(self, function: IsNodeSupported) -> None:
        self._function = function

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: Node) -> bool:
        return self._function(submodules, node)


def create_op_support(is_node_supported: IsNodeSupported) -> OperatorSupportBase:
    """Support as a function says.

    >>> from rushlight.fx.passes.operator_support import create_op_support
    >>> create_op_support(lambda modules, node: True).is_node_supported({}, None)
    True
    """
    return _Asked(is_node_supported)


def chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what all of them support.

    >>> from rushlight.fx.passes.operator_support import chain, create_op_support
    >>> no = create_op_support(lambda modules, node: False)
    >>> chain(no).is_node_supported({}, None)
    False
    """
    return _Asked(lambda modules, node: all(s.is_node_supported(modules, node) for s in op_support))


def any_chain(*op_support: OperatorSupportBase) -> OperatorSupportBase:
    """Supports what one of them supports.

    >>> from rushlight.fx.passes.operator_support import any_chain
    >>> any_chain().is_node_supported({}, None)
    False
    """
    return _Asked(lambda modules, node: any(s.is_node_supported(modules, node) for s in op_support))


class OpSupports:
    """Reasons not to support a node, to be chained with others.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.operator_support import OpSupports
    >>> node = torch.fx.Graph().placeholder("x")
    >>> OpSupports.decline_if_node_in_names({"x"}).is_node_supported({}, node)
    False
    """

    @classmethod
    def decline_if_input_dtype(cls, dtype: rushlight.dtype) -> OperatorSupportBase:
        """Not if an argument has the dtype."""
        return _Asked(
            lambda modules, node: all(_get_arg_dtype(a) != dtype for a in node.all_input_nodes)
        )

    @classmethod
    def decline_if_node_in_names(cls, disallow_set: set[str]) -> OperatorSupportBase:
        """Not if the node has one of the names."""
        return _Asked(lambda modules, node: node.name not in disallow_set)


def _get_arg_dtype(arg: Node) -> Any:
    """The dtype of a node's value that :class:`ShapeProp` saw, or the type of another value."""
    meta = arg.meta.get("tensor_meta")
    return meta.dtype if isinstance(meta, TensorMetadata) else arg.meta["type"]
