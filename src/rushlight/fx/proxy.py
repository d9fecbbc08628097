"""Proxies: what flows through a program while it is traced, and tracers, which write nodes down."""

from __future__ import annotations

import copy
import dis
import enum
import inspect
import linecache
import operator
import os
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType
from typing import Any

import rushlight
from rushlight.fx import _names
from rushlight.fx import traceback as fx_traceback
from rushlight.fx._codegen import inplace_methods, magic_methods, reflectable_magic_methods
from rushlight.fx.graph import Graph
from rushlight.fx.node import Argument, Node, Target, base_types, map_aggregate, map_arg
from rushlight.fx.operator_schemas import check_for_mutable_operation

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "MetaProxy",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
    "assert_fn",
]

_PACKAGE = os.path.dirname(os.path.abspath(rushlight.__file__)) + os.sep
# What new nodes take over of the metadata that is current.
_COPY_META_FIELDS = [
    "nn_module_stack", "torch_fn", "source_fn_stack", "original_aten", "recompute", "ac_graph_id",
    "has_backward_hook", "from_node", "quantization_tag", "_numeric_debug_handle", "custom",
    "partitioner_tag",
]  # fmt: skip


class Scope:
    """The module that is being traced: its path and class.

    >>> from rushlight.fx.proxy import Scope
    >>> Scope("layer.0", None).module_path
    'layer.0'
    """

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Within it, a scope is another one.

    >>> from rushlight.fx.proxy import Scope, ScopeContextManager
    >>> with ScopeContextManager(Scope("", None), Scope("layer", int)) as scope:
    ...     scope.module_path
    'layer'
    """

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._prev_scope, self._scope = copy.copy(scope), scope
        scope.__dict__.update(vars(current_scope))

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *args: object) -> None:
        self._scope.__dict__.update(vars(self._prev_scope))


class TraceError(ValueError):
    """A program does with a proxy what needs its value.

    >>> import rushlight as torch
    >>> torch.fx.symbolic_trace(lambda x: 1 if x else 2)
    Traceback (most recent call last):
        ...
    rushlight.fx.proxy.TraceError: symbolically traced variables cannot be used as inputs to ...
    """


def _user_frame() -> FrameType | None:
    """The frame of the program that is traced: the innermost one outside the library."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return frame


def _at_user_line() -> str:
    """``: file.py:3: if x > 0:``, the line of the program that is traced."""
    frame = _user_frame()
    if frame is None:
        return ""
    name, number = frame.f_code.co_filename, frame.f_lineno
    line = linecache.getline(name, number).strip()
    return f" ({name}:{number}{': ' + line if line else ''})"


