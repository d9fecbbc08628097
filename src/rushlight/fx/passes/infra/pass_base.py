"""What a pass over a graph module is."""

from __future__ import annotations

import abc
from typing import NamedTuple

from rushlight import nn
from rushlight.fx.graph_module import GraphModule

__all__ = ["PassBase", "PassResult"]


class PassResult(NamedTuple):
    """What a pass gives: the module, and whether it changed it.

    >>> from rushlight.fx.passes.infra.pass_base import PassResult
    >>> PassResult(None, False).modified
    False
    """

    graph_module: nn.Module
    modified: bool


class PassBase(abc.ABC):
    """A pass; subclasses write ``call``, and what must hold before and after it.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
    >>> class Clean(PassBase):
    ...     def call(self, graph_module):
    ...         return PassResult(graph_module, graph_module.graph.eliminate_dead_code())
    >>> Clean()(torch.fx.symbolic_trace(lambda x: x + 1)).modified
    False
    """

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """The pass itself."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises if the pass cannot run on the module."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Raises if the pass did not do what it should."""
