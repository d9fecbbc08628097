"""Shapes and dtypes of the values of a graph, for example inputs."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

import rushlight
from rushlight._C import Tensor
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor.

    >>> from rushlight.fx.passes.shape_prop import TensorMetadata
    >>> TensorMetadata._fields[:4]
    ('shape', 'dtype', 'requires_grad', 'stride')
    """

    shape: rushlight.Size
    dtype: rushlight.dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: rushlight.memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    """What is known of a tensor; its memory format, if it is a known one."""
    kinds = {
        rushlight.contiguous_format: True,
        rushlight.channels_last: result.dim() == 4,
        rushlight.channels_last_3d: result.dim() == 5,
    }
    fits = (
        f for f, possible in kinds.items() if possible and result.is_contiguous(memory_format=f)
    )
    layout = next(fits, None) if include_contiguity else None
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), layout, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph and notes in each node's ``meta`` what its value was: shape, dtype, type.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.shape_prop import ShapeProp
    >>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 5)))
    >>> _ = ShapeProp(traced).propagate(torch.ones(2, 3))
    >>> for node in traced.graph.nodes:
    ...     print(node.name, node.meta["tensor_meta"].shape)
    input_1 torch.Size([2, 3])
    _0 torch.Size([2, 5])
    output torch.Size([2, 5])
    """

    def __init__(self, gm: GraphModule, fake_mode: Any = None) -> None:
        super().__init__(gm)
        self.fake_mode = fake_mode
        self.fake_module = None
        self.real_module = self.module

    def run_node(self, n: Node) -> Any:
        """The value of a node, noted in its ``meta``."""
        try:
            if self.fake_mode is None:
                result = super().run_node(n)
            else:
                with self.fake_mode:
                    result = super().run_node(n)
        except Exception as error:
            traceback.print_exc()
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        found = False

        def described(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, described)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph on example inputs and gives its result."""
        return self.run(*args)