class TracerBase:
    """Writes nodes into a graph, and decides what a program may do with proxies.

    >>> import rushlight as torch
    >>> issubclass(torch.fx.Tracer, torch.fx.proxy.TracerBase)
    True
    """

    graph: Graph
    record_stack_traces: bool = False
    _record_forward_stack_traces_only: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, type]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Adds a node to the graph; subclasses may check or change what it gets."""
        if kind == "call_function" and self.check_mutable_operations:
            check_for_mutable_operation(target, args, kwargs)  # type: ignore[arg-type]
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = self.scope.module_path, self.scope.module_type
        if fx_traceback.has_preserved_node_meta():
            current = fx_traceback.get_current_meta()
            if current.get("stack_trace"):
                node.stack_trace = current["stack_trace"]
            for field in _COPY_META_FIELDS:
                if field in current:
                    node.meta[field] = copy.copy(current[field])
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            frames = self._filter_traceback_frames(traceback.extract_stack())
            if frames:
                node.stack_trace = "".join(frames.format()).strip()
        return node

    def _filter_traceback_frames(
        self, user_stack_summary: traceback.StackSummary
    ) -> traceback.StackSummary:
        """The frames of a stack that a node keeps: the traced program's."""
        frames = list(user_stack_summary)
        if self._record_forward_stack_traces_only:
            kept = [frame for frame in frames if frame.name == "forward"]
        else:
            first = next((i for i, f in enumerate(frames) if f.name == "forward"), len(frames))
            kept = frames[first:]
        kept = [frame for frame in kept if not frame.filename.startswith(_PACKAGE)]
        return traceback.StackSummary.from_list(kept)

    def proxy(self, node: Node) -> Proxy:
        """The proxy for a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Adds a node and gives the proxy for it; proxies among the arguments become nodes."""
        given, named = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, given, named, name, type_expr)
        return proxy_factory_fn(node) if proxy_factory_fn else self.proxy(node)

    def _find_user_frame(self) -> FrameType | None:
        return _user_frame()

    def create_arg(self, a: Any) -> Argument:
        """What a node keeps for an argument: a node for a proxy, and so on within containers."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            items = [self.create_arg(item) for item in a]
            return type(a)(*items) if hasattr(a, "_fields") else type(a)(items)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._create_key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, (slice, range)):
            return type(a)(*(self.create_arg(part) for part in (a.start, a.stop, a.step)))
        if is_dataclass(a) and not isinstance(a, type):
            named = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", type(a), (), named)
        if isinstance(a, (*base_types, enum.Enum)) or a is None or a is ...:
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_key(self, key: Any) -> Any:
        """A key of a dict among the arguments; there may be no node in it."""
        if isinstance(key, str):
            return key

        def refuse(node: Node) -> None:
            raise RuntimeError(
                f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}"
            )

        made = self.create_arg(key)
        map_arg(made, refuse)
        return made

    def to_bool(self, obj: Proxy) -> bool:
        """What ``if x:`` means for a proxy; raises unless a subclass knows better."""
        raise TraceError(
            "symbolically traced variables cannot be used as inputs to control flow"
            f"{_at_user_line()}: give the argument it depends on by concrete_args, compute both "
            "and pick with torch.where, or keep the function whole with torch.fx.wrap"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """What ``for y in x`` means for a proxy; raises unless a subclass knows better."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a "
            f"loop or as a *args or **kwargs function argument{_at_user_line()}: index it in a "
            "loop over a known range, or keep the function whole with torch.fx.wrap"
        )

    def keys(self, obj: Proxy) -> Any:
        """What ``x.keys()``, and so ``**x``, means for a proxy."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """The tracer of proxies that are made by hand: it adds to the graph of their nodes.

    >>> import rushlight as torch
    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))
    >>> torch.sin(x) + 1
    Proxy(add)
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: object) -> None:
    """What an ``assert`` of a traced program becomes with ``trace_asserts``.

    >>> from rushlight.fx.proxy import assert_fn
    >>> assert_fn(True)
    """
    if not x:
        raise AssertionError("Assertion failed")


# Beside a jump: from Python 3.13 on the truth is an instruction or part of the comparison.
_BESIDE_JUMPS = ("CACHE", "COMPARE_OP", "NOT_TAKEN", "TO_BOOL")


def _instructions(frame: FrameType) -> tuple[dis.Instruction, list[dis.Instruction]]:
    """The instruction that a frame is at, and those that follow."""
    every = list(dis.get_instructions(frame.f_code))
    at = next(i for i, each in enumerate(every) if each.offset >= frame.f_lasti)
    return every[at], every[at + 1 :]


