"""Graphs: lists of calls that make up a function."""

from __future__ import annotations

import contextlib
import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight._functions import typename
from rushlight.fx._codegen import (
    CodeGen,
    PythonCode,
    TransformCodeFunc,
)
from rushlight.fx._codegen import (
    _BoxedCodeGen as _BoxedCodeGen,
)
from rushlight.fx._codegen import (
    _format_target as _format_target,
)
from rushlight.fx._codegen import (
    _override_sym_repr as _override_sym_repr,
)
from rushlight.fx._codegen import (
    _parse_stack_trace as _parse_stack_trace,
)
from rushlight.fx._codegen import (
    _ParsedStackTrace as _ParsedStackTrace,
)
from rushlight.fx._codegen import (
    _PyTreeCodeGen as _PyTreeCodeGen,
)
from rushlight.fx._codegen import (
    _PyTreeInfo as _PyTreeInfo,
)
from rushlight.fx._codegen import (
    inplace_methods as inplace_methods,
)
from rushlight.fx._codegen import (
    magic_methods as magic_methods,
)
from rushlight.fx._codegen import (
    reflectable_magic_methods as reflectable_magic_methods,
)
from rushlight.fx._namespace import (
    _custom_builtins as _custom_builtins,
)
from rushlight.fx._namespace import (
    _CustomBuiltin as _CustomBuiltin,
)
from rushlight.fx._namespace import (
    _is_from_torch as _is_from_torch,
)
from rushlight.fx._namespace import (
    _is_magic,
    _Namespace,
    _snake_case,
)
from rushlight.fx._namespace import (
    _register_custom_builtin as _register_custom_builtin,
)
from rushlight.fx._node_list import _FindNodesLookupTable, _InsertPoint, _node_list
from rushlight.fx.immutable_collections import immutable_dict
from rushlight.fx.node import Argument, Node, Target, map_arg

if TYPE_CHECKING:
    from rushlight.fx._symbolic_trace import Tracer
    from rushlight.fx.graph_module import GraphModule

__all__ = ["CodeGen", "Graph", "PythonCode"]

_legal_ops = dict.fromkeys(
    ["call_function", "call_method", "get_attr", "call_module", "placeholder", "output"]
)


