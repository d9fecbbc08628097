"""Helpers of passes."""

from rushlight.fx.passes.utils.common import (
    HolderModule as HolderModule,
    compare_graphs as compare_graphs,
    lift_subgraph_as_module as lift_subgraph_as_module,
)
