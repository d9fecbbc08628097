"""Modules whose ``forward`` is a graph."""

from __future__ import annotations

import contextlib
import copy
import itertools
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import rushlight
from rushlight import nn
from rushlight.fx._namespace import _custom_builtins
from rushlight.fx._paths import (
    _assign_attr,
    _copy_attr,
    _has_attr,
)
from rushlight.fx._paths import (
    _del_attr as _del_attr,
)
from rushlight.fx._paths import (
    _get_attr as _get_attr,
)
from rushlight.fx._paths import (
    _get_attr_via_attr_list as _get_attr_via_attr_list,
)
from rushlight.fx._source import (
    _EvalCacheLoader as _EvalCacheLoader,
)
from rushlight.fx._source import (
    _exec_with_source as _exec_with_source,
)
from rushlight.fx._source import (
    _format_import_block,
    _forward_from_src,
)
from rushlight.fx._source import (
    _loader as _loader,
)
from rushlight.fx._source import (
    _method_from_src as _method_from_src,
)
from rushlight.fx.graph import Graph, PythonCode, _BoxedCodeGen, _PyTreeCodeGen
from rushlight.fx.node import Node
from rushlight.fx.proxy import Proxy, _WrittenProxy
from rushlight.nn.modules.module import _addindent

__all__ = ["GraphModule", "reduce_graph_module", "reduce_package_graph_module"]

_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_SAFE_REPRS = (
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d,
)  # fmt: skip


def reduce_graph_module(body: dict[str, Any], import_block: str) -> nn.Module:
    """A graph module out of a pickle: its code is run and traced again.

    >>> import pickle
    >>> import rushlight as torch
    >>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
    >>> pickle.loads(pickle.dumps(traced))(torch.tensor([-1.0, 1.0]))
    tensor([0., 1.])
    """
    source = body.get("_code") or body["code"]
    return _deserialize_graph_module(_forward_from_src(import_block + source, {}), body)


def reduce_package_graph_module(
    importer: Any, body: dict[str, Any], generated_module_name: str
) -> nn.Module:
    """A graph module out of a package whose importer has its code as a module.

    >>> from rushlight.fx.graph_module import reduce_package_graph_module
    """
    forward = importer.import_module(generated_module_name).forward
    return _deserialize_graph_module(forward, body)


