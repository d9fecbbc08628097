"""Making graph modules."""

from __future__ import annotations

from typing import Any

from rushlight.fx.graph_module import GraphModule


def _make_graph_module(
    *args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any
) -> GraphModule:
    return (graph_module_cls or GraphModule)(*args, **kwargs)


class _LazyGraphModule(GraphModule):
    """Graph modules write their code when they are made; this class is one of them."""

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> GraphModule:
        """The module itself."""
        return gm

    @staticmethod
    def force_recompile(gm: Any) -> None:
        """Nothing: the code is there already."""

    def real_recompile(self) -> None:
        """Nothing: the code is there already."""
