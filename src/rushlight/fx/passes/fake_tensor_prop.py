"""Runs a graph on fake tensors and writes what each node would give into its ``meta``."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor, fx
from rushlight._subclasses import FakeTensor, FakeTensorMode
from rushlight.fx.passes.shape_prop import _extract_tensor_metadata
from rushlight.utils._pytree import tree_map

__all__ = ["FakeTensorProp"]


class FakeTensorProp(fx.Interpreter):
    """Shapes of every node without computing: ``node.meta["val"]`` is a fake tensor.

    >>> import rushlight as torch
    >>> from rushlight.fx.passes.fake_tensor_prop import FakeTensorProp
    >>> graph = torch.fx.symbolic_trace(torch.nn.Linear(3, 4))
    >>> FakeTensorProp(graph).propagate(torch.ones(2, 3))
    FakeTensor(..., size=(2, 4))
    >>> [tuple(node.meta["val"].shape) for node in graph.graph.nodes]
    [(2, 3), (4, 3), (4,), (2, 4), (2, 4)]
    """

    def __init__(self, module: fx.GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = mode or FakeTensorMode(allow_non_fake_inputs=True)

    def run_node(self, n: fx.Node) -> Any:
        """Runs a node and remembers its result."""
        result = tree_map(self._faked, super().run_node(n))
        n.meta["val"] = result
        if isinstance(result, Tensor):
            n.meta["tensor_meta"] = _extract_tensor_metadata(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Runs the graph on real or fake arguments."""
        return self.propagate_dont_convert_inputs(*map(self._faked, args))

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Runs the graph on fake arguments."""
        with self._mode:
            return super().run(*args)

    def _faked(self, value: Any) -> Any:
        if isinstance(value, Tensor) and not isinstance(value, FakeTensor):
            return self._mode.from_tensor(value)
        return value
