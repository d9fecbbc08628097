"""Graphs as Python code."""

from __future__ import annotations

import contextlib
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import rushlight
from rushlight.fx import _pytree as fx_pytree
from rushlight.fx._namespace import _custom_builtins, _is_from_torch, _Namespace
from rushlight.fx.node import Node, _get_qualified_name, _in_brackets, _type_repr
from rushlight.fx.tensor_type import TensorType
from rushlight.utils import _pytree as pytree
from rushlight.utils._dtype_abbrs import dtype_abbrs

TransformCodeFunc = Callable[[list[str]], list[str]]

reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "div": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}
inplace_methods = {
    f"i{name.rstrip('_')}": text.replace(" {}", "= {}")
    for name, text in reflectable_magic_methods.items()
    if name not in ("getitem", "div")
} | {"setitem": "{}[{}] = {}"}

_COLORS = {
    "red": "\033[31m", "blue": "\033[34m", "dim": "\033[2m", "dim_blue": "\033[2m\033[34m",
    "dim_green": "\033[2m\033[32m",
}  # fmt: skip


@dataclass
class PythonCode:
    """A graph as text, and the objects that the text refers to.

    >>> import rushlight as torch
    >>> graph = torch.fx.symbolic_trace(lambda x: x + 1).graph
    >>> print(graph.python_code("self").src.strip())
    def forward(self, x):
        add = x + 1;  x = None
        return add
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None
    _prologue_start: int = 0


def _format_target(base: str, target: str) -> str:
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


class _PyTreeInfo(NamedTuple):
    """How the inputs and the result of a graph are put together from its placeholders."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


class _ParsedStackTrace(NamedTuple):
    """The innermost line of a stack trace."""

    file: str
    lineno: str
    name: str
    code: str

    def get_summary_str(self) -> str:
        return f"File: {self.file}:{self.lineno} in {self.name}, code: {self.code}"


def _parse_stack_trace(
    stack_trace: str | None, filter_fn: Callable[[str, str, str], bool] | None = None
) -> _ParsedStackTrace | None:
    lines = [line.strip() for line in (stack_trace or "").strip().split("\n")]
    for at in range(len(lines) - 2, -1, -1):
        found = re.fullmatch(r"File \"(.+)\", line (\d+), in (.+)", lines[at])
        if found and (filter_fn is None or filter_fn(found[1], found[3], lines[at + 1])):
            return _ParsedStackTrace(found[1], found[2], found[3], lines[at + 1])
    return None