class _CodeOnlyModule(nn.Module):
    """The contents of a graph module without its graph."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(body)


def _deserialize_graph_module(
    forward: Callable[..., Any],
    body: dict[str, Any],
    graph_module_cls: type[GraphModule] | None = None,
) -> nn.Module:
    """Traces the code of a graph module to have its graph again."""
    from rushlight.fx._symbolic_trace import Tracer

    tracer_cls: Any = body.get("_tracer_cls") or Tracer

    class KeepModules(tracer_cls):
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return True

        def proxy(self, node: Node) -> Proxy:
            return _WrittenProxy(node, self)

    # Tracing takes forward from the class, so each module needs one of its own.
    holder = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(body)
    graph = KeepModules().trace(holder, **body.get("_tracer_extras", {}))
    traces = body.pop("_graphmodule_graph_node_meta_stack_trace", None) or {}
    for node in graph.nodes:
        if traces.get(node.name) is not None:
            node.meta["stack_trace"] = traces[node.name]
    graph._tracer_cls = tracer_cls
    name = body.get("_graphmodule_cls_name", "GraphModule")
    made = (graph_module_cls or GraphModule)(holder, graph, class_name=name)
    for key, value in body.items():
        if not hasattr(made, key):
            setattr(made, key, value)
    return made


def _print_readable(
    module: Any,
    module_name: str,
    print_output: bool = True,
    include_stride: bool = False,
    include_device: bool = False,
    colored: bool = False,
    expanded_def: bool = False,
    additional_meta: list[str] | None = None,
) -> str:
    options: dict[str, Any] = {
        "include_stride": include_stride,
        "include_device": include_device,
        "colored": colored,
        "additional_meta": additional_meta,
    }
    if not isinstance(getattr(module, "graph", None), Graph):
        raise AssertionError("print_readable must be used on a module with a graph")
    code = module.graph.python_code("self", verbose=True, expanded_def=expanded_def, **options)
    text = f"class {module_name}(torch.nn.Module):\n" + code.src.lstrip("\n")
    inner = [""] + [
        _print_readable(child, name, print_output=False, **options)
        for name, child in module.named_children()
        if isinstance(child, GraphModule)
    ]
    output = _addindent(text, 4) + _addindent("\n".join(inner), 4)
    if print_output:
        print(output)
    return output


class _WrappedCall:
    """Calls a graph module; an error in the generated code is shown with the lines around it."""

    def __init__(self, cls: type, cls_call: Callable[..., Any] | None) -> None:
        self.cls, self.cls_call = cls, cls_call

    @staticmethod
    def _generate_error_message(frame_summary: traceback.FrameSummary) -> str:
        number, line = frame_summary.lineno or 0, frame_summary.line or ""
        lines = linecache.getlines(frame_summary.filename)
        return "\n".join(
            [
                traceback.format_exc(),
                f"Call using an FX-traced Module, line {number} of the traced Module's generated "
                "forward function:",
                "".join(lines[max(number - 2, 0) : number]),
                "~" * len(line) + "~~~ <--- HERE",
                "\n".join(lines[number : number + 2]),
            ]
        )

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if self.cls_call is not None:
                return self.cls_call(obj, *args, **kwargs)
            above: Any = super(self.cls, obj)
            return above.__call__(*args, **kwargs)
        except Exception as error:
            last = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__))[-1]
            if "eval_with_key" not in last.filename:
                raise
            print(self._generate_error_message(last), file=sys.stderr)
            raise error.with_traceback(None) from None


class GraphModule(nn.Module):
    """A module whose ``forward`` is generated from a graph.

    `root` gives the modules, parameters and buffers that the graph refers to: a module, or a dict
    by their paths. After changes of ``graph``, :meth:`recompile` brings the code up to date;
    assigning to ``graph`` does so by itself.

    >>> import rushlight as torch
    >>> traced = torch.fx.symbolic_trace(lambda x: torch.sin(x) + 1)
    >>> sin = list(traced.graph.nodes)[1]
    >>> sin.target = torch.cos
    >>> _ = traced.recompile()
    >>> traced(torch.zeros(2))
    tensor([2., 2.])
    """

    _code: str
    meta: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Each has a forward of its own, so each has a class of its own.
        base = next(c for c in cls.__mro__ if c.__qualname__.split(".")[-1] != "GraphModuleImpl")

        class GraphModuleImpl(base):  # type: ignore[misc, valid-type]
            pass

        return super().__new__(GraphModuleImpl)

    def __init__(
        self, root: nn.Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule"
    ) -> None:
        super().__init__()
        type(self).__name__ = class_name
        used = [n for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            if isinstance(root, _CodeOnlyModule):
                kept = (root.named_children(), root.named_buffers(), root.named_parameters())
                for name, _ in itertools.chain(*kept):
                    _copy_attr(root, self, name)
            for node in used:
                _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            for node in used:
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not "
                        "provided in ``root``!"
                    )
            # Modules come before what is set inside them.
            for target in sorted((n.target for n in used), key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        tracer = graph._tracer_cls
        local = tracer is None or "<locals>" in tracer.__qualname__
        self._tracer_cls = None if local else tracer
        self._tracer_extras = graph._tracer_extras or {}
        self.meta = {}
        self._replace_hooks: list[Callable[..., object]] = []
        self._create_node_hooks: list[Callable[[Node], object]] = []
        self._erase_node_hooks: list[Callable[[Node], object]] = []
        self._deepcopy_hooks: list[Callable[[GraphModule], object]] = []
        self.shape_env = None

    __jit_unused_properties__ = ("graph", "_boxed_call")

    @property
    def _boxed_call(self) -> bool:
        return isinstance(self._graph._codegen, _BoxedCodeGen)

    @property
    def graph(self) -> Graph:
        """The graph; assigning another one writes the code anew."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The generated Python code."""
        return self._code

    def recompile(self) -> PythonCode:
        """Writes the code anew after changes of the graph."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec = codegen.pytree_info.in_spec
            self._out_spec = codegen.pytree_info.out_spec
        python_code = self._graph.python_code("self")
        self._code = python_code.src
        self._lineno_map = python_code._lineno_map
        self._prologue_start = python_code._prologue_start
        cls: Any = type(self)
        cls.forward = _forward_from_src(self._code, python_code.globals, self._graph._co_fields)
        if "_wrapped_call" not in vars(cls):
            cls._wrapped_call = _WrappedCall(cls, vars(cls).get("__call__"))
        self._recompile_submodules()

        def call_wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
            return self._wrapped_call(self, *args, **kwargs)

        cls.__call__ = call_wrapped
        return python_code

    def _recompile_submodules(self) -> list[tuple[str, PythonCode]]:
        return [
            (name, child.recompile())
            for name, child in self.named_children()
            if isinstance(child, GraphModule)
        ]

    # Submodules.

    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Adds a module by its path, with empty modules on the way; whether that was possible.

        >>> import rushlight as torch
        >>> traced = torch.fx.symbolic_trace(lambda x: x)
        >>> traced.add_submodule("body.relu", torch.nn.ReLU())
        True
        """
        *path, field = target.split(".")
        module: nn.Module = self
        for part in path:
            inner = getattr(module, part, None)
            if inner is None:
                inner = nn.Module()
                setattr(module, part, inner)
            if not isinstance(inner, nn.Module):
                return False
            module = inner
        module.add_module(field, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Deletes a module by its path; whether there was one."""
        *path, field = target.split(".")
        module: Any = self
        for part in path:
            module = getattr(module, part, None)
            if not isinstance(module, nn.Module):
                return False
        if not isinstance(getattr(module, field, None), nn.Module):
            return False
        delattr(module, field)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Deletes the modules that the graph neither calls nor looks into.

        >>> import rushlight as torch
        >>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.ReLU()))
        >>> _ = traced.add_submodule("more", torch.nn.ReLU())
        >>> traced.delete_all_unused_submodules()
        >>> [name for name, _ in traced.named_children()]
        ['0']
        """
        used: set[str] = set()
        for node in self.graph.nodes:
            if node.op not in ("call_module", "get_attr"):
                continue
            used.update(itertools.accumulate(node.target.split("."), lambda a, b: f"{a}.{b}"))
            if node.op == "call_module" and _has_attr(self, node.target):
                inner = self.get_submodule(node.target).named_modules()
                used.update(f"{node.target}.{name}" for name, _ in inner if name)
        for name in [name for name, _ in self.named_modules() if name not in used]:
            if name:
                self.delete_submodule(name)

    # Copies, pickles, files.

    def __reduce__(self) -> tuple[Any, ...]:
        # The code is what lasts; the graph is traced from it again.
        python_code = self.recompile()
        body = dict(self.__dict__)
        del body["_graph"]
        traces = {n.name: n.stack_trace for n in self.graph.nodes if n.stack_trace is not None}
        if traces:
            body["_graphmodule_graph_node_meta_stack_trace"] = traces
        return reduce_graph_module, (body, _format_import_block(python_code.globals))

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()

    def _deepcopy_init(self) -> Callable[..., None]:
        return GraphModule.__init__

    def __deepcopy__(self, memo: dict[Any, Any]) -> GraphModule:
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        body = copy.deepcopy(self.__dict__, memo)
        self._deepcopy_init()(new, _CodeOnlyModule(body), body["_graph"])
        kept = (
            "_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks",
            "_replace_hooks", "_create_node_hooks", "_erase_node_hooks", "_deepcopy_hooks",
        )  # fmt: skip
        for name in kept:
            if name in self.__dict__:
                setattr(new, name, copy.deepcopy(self.__dict__[name], memo))
        new.meta = copy.deepcopy(getattr(self, "meta", {}), memo)
        for name, value in new.meta.get(_USER_PRESERVED_ATTRIBUTES_KEY, {}).items():
            setattr(new, name, value)
        for hook in self._deepcopy_hooks:
            hook(new)
        return new

    def __copy__(self) -> GraphModule:
        new = GraphModule(self, self.graph)
        new.meta = getattr(self, "meta", {})
        return new

    def _replicate_for_data_parallel(self) -> GraphModule:
        new = self.__copy__()
        object.__setattr__(new, "_is_replica", True)
        return new

    def to_folder(self, folder: str | os.PathLike[str], module_name: str = "FxModule") -> None:
        """Writes the module to a folder, from which it can be imported: code and parameters.

        >>> import sys, tempfile
        >>> import rushlight as torch
        >>> traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2)))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     traced.to_folder(folder + "/written", "Net")
        ...     sys.path.insert(0, folder)
        ...     from written import Net
        ...     Net()(torch.zeros(2)).shape
        torch.Size([2])
        >>> del sys.path[0]
        """
        folder = Path(folder)
        folder.mkdir(exist_ok=True)
        rushlight.save(self.state_dict(), folder / "state_dict.pt")
        tab, lines, pickled = " " * 8, [], []
        for name, child in self.named_children():
            if type(child) in _SAFE_REPRS:
                lines.append(f"{tab}setattr(self, '{name}', {child!r})")
                continue
            rushlight.save(child, folder / f"{name}.pt")
            pickled.append(name)
            loaded = f"torch.load(r'{folder / f'{name}.pt'}', weights_only=False)"
            shown = repr(child).replace("\r", " ").replace("\n", " ")
            lines.append(f"{tab}setattr(self, '{name}', {loaded}) # {shown}")
        for name, value in self._buffers.items():
            if value is not None:
                empty = f"torch.empty({list(value.shape)}, dtype={value.dtype})"
                lines.append(f"{tab}self.register_buffer('{name}', {empty})")
        for name, value in self._parameters.items():
            if value is not None:
                empty = f"torch.empty({list(value.shape)}, dtype={value.dtype})"
                lines.append(f"{tab}setattr(self, '{name}', torch.nn.Parameter({empty}))")
        lines.append(f"{tab}self.load_state_dict(torch.load(r'{folder}/state_dict.pt'))")
        imports = "\n".join(builtin.import_str for builtin in _custom_builtins.values())
        head = f"{imports}\n\nfrom rushlight.nn import *\nclass {module_name}(torch.nn.Module):"
        start = f"{head}\n    def __init__(self):\n{tab}super().__init__()"
        body = "\n".join(lines)
        (folder / "module.py").write_text(f"{start}\n{body}\n{_addindent(self.code, 4)}\n")
        (folder / "__init__.py").write_text("from .module import *")
        if pickled:
            warnings.warn(
                "Was not able to save the following children modules as reprs -saved as pickled "
                f"files instead: {pickled}",
                stacklevel=2,
            )

    # Texts.

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code of this module and of graph modules in it, with what is known of values.

        >>> import rushlight as torch
        >>> traced = torch.fx.symbolic_trace(lambda x: x + 1)
        >>> _ = traced.print_readable()
        class <lambda>(torch.nn.Module):
            def forward(self, x):
                # No stacktrace found for following nodes
                add = x + 1;  x = None
                return add
        <BLANKLINE>
        """
        return _print_readable(
            self, self._get_name(), print_output, include_stride, include_device, colored,
            expanded_def, additional_meta,
        )  # fmt: skip

    def __str__(self) -> str:
        hint = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, hint])

    # Hooks.

    @contextlib.contextmanager
    def _set_replace_hook(self, f: Callable[..., object]) -> Iterator[None]:
        self._register_replace_node_hook(f)
        try:
            yield
        finally:
            self._unregister_replace_node_hook(f)

    def _register_replace_node_hook(self, f: Callable[..., object]) -> None:
        """Calls ``f(old, new, user)`` when `user` gets another node, or a node another name."""
        self._replace_hooks.append(f)

    def _unregister_replace_node_hook(self, f: Callable[..., object]) -> None:
        self._replace_hooks.remove(f)

    def _register_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._create_node_hooks.append(f)

    def _unregister_create_node_hook(self, f: Callable[[Node], object]) -> None:
        self._create_node_hooks.remove(f)

    def _register_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._erase_node_hooks.append(f)

    def _unregister_erase_node_hook(self, f: Callable[[Node], object]) -> None:
        self._erase_node_hooks.remove(f)

    def _register_deepcopy_hook(self, f: Callable[[GraphModule], object]) -> None:
        self._deepcopy_hooks.append(f)

    def _unregister_deepcopy_hook(self, f: Callable[[GraphModule], object]) -> None:
        self._deepcopy_hooks.remove(f)
