"""Nodes: the calls that a graph consists of."""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight._functions import typename
from rushlight.fx import _names
from rushlight.fx.immutable_collections import immutable_dict, immutable_list
from rushlight.utils._dtype_abbrs import dtype_abbrs

if TYPE_CHECKING:
    from rushlight.fx.graph import Graph
    from rushlight.fx.operator_schemas import ArgsKwargsPair

__all__ = ["Node", "has_side_effect", "map_aggregate", "map_arg"]

BaseArgumentTypes = (
    str, int, float, bool, complex, rushlight.dtype, rushlight.Tensor, rushlight.device,
    rushlight.memory_format, rushlight.layout,
)  # fmt: skip
base_types = BaseArgumentTypes

Target = Callable[..., Any] | str
Argument = Any

_legal_ops = dict.fromkeys(
    ["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"]
)

_side_effectful_functions: set[Callable[..., Any]] = {
    rushlight._assert,
    operator.setitem,
}


def has_side_effect(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Keeps calls of a function in graphs even where their results are not used.

    >>> import rushlight as torch
    >>> @torch.fx.has_side_effect
    ... def log(x):
    ...     print(x)
    >>> torch.fx.wrap("log")
    'log'
    """
    _side_effectful_functions.add(fn)
    return fn


def _type_repr(obj: object) -> str:
    """A type as programs write it; anything else as it prints."""
    generic = isinstance(obj, types.GenericAlias)
    if isinstance(obj, type) and not generic:
        if obj.__module__ == "builtins":
            return obj.__qualname__
        return f"{_names.public_module(obj.__module__)}.{obj.__qualname__}"
    if obj is ...:
        return "..."
    if isinstance(obj, types.FunctionType):
        return obj.__name__
    return repr(obj).replace("rushlight.", "torch.")


_get_qualified_name = _names.qualified_name


def _format_arg(arg: object, max_list_len: float = float("inf")) -> str:
    custom = getattr(arg, "_custom_fx_repr_fn", None)
    if custom is not None:
        return str(custom())
    if isinstance(arg, (list, tuple)):
        items = ", ".join(_format_arg(a) for i, a in enumerate(arg) if i < max_list_len)
        cut = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
        if isinstance(arg, list):
            return f"[{items}{cut}]"
        return f"({items}{',' if len(arg) == 1 else ''}{cut})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Applies a function to what lists, tuples, dicts and slices hold, however deep.

    >>> import rushlight as torch
    >>> torch.fx.node.map_aggregate((1, [2, {"a": 3}]), lambda x: 10 * x)
    (10, [20, {'a': 30}])
    """
    if isinstance(a, tuple):
        items = [map_aggregate(item, fn) for item in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return immutable_list([map_aggregate(item, fn) for item in a])
    if isinstance(a, dict):
        return immutable_dict((k, map_aggregate(v, fn)) for k, v in a.items())
    if isinstance(a, slice):
        return slice(*(map_aggregate(part, fn) for part in (a.start, a.stop, a.step)))
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Applies a function to the nodes among arguments.

    >>> import rushlight as torch
    >>> graph = torch.fx.Graph()
    >>> x = graph.placeholder("x")
    >>> torch.fx.map_arg([x, 1, (x,)], lambda node: node.name)
    ['x', 1, ('x',)]
    """
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def _between(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    """A key that sorts after one and before the other; an empty `after` is the end."""
    if len(before) > len(after):
        return (*before[: len(after)], before[len(after)] + 1)
    if len(before) < len(after):
        return (*after[: len(before)], after[len(before)] - 1)
    return (*before, 0)


class Node:
    """A value of a graph: an input, an attribute, a call, or what is returned.

    ``op`` says which: ``placeholder`` (an input; ``args`` holds its default), ``get_attr`` (an
    attribute of the module, by its path), ``call_function``, ``call_method`` (on ``args[0]``),
    ``call_module`` (a submodule, by its path) or ``output`` (``args[0]`` is returned). ``target``
    is what is fetched or called. Other nodes stand in ``args`` and ``kwargs`` for their values;
    ``users`` are the nodes that this one is an argument of.

    >>> import rushlight as torch
    >>> graph = torch.fx.symbolic_trace(lambda x: torch.add(x, 1)).graph
    >>> for node in graph.nodes:
    ...     print(node.op, node.name, node.target if node.op == "placeholder" else node.args)
    placeholder x x
    call_function add (x, 1)
    output output (add,)
    """

    _args: tuple[Any, ...]
    _kwargs: dict[str, Any]
    graph: Graph
    name: str
    op: str
    target: Any
    type: Any
    users: dict[Node, None]
    meta: dict[str, Any]
    _prev: Node
    _next: Node
    _sort_key: tuple[int, ...]
    _input_nodes: dict[Node, None]
    _erased: bool
    _repr_fn: Callable[[Node], str] | None

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        return_type: Any | None = None,
    ) -> None:
        expected = "Callable" if op == "call_function" else "str"
        if op not in _legal_ops:
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type "
                f"{typename(target)} but a {expected} is expected"
            )
        fields = self.__dict__
        fields.update(graph=graph, name=name, op=op, target=target, type=return_type)
        fields.update(users={}, meta={}, _args=(), _kwargs=immutable_dict(), _input_nodes={})
        fields.update(_prev=self, _next=self, _sort_key=(), _erased=False, _repr_fn=None)
        self._update_args_kwargs(args, kwargs)

    # What the list of nodes is made of.

    @property
    def next(self) -> Node:
        """The node that follows in the graph."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node that precedes in the graph."""
        return self._prev

    def _remove_from_list(self) -> None:
        before, after = self._prev, self._next
        before.__dict__["_next"], after.__dict__["_prev"] = after, before

    def prepend(self, x: Node) -> None:
        """Moves `x`, a node of the same graph, to stand before this one."""
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        x.__dict__.update(_prev=before, _next=self)
        before.__dict__["_next"] = self.__dict__["_prev"] = x
        x.__dict__["_sort_key"] = _between(before._sort_key, self._sort_key)

    _prepend = prepend

    def append(self, x: Node) -> None:
        """Moves `x`, a node of the same graph, to stand after this one."""
        self._next.prepend(x)

    def __lt__(self, other: Node) -> bool:
        return self._sort_key < other._sort_key

    def __gt__(self, other: Node) -> bool:
        return self._sort_key > other._sort_key

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # Arguments, and who uses whom.

    def _update_args_kwargs(self, args: Any, kwargs: Any) -> None:
        for used in self._input_nodes:
            used.users.pop(self, None)
        inputs: dict[Node, None] = {}

        def note(x: Any) -> Any:
            if isinstance(x, Node):
                inputs.setdefault(x)
                x.users.setdefault(self)
            return x

        fields = self.__dict__
        fields["_args"], fields["_kwargs"] = map_aggregate(args, note), map_aggregate(kwargs, note)
        fields["_input_nodes"] = inputs

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments; assigning new ones keeps ``users`` right."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments; assigning new ones keeps ``users`` right."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._update_args_kwargs(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Sets a positional argument."""
        args = list(self.args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Adds a positional argument before the one at `idx`."""
        if not 0 <= idx <= len(self.args):
            raise AssertionError(
                f"insert_args index must be between 0 and len(self.args), got {idx}"
            )
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Sets a keyword argument."""
        self.kwargs = {**self.kwargs, key: arg}

    def _replace_input_with(self, old: Node, new: Argument) -> None:
        def swap(node: Node) -> Argument:
            return new if node is old else node

        self._update_args_kwargs(map_arg(self._args, swap), map_arg(self._kwargs, swap))

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Puts another node in the place of one among the arguments."""
        for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
            hook(old=old_input, new=new_input.name, user=self)
        self._replace_input_with(old_input, new_input)

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] | None = None,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Puts another node in this one's place wherever it is used.

        Only users for which `delete_user_cb` holds, if it is given. Returns the changed nodes.

        >>> import rushlight as torch
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.neg(x) + 1)
        >>> neg = traced.graph.find_nodes(op="call_function", target=torch.neg)[0]
        >>> with traced.graph.inserting_after(neg):
        ...     new = traced.graph.call_function(torch.exp, neg.args)
        >>> neg.replace_all_uses_with(new)
        [add]
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), "
                    "but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [u for u in self.users if delete_user_cb is None or delete_user_cb(u)]
        hooks = getattr(self.graph.owning_module, "_replace_hooks", None) or ()
        for user in changed:
            for hook in hooks:
                hook(old=self, new=replace_with.name, user=user)
            user._replace_input_with(self, replace_with)
        return changed

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it must stay though nobody uses its value: inputs, outputs, side effects."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_module":
            if self.graph.owning_module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            module = self.graph.owning_module.get_submodule(self.target)
            return getattr(module, "_is_impure", False)
        if self.op != "call_function":
            return False
        if self.target in _side_effectful_functions:
            return True
        return impure_random and _draws(self.target)

    def normalized_arguments(
        self,
        root: rushlight.nn.Module,
        arg_types: tuple[Any] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """The arguments matched with the signature of what is called, defaults filled in.

        >>> import rushlight as torch
        >>> traced = torch.fx.symbolic_trace(lambda x: torch.conv2d(x, x, None, 2))
        >>> node = list(traced.graph.nodes)[1]
        >>> node.normalized_arguments(traced, (), {}, True).kwargs["stride"]
        2
        """
        from rushlight.fx.operator_schemas import normalize_function, normalize_module

        keywords = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return normalize_function(
                self.target, self.args, self.kwargs, arg_types, kwarg_types, keywords
            )
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, keywords)
        return None

    @property
    def stack_trace(self) -> str | None:
        """Where the program was when the node was made, if the tracer records it."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    @staticmethod
    def _pretty_print_target(target: object) -> str:
        if isinstance(target, str):
            return target
        module, name = getattr(target, "__module__", None), getattr(target, "__name__", None)
        if module in ("builtins", "_operator") and name is not None:
            return f"{module.lstrip('_')}.{name}"
        return _get_qualified_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as a line of text.

        >>> import rushlight as torch
        >>> graph = torch.fx.symbolic_trace(lambda x: torch.add(x, 1)).graph
        >>> print(list(graph.nodes)[1].format_node())
        %add : [num_users=1] = call_function[target=torch.add](args = (%x, 1), kwargs = {})
        """
        typed = f"{_type_repr(self.type)} " if self.type is not None else ""
        count = f"[num_users={len(self.users)}]"
        if self.op == "placeholder":
            if placeholder_names:
                named = f": {_type_repr(self.type)}" if self.type else ""
                placeholder_names.append(self.target + named)
                return None
            default = f"(default={self.args[0]})" if self.args else ""
            return f"%{self.name} : {typed}{count} = {self.op}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"%{self.name} : {typed}{count} = {self.op}[target={self.target}]"
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {_type_repr(self.type)}"
            return f"return {self.args[0]}"
        value = self.meta.get("val", self.meta.get("tensor_meta", self.meta.get("example_value")))
        if include_tensor_metadata and isinstance(value, rushlight.Tensor):
            typed = (
                f'Tensor "{dtype_abbrs[value.dtype]}{_in_brackets(value.shape)}'
                f'{_in_brackets(value.stride())}{value.device}"'
            )
        return (
            f"%{self.name} : {typed}{count} = "
            f"{self.op}[target={self._pretty_print_target(self.target)}]("
            f"args = {_format_arg(self.args)}, kwargs = {_format_arg(self.kwargs)})"
        )

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate, None)
            self.graph._graph_namespace._rename_object(self, self.name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "name":
            for hook in getattr(self.graph.owning_module, "_replace_hooks", None) or ():
                for user in self.users:
                    hook(old=self, new=value, user=user)
        table = self.graph._find_nodes_lookup_table
        if name in ("op", "target") and self in table:
            table.remove(self)
            object.__setattr__(self, name, value)
            table.insert(self)
        else:
            object.__setattr__(self, name, value)


def _in_brackets(values: Iterable[object]) -> str:
    return f"[{', '.join(map(str, values))}]"


def _draws(target: Any) -> bool:
    """Whether a function draws random numbers; dropout counts as a function of its input."""
    if not isinstance(target, _names.Op) or "dropout" in target.__name__:
        return False
    return any(p.annotation == "Generator?" for row in _names.op_parameters(target) for p in row)