class _Globals:
    """What a text refers to outside itself, and how it writes that down."""

    def __init__(self, namespace: _Namespace, blue: Callable[[str], str]) -> None:
        self.namespace, self.blue = namespace, blue
        self.table: dict[str, Any] = {}
        for name, (_, obj) in _custom_builtins.items():
            self.add(name, obj)

    def add(self, hint: str, obj: Any) -> str:
        """The name by which the text refers to an object."""
        if _is_from_torch(obj) and obj is not rushlight.device:
            return _get_qualified_name(obj)
        name = self.namespace.create_name(hint, obj)
        if self.table.setdefault(name, obj) is not obj and self.table[name] != obj:
            raise AssertionError(f"Global name {name} already assigned to different object")
        return name

    def type(self, o: Any) -> str:
        """A type as the text writes it."""
        if isinstance(o, tuple) and not o:
            return "()"
        text = _type_repr(o)
        if isinstance(o, types.UnionType):
            return "|".join(map(self.type, typing.get_args(o)))
        origin = getattr(o, "__origin__", None)
        if not origin:
            return self.add(text, o)
        if isinstance(o, typing._GenericAlias):  # type: ignore[attr-defined]
            old = {list: "List", dict: "Dict", set: "Set", frozenset: "FrozenSet", tuple: "Tuple"}
            origin = getattr(typing, old[origin]) if origin in old else origin
        name = self.add(_type_repr(origin), origin)
        arguments = o.dims if isinstance(o, TensorType) else typing.get_args(o)
        return f"{name}[{','.join(map(self.type, arguments))}]" if arguments else name

    def value(self, arg: Any) -> str:
        """An argument as the text writes it."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            name = self.add(_get_qualified_name(type(arg)), type(arg))
            return f"{name}{tuple(arg)!r}"
        if isinstance(arg, enum.Enum):
            return f"{self.add(type(arg).__name__, type(arg))}.{arg.name}"
        if isinstance(arg, rushlight.Tensor):
            dtype = str(arg.dtype).split(".")[-1]
            return f"torch.Tensor(size={list(arg.size())}, dtype={dtype})"
        if isinstance(arg, tuple):
            items = ", ".join(map(self.value, arg))
            return f"({items},)" if len(arg) == 1 else f"({items})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.value, arg))}]"
        if isinstance(arg, slice):
            return f"slice({', '.join(map(self.value, (arg.start, arg.stop, arg.step)))})"
        return self.blue(repr(arg))

    def arguments(self, args: Iterable[Any], kwargs: dict[str, Any]) -> str:
        given = [self.value(a) for a in args]
        return ", ".join([*given, *(f"{k} = {self.value(v)}" for k, v in kwargs.items())])


class _Writer:
    """Writes the body of the function of a graph."""

    def __init__(
        self,
        nodes: Iterable[Node],
        root_module: str,
        namespace: _Namespace,
        output: Callable[..., str],
        options: dict[str, Any],
    ) -> None:
        self.nodes, self.root, self.output = list(nodes), root_module, output
        self.options = options
        self.globals = _Globals(namespace, self.color("blue"))
        self.free_vars: list[str] = []
        self.body: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.returns = ""
        self.summary = ""
        self.last_uses: dict[Node, list[Node]] = {}
        seen: set[Node] = set()
        for user in reversed(self.nodes):
            for node in user._input_nodes:
                if node not in seen:
                    seen.add(node)
                    self.last_uses.setdefault(user, []).append(node)

    def color(self, name: str) -> Callable[[str], str]:
        if not self.options.get("colored"):
            return lambda text: text
        return lambda text: f"{_COLORS[name]}{text}\033[0m"

    def write(self) -> None:
        for i, node in enumerate(self.nodes):
            if self.options.get("verbose"):
                self.comment(node)
            self.body.append(f"# COUNTER: {i}\n")
            typed = "" if node.type is None else f" : {self.globals.type(node.type)}"
            if self.options.get("verbose"):
                typed = self.annotation(node) or typed
            getattr(self, f"write_{node.op}")(node, typed)
            self.free(node)
        if not self.body:
            self.body.append("pass\n")

    def free(self, node: Node) -> None:
        """Ends the line; values that are not needed any more are let go."""
        if node.op == "placeholder":
            return
        done = [] if node.op == "output" else list(self.last_uses.get(node, ()))
        if not node.users and node.op != "output":
            done.append(node)
        text = " = ".join([*map(repr, done), "None"])
        self.body.append(f";  {self.color('dim')(text)}\n" if done else "\n")

    def comment(self, node: Node) -> None:
        """A line on where the node comes from, unless the line before says the same."""
        if node.op in ("placeholder", "output"):
            return
        shown = [f"{k}: {node.meta[k]}" for k in self.options["additional_meta"] if k in node.meta]
        more = f"# {', '.join(shown)} " if shown else ""
        custom = {
            k: str(v)[:40] + "..." if len(str(v)) > 40 else v
            for k, v in node.meta.get("custom", {}).items()
        }
        noted = f" Annotation: {custom}" if custom else ""
        place = _parse_stack_trace(node.stack_trace)
        line = place.get_summary_str() if place else "No stacktrace found for following nodes"
        summary = f"\n{self.color('dim')(f'{more}#{noted} {line}')}\n"
        if summary != self.summary:
            self.summary = summary
            self.body.append(summary)

    def annotation(self, node: Node) -> str:
        """What is known of a node's value: its dtype and shape."""
        from rushlight.fx.passes.shape_prop import TensorMetadata

        meta = node.meta
        value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
        if isinstance(value, TensorMetadata):
            return f': "{dtype_abbrs[value.dtype]}{_in_brackets(value.shape)}"'
        if not isinstance(value, rushlight.Tensor):
            return ""
        stride = _in_brackets(value.stride()) if self.options.get("include_stride") else ""
        device = f"{value.device}" if self.options.get("include_device") else ""
        core = (
            self.color("red")(dtype_abbrs[value.dtype])
            + self.color("blue")(_in_brackets(value.shape))
            + self.color("dim_blue")(stride)
            + self.color("dim_green")(device)
        )
        plain = type(value) is rushlight.Tensor
        return f': "{core}"' if plain else f': "{type(value).__name__}({core})"'

    # One method for each op of a node.

    def write_placeholder(self, node: Node, typed: str) -> None:
        default = f" = {self.globals.value(node.args[0])}" if node.args else ""
        described = self.options.get("expanded_def") and node.meta.get("desc")
        comment = f"  # {described}" if described else ""
        self.free_vars.append(f"{node.target}{typed}{default}{comment}")
        name = node.target.replace("*", "")
        if name != repr(node):
            self.body.append(f"{node!r} = {name}\n")

    def write_call_method(self, node: Node, typed: str) -> None:
        method = _format_target(self.globals.value(node.args[0]), node.target)
        arguments = self.globals.arguments(node.args[1:], node.kwargs)
        self.body.append(f"{node!r}{typed} = {method}({arguments})")

    def write_call_function(self, node: Node, typed: str) -> None:
        target = node.target
        operator = getattr(target, "__module__", "") == "_operator" and target.__name__
        if operator in magic_methods:
            text = magic_methods[operator].format(*map(self.globals.value, node.args))
            self.body.append(f"{node!r}{typed} = {text}")
            return
        if operator in inplace_methods:
            text = inplace_methods[operator].format(*map(self.globals.value, node.args))
            first = self.globals.value(node.args[0])
            self.body.append(f"{text};  {node!r}{typed} = {first}")
            return
        name = self.globals.add(_get_qualified_name(target), target)
        fetched = node.args[1] if name == "getattr" and len(node.args) == 2 else None
        if isinstance(fetched, str) and fetched.isidentifier():
            text = _format_target(self.globals.value(node.args[0]), fetched)
            self.body.append(f"{node!r}{typed} = {text}")
            return
        arguments = self.globals.arguments(node.args, node.kwargs)
        self.body.append(f"{node!r}{typed} = {name}({arguments})")
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(name)

    def write_call_module(self, node: Node, typed: str) -> None:
        arguments = self.globals.arguments(node.args, node.kwargs)
        self.body.append(f"{node!r}{typed} = {_format_target(self.root, node.target)}({arguments})")

    def write_get_attr(self, node: Node, typed: str) -> None:
        self.body.append(f"{node!r}{typed} = {_format_target(self.root, node.target)}")

    def write_output(self, node: Node, typed: str) -> None:
        if node.type is not None:
            self.returns = f" -> {self.globals.type(node.type)}"
        descs = node.meta.get("desc") if self.options.get("expanded_def") else None
        self.body.append(
            _call_with_known(self.output, node.args[0], descs=descs, repr_fn=self.globals.value)
        )