class Graph:
    """A function as a list of nodes: inputs, calls, and what is returned.

    Built by :func:`symbolic_trace`, or by hand with the methods that make nodes. Nodes are added at
    the insert point, which is the end unless ``inserting_before`` or ``inserting_after`` set it.

    >>> import rushlight as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(torch.sin, (x,))
    >>> _ = graph.output(graph.call_method("mul", (y, 2)))
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %sin : [num_users=1] = call_function[target=torch.sin](args = (%x,), kwargs = {})
        %mul : [num_users=1] = call_method[target=mul](args = (%sin, 2), kwargs = {})
        return mul
    >>> torch.fx.GraphModule({}, graph)(torch.zeros(2))
    tensor([0., 0.])
    """

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._find_nodes_lookup_table = _FindNodesLookupTable()
        self._owning_module = owning_module
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}

    @property
    def owning_module(self) -> GraphModule | None:
        """The module whose ``forward`` it is, if any."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: GraphModule | None) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _node_list:
        """The nodes in order; nodes may be added and erased while one goes through them."""
        return _node_list(self)

    def output_node(self) -> Node:
        """The node that returns, which is the last one."""
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError(f"Expected output node, got op={node.op}")
        return node

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """The nodes of a kind, and with a target; for functions the target must be given.

        >>> import rushlight as torch
        >>> graph = torch.fx.symbolic_trace(lambda x: torch.sin(torch.sin(x))).graph
        >>> graph.find_nodes(op="call_function", target=torch.sin)
        [sin, sin_1]
        """
        found = self._find_nodes_lookup_table.find_nodes(op=op, target=target)
        return sorted(found) if sort else found

    # Copies.

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Any:
        """Copies the nodes of another graph to the insert point, all but its output.

        `val_map` says which nodes stand for which, and learns the copies; nodes that it has are not
        copied. Returns what stands for the other graph's result.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: dict[Any, Any] | None = None) -> Graph:
        new = Graph(tracer_cls=self._tracer_cls)
        copied = new.graph_copy(self, memo if memo else {}, return_output_node=True)
        new._codegen = copy.deepcopy(self._codegen)
        if copied is not None:
            result, old = copied
            output = new.output(result, type_expr=old.type)
            output.meta = copy.copy(old.meta)
        return new

    def node_copy(
        self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x
    ) -> Node:
        """Copies a node of another graph; `arg_transform` says what stands for its arguments."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        new = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        new.meta = copy.copy(node.meta)
        return new

    # New nodes.

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Adds a node of any kind; `name` is what its value is called, if that is free."""
        if args is not None and not isinstance(args, tuple):
            raise AssertionError(f"args must be a tuple, got {type(args)}")
        if kwargs is not None and not isinstance(kwargs, dict):
            raise AssertionError(f"kwargs must be a dict, got {type(kwargs)}")
        wanted = name if name is not None else self._target_to_str(target)
        name = self._graph_namespace.create_name(wanted, None)
        node = Node(self, name, op, target, args or (), kwargs or immutable_dict(), type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", None) or ():
            hook(node)
        self._graph_namespace.associate_name_with_obj(name, node)
        self._insert(node)
        self._find_nodes_lookup_table.insert(node)
        self._len += 1
        return node

    def placeholder(
        self,
        name: str,
        type_expr: Any | None = None,
        default_value: Any = inspect.Signature.empty,
    ) -> Node:
        """Adds an input."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Adds an attribute of the owning module, by its path: ``"layer.weight"``."""
        if self.owning_module is not None and not self._holds(qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule, "
                "GraphModule.add_parameter to add the necessary Parameter, or "
                "nn.Module.register_buffer to add the necessary buffer",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def _holds(self, path: str) -> bool:
        """Whether the owning module has a module, parameter or buffer of that path."""
        holder, _, name = path.rpartition(".")
        try:
            module = self.owning_module.get_submodule(holder)  # type: ignore[union-attr]
        except AttributeError:
            warnings.warn(f"Failed to fetch module {holder}!", stacklevel=3)
            return False
        value = getattr(module, name, None)
        kinds = (rushlight.nn.Module, rushlight.nn.Parameter)
        return isinstance(value, kinds) or name in module._buffers

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Adds a call of a submodule of the owning module, by its path."""
        owner = self.owning_module
        if owner is not None and owner.get_submodule(module_name) is None:
            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning "
                "GraphModule! Call GraphModule.add_submodule to add the necessary submodule",
                stacklevel=2,
            )
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Adds a call of a method of ``args[0]``."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Adds a call of a function."""
        return self.create_node(
            "call_function", the_function, args, kwargs, name=name, type_expr=type_expr
        )

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Adds the node that returns."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def create_size_node(self, tensor_node: Node, dim: int) -> Node:
        """Adds ``tensor.size(dim)``."""
        return self.call_method("size", (tensor_node, dim))

    def create_stride_node(self, tensor_node: Node, dim: int) -> Node:
        """Adds ``tensor.stride(dim)``."""
        return self.call_method("stride", (tensor_node, dim))

    def create_storage_offset_node(self, tensor_node: Node) -> Node:
        """Adds ``tensor.storage_offset()``."""
        return self.call_method("storage_offset", (tensor_node,))

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go before a node (none: to the beginning), until the ``with`` block ends.

        >>> import rushlight as torch
        >>> traced = torch.fx.symbolic_trace(lambda x: x + 1)
        >>> add = traced.graph.output_node().args[0]
        >>> with traced.graph.inserting_before(add):
        ...     add.update_arg(0, traced.graph.call_function(torch.neg, add.args[:1]))
        >>> print(traced.recompile().src.strip())
        def forward(self, x):
            neg = torch.neg(x);  x = None
            add = neg + 1;  neg = None
            return add
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go after a node (none: to the end), until the ``with`` block ends."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Removes a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in "
                f"the graph: {to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", None) or ():
            hook(to_erase)
        self._find_nodes_lookup_table.remove(to_erase)
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        args, kwargs = to_erase._args, to_erase._kwargs
        to_erase._update_args_kwargs(map_arg(args, lambda n: None), map_arg(kwargs, lambda n: None))

    def _clear_nodes(self) -> None:
        for node in reversed(self.nodes):
            node.meta.clear()
            self.erase_node(node)

    def process_inputs(self, *args: Any) -> Any:
        """The values of the placeholders for the arguments of the function."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """What the function returns for what the output node holds."""
        return self._codegen.process_outputs(out)

    # Texts.

    def _target_to_str(self, target: Target) -> str:
        if callable(target):
            return _snake_case(target.__name__)
        if not isinstance(target, str):
            raise AssertionError(f"Expected target to be str, got {type(target)}")
        return _snake_case(target[2:-2] if _is_magic(target) else target)

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """The graph as Python code; `root_module` is what the code calls the module.

        `verbose` adds comments that cite stack traces, and the dtypes and shapes of values.
        """
        # Names in the code must differ from those of what the code refers to, so nodes get new
        # ones, and print as these meanwhile.
        namespace = _Namespace()
        before = {node: node._repr_fn for node in self.nodes}
        for node in before:
            node._repr_fn = lambda n: namespace.create_name(n.name, n)
        try:
            return self._codegen._gen_python_code(
                self.nodes,
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                colored=colored,
                expanded_def=expanded_def,
                additional_meta=additional_meta,
            )
        finally:
            for node, shown in before.items():
                node._repr_fn = shown

    def __str__(self) -> str:
        names: list[str] = []
        returns = [""]
        lines = [node.format_node(names) for node in self.nodes]
        header = f"graph({', '.join(names)}){returns[0]}:"
        return "\n    ".join([header, *(line for line in lines if line)])

    def print_tabular(self) -> None:
        """Prints the nodes as a table; needs the package ``tabulate``."""
        try:
            from tabulate import tabulate  # type: ignore[import-untyped]
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on "
                "this machine. Run `pip install tabulate` to install the library."
            )
            raise
        rows = [[n.op, n.name, n.target, n.args, n.kwargs] for n in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    # Order and dead code.

    def lint(self) -> None:
        """Raises if the graph is not well formed: order, owners, names, targets.

        >>> import rushlight as torch
        >>> graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
        >>> graph.lint()
        >>> add = graph.output_node().args[0]
        >>> add.append(add.args[0])
        >>> graph.lint()
        Traceback (most recent call last):
            ...
        RuntimeError: Argument 'x' of Node 'add' was used before it has been defined! ...
        """
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.op not in _legal_ops:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            if node not in self._find_nodes_lookup_table:
                raise RuntimeError(f"Node '{node}' is not added to the side table")
            for arg in node._input_nodes:
                if arg.graph is not self:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' does not belong to this Graph, but was "
                        "used as an argument! If you are copying nodes from another graph, make "
                        f"sure to use ``arg_transform`` on node_copy() to remap values\n{self}"
                    )
                if arg not in seen:
                    raise RuntimeError(
                        f"Argument '{arg}' of Node '{node}' was used before it has been defined! "
                        "Please check that Nodes in the graph are topologically ordered"
                        f"\n{self}"
                    )
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                self._lint_target(node)

    def _lint_target(self, node: Node) -> None:
        function = node.op == "call_function"
        if not (callable(node.target) if function else isinstance(node.target, str)):
            raise ValueError(
                f"Node {node} target {node.target} has type {typename(node.target)} but a "
                f"{'Callable' if function else 'str'} is expected"
            )
        if node.op not in ("get_attr", "call_module"):
            return
        value: Any = self.owning_module
        parts = node.target.split(".")
        for i, part in enumerate(parts):
            value, path = getattr(value, part, None), ".".join(parts[:i])
            if value is None:
                raise RuntimeError(
                    f"Node {node} target {node.target} references nonexistent attribute {part} of "
                    f"{path}"
                )
            if node.op == "call_module" and not isinstance(value, rushlight.nn.Module):
                raise RuntimeError(
                    f"Node {node} target {node.target} {part} of {path} does not reference an "
                    "nn.Module"
                )

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Removes nodes whose values nobody uses; whether there were any.

        Nodes for which `is_impure_node` (else :meth:`Node.is_impure`) holds stay. Methods that
        write, such as ``add_``, are not known to: use their result, or say so.

        >>> import rushlight as torch
        >>> def f(x):
        ...     torch.sin(x)
        ...     return x + 1
        >>> graph = torch.fx.symbolic_trace(f).graph
        >>> graph.eliminate_dead_code(), [node.name for node in graph.nodes]
        (True, ['x', 'add', 'output'])
        """
        self.lint()
        impure = is_impure_node or Node.is_impure
        dead = 0
        for node in reversed(self.nodes):
            if not node.users and not impure(node):
                self.erase_node(node)
                dead += 1
        changed = dead > 0
        if self.owning_module is not None:
            used = {node.target for node in self.find_nodes(op="get_attr", sort=False)}
            for name, child in self.owning_module.named_children():
                if name in used and isinstance(child, rushlight.fx.GraphModule):
                    changed |= child.graph.eliminate_dead_code()
                    child.recompile()
        return changed

    def set_codegen(self, codegen: CodeGen) -> None:
        """Sets what writes the graph as code."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> contextlib.AbstractContextManager[None]:
        """Has a function change the lines of the generated code's body.

        `make_transformer` gets the present such function, or None, and returns the new one. As a
        context manager it puts the old one back at the end.

        >>> import rushlight as torch
        >>> traced = torch.fx.symbolic_trace(lambda x: x + 1)
        >>> with traced.graph.on_generate_code(lambda _: lambda body: ["print('hi')\\n", *body]):
        ...     _ = traced.recompile()
        >>> traced(1)
        hi
        2
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextlib.contextmanager
        def restored() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restored()
