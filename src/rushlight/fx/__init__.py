"""Programs as graphs: modules and functions traced, changed, and run again as Python code.

>>> import rushlight as torch
>>> class Net(torch.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.layer = torch.nn.Linear(4, 5)
...     def forward(self, x):
...         return self.layer(x + 1).clamp(min=0.0)
>>> traced = torch.fx.symbolic_trace(Net())
>>> print(traced.code.strip())
def forward(self, x):
    add = x + 1;  x = None
    layer = self.layer(add);  add = None
    clamp = layer.clamp(min = 0.0);  layer = None
    return clamp
"""

from rushlight.fx import immutable_collections as immutable_collections
from rushlight.fx._symbolic_trace import PH as PH
from rushlight.fx._symbolic_trace import ProxyableClassMeta as ProxyableClassMeta
from rushlight.fx._symbolic_trace import Tracer, symbolic_trace, wrap
from rushlight.fx.graph import CodeGen as CodeGen
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter, Transformer
from rushlight.fx.node import Node, has_side_effect, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