def _call_with_known(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Calls a method that a subclass may have written with fewer options."""
    known = inspect.signature(function).parameters
    return function(*args, **{k: v for k, v in options.items() if k in known})


class CodeGen:
    """Writes graphs as functions; subclasses change the signature or what is returned.

    >>> import rushlight as torch
    >>> class Listed(torch.fx.CodeGen):
    ...     def gen_fn_def(self, free_vars, maybe_return_annotation):
    ...         names = ", ".join(free_vars)
    ...         return f"def forward(self, inputs):\\n    {names}, = inputs"
    ...     def process_inputs(self, inputs):
    ...         return inputs
    >>> traced = torch.fx.symbolic_trace(lambda x, y: x - y)
    >>> traced.graph.set_codegen(Listed())
    >>> _ = traced.recompile()
    >>> traced([5, 3])
    2
    """

    _sym_repr: Callable[[Any], str] = repr

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The line ``def forward(self, ...):`` for the given arguments."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if not expanded_def:
            listed = ", ".join(free_vars)
            return f"def {self._func_name}({listed}){maybe_return_annotation}:"
        lines = []
        for arg in free_vars:
            text, mark, comment = arg.partition("#")
            lines.append(f"    {text.rstrip()},{'  # ' + comment.lstrip() if mark else ''}\n")
        return f"def {self._func_name}(\n{''.join(lines)}){maybe_return_annotation}:"

    def _listed(
        self, items: Sequence[Any], descs: Sequence[str], repr_fn: Callable[[Any], str]
    ) -> str:
        left, right = "()" if isinstance(items, tuple) else "[]"
        pairs = zip(items, descs, strict=False)
        return left + "\n" + "".join(f"    {repr_fn(i)},  # {d}\n" for i, d in pairs) + right

    def generate_output(
        self,
        output_args: Any,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] = repr,
    ) -> str:
        """The ``return`` statement."""
        if descs is not None and isinstance(output_args, (list, tuple)):
            return f"return {self._listed(output_args, descs, repr_fn)}"
        return f"return {repr_fn(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """The values of the graph's placeholders for the function's arguments."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """What the function returns for what the graph's output is."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """More names that the function may use, with what they stand for."""
        return []

    def _gen_python_code(
        self, nodes: Iterable[Node], root_module: str, namespace: _Namespace, **options: Any
    ) -> PythonCode:
        options["additional_meta"] = options.get("additional_meta") or []
        writer = _Writer(nodes, root_module, namespace, self.generate_output, options)
        writer.write()
        body = writer.body
        wrap_lines = ""
        if writer.wrapped:
            wrap_lines = "\n".join(
                f'torch.fx._symbolic_trace.wrap("{name}")' for name in writer.wrapped
            )
        if self._body_transformer:
            body = self._body_transformer(body)
        for name, value in self.additional_globals():
            writer.globals.add(name, value)
        expanded = options.get("expanded_def", False)
        prologue = _call_with_known(
            self.gen_fn_def, writer.free_vars, writer.returns, expanded_def=expanded
        )
        lines: list[str] = []
        line_map: dict[int, int | None] = {}
        at: int | None = None
        for line in "".join(body).split("\n"):
            counter = re.search(r"# COUNTER: (\d+)", line)
            if counter:
                at = int(counter[1])
                continue
            line_map[len(lines) + prologue.count("\n") + 1] = at
            lines.append(line)
        text = "\n".join("    " + line for line in "\n".join(lines).lstrip("\n").split("\n"))
        start = wrap_lines.count("\n") + 4
        source = f"\n{wrap_lines}\n\n{prologue}\n{text}"
        return PythonCode(source, writer.globals.table, line_map, start)


class _BoxedCodeGen(CodeGen):
    """Functions that take one list of all arguments, and empty it."""

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        text = f"def {self._func_name}(self, args_list){maybe_return_annotation}:"
        names = [re.split("[:=]", v)[0].strip() for v in free_vars if v != "self"]
        if names:
            text += "\n    args_iter = iter(args_list)"
            text += "".join(f"\n    {name} = next(args_iter)" for name in names)
            text += "\n    args_list.clear()"
        return text


class _PyTreeCodeGen(CodeGen):
    """Functions whose arguments or results are containers of the graph's values."""

    def __init__(self, pytree_info: _PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        return pytree.tree_leaves(inputs)

    def process_outputs(self, out: Any) -> Any:
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        leaves = out if isinstance(out, (list, tuple)) else [out]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """The line that binds the placeholders to the leaves of the arguments."""
        spec = self.pytree_info.in_spec
        children = fx_pytree._children(spec)
        given = f"[{', '.join(fn_args)}], self._in_spec"
        if (
            spec.type is tuple and len(children) == 2
            and children[0].type is tuple and children[1].type is dict
        ):  # fmt: skip
            count = len(fx_pytree._children(children[0]))
            names = self.pytree_info.orig_args
            keys = zip(children[1].context, names[count:], strict=False)
            keywords = "{" + ", ".join(f"'{k}':{v}" for k, v in keys) + "}"
            given = f"([{', '.join(names[:count])}], {keywords}), self._in_spec"
        annotated = [v for v in free_vars if ":" in v]
        text = ""
        if annotated and expanded_def:
            text = "\n    " + "\n    ".join(annotated)
        elif annotated:
            text = "\n    " + "".join(v + "; " for v in annotated) + "\n"
        bare = ", ".join(v.split(":")[0].split("#")[0] for v in free_vars)
        return f"{text}\n    {bare}, = fx_pytree.tree_flatten_spec({given})"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        names = self.pytree_info.orig_args
        if names and names[0] == "self":
            free_vars.insert(0, "self")
        text = super().gen_fn_def(names[:], maybe_return_annotation, expanded_def=expanded_def)
        return text + self.gen_var_bindings(names, free_vars, expanded_def) if free_vars else text

    def generate_output(
        self,
        output_args: Any,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[Any], str] = repr,
    ) -> str:
        if not (self.pytree_info and self.pytree_info.out_spec):
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        listed = descs is not None and isinstance(output_args, (list, tuple))
        shown = (
            self._listed(output_args, descs, repr_fn)  # type: ignore[arg-type]
            if listed
            else repr_fn(output_args)
        )
        return f"return pytree.tree_unflatten({shown}, self._out_spec)"


@contextlib.contextmanager
def _override_sym_repr(override: Callable[[Any], str]) -> Iterator[None]:
    before = CodeGen._sym_repr
    CodeGen._sym_repr = override
    try:
        yield
    finally:
        CodeGen._sym_repr = before