class Proxy:
    """Stands for the value of a node: what is done with it is written down as more nodes.

    Around a node of one's own graph it adds to that graph, which saves writing nodes by hand.

    >>> import rushlight as torch
    >>> graph = torch.fx.Graph()
    >>> x = torch.fx.Proxy(graph.placeholder("x"))
    >>> y = torch.relu(x).sum(dim=0) * 2
    >>> [node.name for node in graph.nodes]
    ['x', 'relu', 'sum_1', 'mul']
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, d: dict[str, Any]) -> None:
        self.__dict__ = d

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        new = Proxy.__new__(Proxy)
        for key, value in self.__dict__.items():
            try:
                new.__dict__[key] = copy.deepcopy(value, memo)
            except Exception:
                new.__dict__[key] = copy.copy(value)
        return new

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        # `a, b = x` says how many there are.
        instruction, _ = _instructions(inspect.currentframe().f_back)  # type: ignore
        if instruction.opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(instruction.argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            instruction, following = _instructions(inspect.currentframe().f_back)  # type: ignore
            steps = [i for i in (instruction, *following[:4]) if i.opname not in _BESIDE_JUMPS]
            jumps = steps[0].opname.replace("FORWARD_", "") == "POP_JUMP_IF_TRUE"
            raised = steps[1].opname, steps[1].argrepr  # Python 3.14 has one opcode for constants
            if jumps and (raised[0] == "LOAD_ASSERTION_ERROR" or raised[1] == "AssertionError"):
                self.tracer.create_proxy("call_function", assert_fn, (self,), {})
                return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """``x.keys()``, as the tracer has it."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be "
            f"recorded, please call torch.fx.wrap('len') at module scope{_at_user_line()}"
        )

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def note(a: Any) -> None:
            if isinstance(a, cls):
                tracers.setdefault(a.tracer)

        map_aggregate(args, note)
        map_aggregate(kwargs, note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace "
                f"operations {orig_method}"
            )
        tracer = next(iter(tracers))
        # Some functions are at once methods; those of proxies do not come here.
        method = _names.is_method(orig_method) and not (
            _names.is_shared(orig_method) and isinstance(args[0], Proxy)
        )
        if method or _names.calls_method(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        args, kwargs = _names.written_form(orig_method, args, kwargs)
        name = _names.qualified_name(orig_method).rpartition(".")[2]
        name = tracer.graph._target_to_str(name)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


class MetaProxy(Proxy):
    """A proxy that also computes: ``meta["val"]`` of its node is the value, within `fake_mode`.

    >>> import contextlib
    >>> import rushlight as torch
    >>> node = torch.fx.Graph().placeholder("x")
    >>> node.meta["val"] = torch.empty(2, 3, device="meta")
    >>> x = torch.fx.proxy.MetaProxy(node, fake_mode=contextlib.nullcontext())
    >>> torch.sum(x, 0).node.meta["val"].shape
    torch.Size([3])
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None, fake_mode: Any = None) -> None:
        super().__init__(node, tracer)
        self.fake_mode = fake_mode

    def __repr__(self) -> str:
        return f"MetaProxy({self.node.name})"

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = next((a for a in args if isinstance(a, MetaProxy)), None)
        if given is None:
            raise AssertionError("No MetaProxy found in arguments, but one is expected.")
        made = super().__torch_function__(orig_method, types, args, kwargs)
        with given.fake_mode:
            made.node.meta["val"] = orig_method(
                *(a.node.meta["val"] if isinstance(a, Proxy) else a for a in args), **kwargs or {}
            )
        return MetaProxy(made.node, made.tracer, given.fake_mode)


class Attribute(Proxy):
    """An attribute of a proxy. A call of it is a method's; else it becomes a node when it is used.

    >>> import rushlight as torch
    >>> x = torch.fx.Proxy(torch.fx.Graph().placeholder("x"))
    >>> type(x.shape).__name__, x.shape[0]
    ('Attribute', Proxy(getitem))
    """

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of the attribute's value."""
        if self._node is None:
            made = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {})
            self._node = made.node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The proxy of a parameter whose shape is known.

    >>> import rushlight as torch
    >>> class M(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.weight = torch.nn.Parameter(torch.ones(3))
    ...     def forward(self, x):
    ...         return x if self.weight.shape[0] == 3 else -x
    >>> graph = torch.fx.Tracer(param_shapes_constant=True).trace(M())
    """

    def __init__(
        self, tracer: TracerBase, node: Node, name: str, param: rushlight.nn.Parameter
    ) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, rushlight.nn.Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> rushlight.Size:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> rushlight.Size:
        """The parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """The parameter's number of elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """The parameter's number of elements."""
        return self.param.nelement()


class _WrittenProxy(Proxy):
    """A proxy that may be written to, as the code of graphs does."""


def _define_in_place(name: str) -> None:
    def impl(self: Proxy, *others: Any) -> Proxy:
        args = (self, *others)
        return self.tracer.create_proxy("call_function", getattr(operator, name), args, {})

    setattr(_WrittenProxy, f"__{name}__", impl)


for _name in inplace_methods:
    _define_in_place(_name)


def _define_operator(name: str, reflected: bool) -> None:
    def impl(self: Proxy, *others: Any) -> Proxy:
        args = (*others, self) if reflected else (self, *others)
        return self.tracer.create_proxy("call_function", getattr(operator, name), args, {})

    impl.__name__ = impl.__qualname__ = f"__{'r' if reflected else ''}{name.strip('_')}__"
    setattr(Proxy, impl.__name__, impl)


for _name in magic_methods:
    if hasattr(operator, _name):
        _define_operator(_name, reflected=False)
for _name in reflectable_magic_methods:
    if hasattr(operator, _name):
        _define_operator(_name, reflected=True)
