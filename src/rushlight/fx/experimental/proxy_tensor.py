"""Graphs of what a function does with given tensors, control flow and all."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import nn
from rushlight._C import Tensor
from rushlight.fx import _names
from rushlight.fx._patching import _Patcher
from rushlight.fx._symbolic_trace import Tracer
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_aggregate
from rushlight.overrides import TorchFunctionMode
from rushlight.utils import _pytree as pytree

__all__ = ["PythonKeyTracer", "get_proxy_mode", "make_fx"]

_active: list[_Recorder] = []


class PythonKeyTracer(Tracer):
    """Writes the nodes of :func:`make_fx`.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.proxy_tensor import PythonKeyTracer
    >>> issubclass(PythonKeyTracer, torch.fx.Tracer)
    True
    """

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())
        self.root = nn.Module()
        self.graph = Graph(tracer_cls=type(self))


class _Recorder(TorchFunctionMode):
    """Writes down each op on the tensors that it knows, and lets it run."""

    def __init__(self, tracer: PythonKeyTracer, table: dict[Any, Any]) -> None:
        super().__init__()
        self.tracer, self.table = tracer, table
        self.nodes: dict[int, Node] = {}
        self.kept: list[Any] = []  # a tensor's id stays its own as long as it lives

    def know(self, tensor: Tensor, node: Node) -> None:
        self.nodes[id(tensor)] = node
        self.kept.append(tensor)
        node.meta.setdefault("val", tensor.detach())

    def argument(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            if id(value) not in self.nodes:
                made = self.tracer.create_arg(value)
                self.know(value, made)
            return self.nodes[id(value)]
        return value

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _function(func) in self.table:
            with self:
                return self.table[_function(func)](*args, **kwargs)
        result = func(*args, **kwargs)
        found: list[Tensor] = []
        map_aggregate(result, lambda x: found.append(x) if isinstance(x, Tensor) else None)
        used: list[bool] = []
        map_aggregate((args, kwargs), lambda x: used.append(id(x) in self.nodes))
        writes = func.__name__ == "__setitem__"
        if not (found or writes) or not (any(used) or _makes_new(func)):
            return result
        given, named = map_aggregate(args, self.argument), map_aggregate(kwargs, self.argument)
        node = self._node(func, given, dict(named))
        self._know_all(result, node)
        return result

    def _node(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Node:
        create = self.tracer.create_node
        name = func.__name__
        if name == "__get__":  # of an attribute such as x.T
            return create("call_function", getattr, (args[0], func.__self__.__name__), {})
        if name in ("__getitem__", "__setitem__"):
            return create("call_function", getattr(operator, name.strip("_")), args, kwargs)
        target = _function(func)
        if isinstance(target, str):
            return create("call_method", target, args, kwargs)
        return create("call_function", target, args, kwargs, name)

    def _know_all(self, result: Any, node: Node) -> None:
        if isinstance(result, Tensor):
            self.know(result, node)
            return
        if isinstance(result, (tuple, list)):
            for i, item in enumerate(result):
                if isinstance(item, (Tensor, tuple, list)):
                    part = self.tracer.create_node("call_function", operator.getitem, (node, i), {})
                    self._know_all(item, part)


def _function(func: Any) -> Any:
    """What a node calls for an op: the function of a method's name, or else that name."""
    if not _names.is_method(func) or _names.is_shared(func):
        return func
    top = getattr(rushlight, func.__name__, None)
    return top if isinstance(top, _names.Op) else func.__name__


def _makes_new(func: Any) -> bool:
    """Whether a function draws random numbers, which must not become constants."""
    rows = _names.op_parameters(func) if isinstance(func, _names.Op) else []
    return any(p.annotation == "Generator?" for row in rows for p in row)


def _refuse(name: str) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            f"make_fx: {name} inside the function: gradients are computed in the core, so their "
            "operations cannot be written down; trace the function and differentiate the graph"
        )

    return refused


def _seen_data() -> Any:
    """``Tensor.data`` through an op, so that it is written down."""

    class Data(property):
        pass

    return Data(lambda tensor: tensor.detach(), vars(Tensor)["data"].__set__)


def get_proxy_mode() -> Any:
    """What records at the moment, or None.

    >>> from rushlight.fx.experimental.proxy_tensor import get_proxy_mode
    >>> get_proxy_mode() is None
    True
    """
    return _active[-1] if _active else None


def make_fx(
    f: Callable[..., Any],
    decomposition_table: dict[Any, Any] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
    record_stack_traces: bool = False,
) -> Callable[..., GraphModule]:
    """A function that runs `f` on given tensors and returns the graph of what it did with them.

    Control flow and Python values are what they were for these inputs; sizes are fixed. The nodes
    call ``torch`` functions, where PyTorch's call ``torch.ops.aten``. `decomposition_table` may
    give functions to trace in the place of others.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> def f(x):
    ...     return torch.sin(x) if x.sum() > 0 else -x
    >>> print(make_fx(f)(torch.ones(2)).code.strip())
    def forward(self, x_1):
        sum_1 = torch.sum(x_1)
        gt = torch.gt(sum_1, 0);  sum_1 = gt = None
        sin = torch.sin(x_1);  x_1 = None
        return sin
    """
    if tracing_mode not in ("real", "fake", "symbolic"):
        raise AssertionError(f"Unexpected tracing type: {tracing_mode}")

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> GraphModule:
        tracer = PythonKeyTracer()
        tracer.record_stack_traces = record_stack_traces
        recorder = _Recorder(tracer, decomposition_table or {})
        if isinstance(f, nn.Module):
            tracer.root = f
        names = list(inspect.signature(f.forward if isinstance(f, nn.Module) else f).parameters)
        for i, arg in enumerate(args):
            for leaf in pytree.tree_leaves(arg):
                label = names[i] if i < len(names) else "arg"
                node = tracer.create_node("placeholder", f"{label}_1", (), {}, f"{label}_1")
                node.target = node.name
                if isinstance(leaf, Tensor):
                    recorder.know(leaf, node)
        _active.append(recorder)
        try:
            with _Patcher() as patcher:
                patcher.patch(vars(rushlight.autograd), "grad", _refuse("autograd.grad"))
                patcher.patch_method(Tensor, "backward", _refuse("backward"))
                patcher.patch_method(Tensor, "data", _seen_data())
                with recorder:
                    result = f(*args, **kwargs)
        finally:
            _active.pop()
        made = map_aggregate(result, recorder.argument)
        tracer.create_node("output", "output", (made,), {})
        name = type(f).__name__ if isinstance(f, nn.Module) else f.__name__
        return GraphModule(tracer.root, tracer.graph, name)

    return wrapped
