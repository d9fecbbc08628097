"""Tracing: a module or function, run on proxies, becomes a graph."""

from __future__ import annotations

import collections
import copy
import functools
import inspect
import math
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import rushlight
from rushlight import nn
from rushlight._C import Tensor
from rushlight.fx import _pytree as fx_pytree
from rushlight.fx._lazy_graph_module import _make_graph_module
from rushlight.fx._names import is_ours
from rushlight.fx._patching import (
    _autowrap_check,
    _new_patcher,
    _patch_wrapped_functions,
    wrap,
)
from rushlight.fx._patching import (
    _create_wrapped_func as _create_wrapped_func,
)
from rushlight.fx._patching import (
    _create_wrapped_method as _create_wrapped_method,
)
from rushlight.fx._patching import (
    _find_proxy as _find_proxy,
)
from rushlight.fx._patching import (
    _maybe_revert_all_patches as _maybe_revert_all_patches,
)
from rushlight.fx._patching import (
    _Patcher as _Patcher,
)
from rushlight.fx._patching import (
    _wrapped_fns_to_patch as _wrapped_fns_to_patch,
)
from rushlight.fx._patching import (
    _wrapped_methods_to_patch as _wrapped_methods_to_patch,
)
from rushlight.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Argument, base_types
from rushlight.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from rushlight.utils import _pytree as pytree

__all__ = [
    "PH",
    "PHBase",
    "PHWithMeta",
    "ProxyableClassMeta",
    "Tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]

HAS_VARSTUFF = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

_proxyable_classes: dict[type, None] = {}
_is_fx_tracing_flag = False
_constant_attribute_types = (Tensor, pytree.TreeSpec)


def is_fx_tracing() -> bool:
    """Whether a program is being traced.

    >>> from rushlight.fx._symbolic_trace import is_fx_tracing
    >>> is_fx_tracing()
    False
    """
    return _is_fx_tracing_flag


def is_fx_symbolic_tracing() -> bool:
    """Whether a program is being traced by :func:`symbolic_trace`.

    >>> from rushlight.fx._symbolic_trace import is_fx_symbolic_tracing
    >>> is_fx_symbolic_tracing()
    False
    """
    return _is_fx_tracing_flag and not rushlight.compiler.is_compiling()


class ProxyableClassMeta(type):
    """The metaclass of classes whose construction is written down when an argument is a proxy.

    >>> import rushlight as torch
    >>> class Pair(metaclass=torch.fx.ProxyableClassMeta):
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> graph = torch.fx.symbolic_trace(lambda x: Pair(x, x).left).graph
    >>> [node.name for node in graph.nodes]
    ['x', 'pair', 'getattr_1', 'output']
    """

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs) if _is_fx_tracing_flag else None
        if proxy is None:
            return super().__call__(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", cls, args, kwargs)


class PHBase:
    """What ``concrete_args`` holds for inputs that stay inputs.

    >>> import rushlight as torch
    >>> torch.fx.PH
    PH
    """

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A :data:`PH` whose attributes are handed to the input's node.

    >>> from rushlight.fx._symbolic_trace import PHWithMeta
    >>> PHWithMeta("image").ph_key
    'image'
    """

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


def _transfer_attrs(fr: Any, to: Any) -> None:
    """Hands the attributes of a placeholder to a node, as far as the node does not have them."""
    for name in dir(fr):
        value = getattr(fr, name)
        if not name.startswith("__") and not callable(value) and not hasattr(to, name):
            setattr(to, name, value)


def _annotation(function: Any, name: str) -> Any:
    """What a function says about an argument's type; our own layers say so in quotes."""
    written = getattr(function, "__annotations__", {}).get(name)
    if isinstance(written, str) and is_ours(getattr(function, "__module__", None)):
        return {"Tensor": Tensor, "Tensor | None": Tensor | None}.get(written)
    return written


def _with_plain_arguments(fn: types.FunctionType, count: int) -> types.FunctionType:
    """The function with ``*args`` and ``**kwargs`` as ordinary arguments."""
    code = fn.__code__.replace(
        co_argcount=count,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=fn.__code__.co_flags & ~HAS_VARSTUFF,
    )
    new = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    new.__annotations__, new.__module__ = fn.__annotations__, fn.__module__
    return new


class Tracer(TracerBase):
    """Runs a module or function on proxies and writes down what happens; made to be subclassed.

    `autowrap_modules` are modules whose functions are left whole, `autowrap_functions` more such
    functions. With `param_shapes_constant` the shapes of parameters are known while tracing.

    >>> import rushlight as torch
    >>> class Whole(torch.fx.Tracer):
    ...     def is_leaf_module(self, m, module_qualified_name):
    ...         return True
    >>> net = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    >>> [node.target for node in Whole().trace(net).nodes]
    ['input', '0', 'output']
    """

    root: Any
    tensor_attrs: dict[Any, str]
    _qualname_counter: ClassVar[dict[str, int]] = collections.defaultdict(int)

    def __init__(
        self,
        autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_function_ids: set[int] = {id(f) for f in autowrap_functions}
        for module in autowrap_modules:
            functions = (v for k, v in vars(module).items() if k[0] != "_" and callable(v))
            self._autowrap_function_ids.update(map(id, functions))
        self._autowrap_search: list[types.ModuleType] = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[nn.Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}
        self.tensor_attrs = {}

    def get_fresh_qualname(self, prefix: str) -> str:
        """An attribute that the root module does not have: the prefix and a number."""
        if not hasattr(self.root, f"{prefix}0"):
            self._qualname_counter[prefix] = 0
            return f"{prefix}0"
        number = self._qualname_counter[prefix]
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._qualname_counter[prefix] = number + 1
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Argument:
        """What a node keeps for an argument; parameters, buffers and modules become ``get_attr``.

        Other tensors become attributes of the root module.
        """
        members: Iterable[tuple[str, Any]] = ()
        if isinstance(a, nn.Parameter):
            members = self.root.named_parameters()
        elif isinstance(a, Tensor):
            members = self.root.named_buffers()
        elif isinstance(a, nn.Module):
            members = self.root.named_modules()
        for name, value in members:
            if value is a:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, nn.Parameter):
            raise NameError("parameter is not a member of this module")
        if isinstance(a, _constant_attribute_types):
            return self.create_node("get_attr", self._constant(a), (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            items = tuple(self.create_arg(item) for item in a)
            return self.create_node("call_function", type(a), items, {})
        if type(a) in _proxyable_classes:
            path = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    def _constant(self, a: Any) -> str:
        """The path of a constant; one that the root module does not have is added to it."""
        path = self.tensor_attrs.get(a) if isinstance(a, Tensor) else None
        if path is None:
            kind = "_tensor_constant" if isinstance(a, Tensor) else "_tree_spec_constant"
            path = self.get_fresh_qualname(kind)
            if isinstance(a, Tensor):
                self.tensor_attrs[a] = path
            setattr(self.root, path, a)
        return path

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Whether calls of a module are written down whole: the layers of ``torch.nn`` are."""
        home = type(m).__module__
        ours = home.startswith(("rushlight.nn", "torch.nn", "torch.ao.nn"))
        return ours and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: nn.Module) -> str:
        """The path of a submodule of the root module."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, m in self.root.named_modules() if m is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(
        self,
        m: nn.Module,
        forward: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What a call of a module does: a node for a leaf module, else ``forward`` is traced."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = path, type(m)
            self.num_calls[path] = calls + 1
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.popitem()

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """What an attribute of a module is while tracing: a proxy for a parameter, else itself."""
        members: Iterable[tuple[str, Any]] = ()
        if isinstance(attr_val, nn.Parameter):
            members = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        for name, value in members:
            if value is attr_val:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self._attribute_proxy(name, value)
                return parameter_proxy_cache[name]
        return attr_val

    def _attribute_proxy(self, name: str, value: Any) -> Proxy:
        options: dict[str, Any] = {}
        if self.param_shapes_constant:
            known = inspect.signature(self.create_proxy).parameters
            if "proxy_factory_fn" in known:
                options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, value)
        return self.create_proxy("get_attr", name, (), {}, **options)

    # The inputs of what is traced.

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Any, list[Any]]:
        """The placeholders for a function's arguments, and the function that takes them."""
        analysed = inspect.unwrap(root_fn)
        code = analysed.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = iter(code.co_varnames)
        args: list[Any] = []
        if is_module:
            if total == 0:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            next(names)
            args.append(self.root)
        spread = code.co_flags & HAS_VARSTUFF
        if isinstance(concrete_args, tuple) and concrete_args and spread and total == 1:
            for i, value in enumerate(concrete_args):
                made = self.create_proxy("placeholder", f"input_{i}", (), {})
                if isinstance(value, PHBase) and value is not PH:
                    _transfer_attrs(fr=value, to=made.node)
                args.append(made)
            return root_fn, args
        named = [next(names) for _ in range(len(args), total)]
        if isinstance(concrete_args, tuple):
            if len(named) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(named)} arguments but got {len(concrete_args)} "
                    "concrete arguments"
                )
            concrete_args = dict(zip(named, concrete_args, strict=True))
        signature = inspect.signature(analysed)
        if code.co_flags & inspect.CO_VARARGS:
            named.append("*" + next(names))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            named.append("**" + next(names))
        args += [self._proxy_placeholder(n, concrete_args, signature, analysed) for n in named]
        if code.co_kwonlyargcount or spread:
            root_fn = _with_plain_arguments(root_fn, len(args))  # type: ignore[arg-type]
        return self._flattened(root_fn, args, list(code.co_varnames)[:total])

    def _flattened(
        self, root_fn: Callable[..., Any], args: list[Any], names: list[str]
    ) -> tuple[Any, list[Any]]:
        """If an argument is a container, a function that takes what is in the containers."""
        leaves, spec = pytree.tree_flatten(tuple(args))
        if all(fx_pytree._is_leaf(child) for child in fx_pytree._children(spec)):
            return root_fn, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

        def flatten_fn(*args):
            out, out_spec = pytree.tree_flatten(root_fn(*pytree.tree_unflatten(list(args), spec)))
            codegen = self.graph._codegen
            if not isinstance(codegen, _PyTreeCodeGen):
                raise AssertionError(f"Expected _codegen to be _PyTreeCodeGen, got {type(codegen)}")
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return out

        return flatten_fn, leaves

    def _proxy_placeholder(
        self,
        name: str,
        concrete_args: dict[str, Any] | None,
        sig: inspect.Signature,
        fn_for_analysis: Callable[..., Any],
    ) -> Any:
        parameter = sig.parameters.get(name)
        default: tuple[Any, ...] = ()
        if parameter is not None and parameter.default is not parameter.empty:
            default = (parameter.default,)
        if concrete_args is not None and name in concrete_args:
            return self._specialised(name, concrete_args[name], default)
        kind = _annotation(fn_for_analysis, name)
        return self.create_proxy("placeholder", name, default, {}, type_expr=kind)

    def _specialised(self, name: str, value: Any, default: tuple[Any, ...]) -> Any:
        """The value that an argument is taken to have, with proxies in the place of PH."""
        count = 0
        text = f"{name} has been specialized to have value"

        def replace(x: Any) -> Any:
            nonlocal count
            count += 1
            out = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(x, PHBase):
                if x is not PH:
                    _transfer_attrs(fr=x, to=out.node)
                return out
            if type(x) in base_types and not isinstance(x, Tensor):
                rushlight._assert(out == x, f"{text} {x} but got another value")
            elif x is None:
                args = (out, f"{text} None but got another value")
                self.create_proxy("call_function", _assert_is_none, args, {})
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to "
                    "specialized function. It is up to the user to make sure that your inputs "
                    "match the inputs you specialized the function with.",
                    stacklevel=2,
                )
            return x

        return pytree.tree_map(replace, value)

    # Tracing.

    def trace(
        self,
        root: nn.Module | Callable[..., Any],
        concrete_args: dict[str, Any] | None = None,
    ) -> Graph:
        """The graph of a module or function.

        `concrete_args` are values of arguments that it is specialised to. Afterwards ``self.root``
        is the module that the graph's attributes belong to.
        """
        global _is_fx_tracing_flag
        before, _is_fx_tracing_flag = _is_fx_tracing_flag, True
        try:
            return self._trace(root, concrete_args)
        finally:
            _is_fx_tracing_flag = before

    def _trace(self, root: Any, concrete_args: Any) -> Graph:
        is_module = isinstance(root, nn.Module)
        if is_module:
            self.root = root
            fn = getattr(type(root), self.traced_func_name, None)
            if fn is None:
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in "
                    f"{type(root).__name__}"
                )
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, fn = nn.Module(), root
        self.graph = Graph(tracer_cls=type(self))
        code = getattr(fn, "__code__", None)
        if code is not None:
            fields = ("co_name", "co_filename", "co_firstlineno")
            self.graph._co_fields = {field: getattr(code, field) for field in fields}
        self.tensor_attrs = self._collect_constants(self.root, "")
        if not isinstance(fn, types.FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(fn)}")
        scope = fn.__globals__
        fn, args = self.create_args_for_root(fn, is_module, concrete_args)
        with _new_patcher() as patcher:
            self._patch(patcher)
            for searched in (scope, *map(vars, self._autowrap_search)):
                _autowrap_check(patcher, searched, self._autowrap_function_ids)
            returned = _annotation(inspect.unwrap(fn), "return")
            result = (self.create_arg(fn(*args)),)
            self.create_node("output", "output", result, {}, type_expr=returned)
        self.submodule_paths = None
        return self.graph

    def _collect_constants(self, module: nn.Module, prefix: str) -> dict[Any, str]:
        """Tensors that are plain attributes of modules, with their paths."""
        own = vars(module).items()
        found = {value: prefix + name for name, value in own if isinstance(value, Tensor)}
        for name, child in module.named_children():
            found |= self._collect_constants(child, f"{prefix}{name}.")
        return found

    def _patch(self, patcher: _Patcher) -> None:
        """Has modules, wrapped functions and indexing answer to this tracer."""
        cache: dict[str, Proxy] = {}
        call, getattribute = nn.Module.__call__, nn.Module.__getattr__

        @functools.wraps(getattribute)
        def module_getattr(mod: nn.Module, attr: str) -> Any:
            return self.getattr(attr, getattribute(mod, attr), cache)

        @functools.wraps(call)
        def module_call(mod: nn.Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return call(mod, *args, **kwargs)

            scope = getattr(getattr(mod, "forward", mod), "__globals__", {})
            _autowrap_check(patcher, scope, self._autowrap_function_ids)
            return self.call_module(mod, forward, args, kwargs)

        patcher.patch_method(nn.Module, "__getattr__", module_getattr, deduplicate=False)
        patcher.patch_method(nn.Module, "__call__", module_call, deduplicate=False)
        # Ops find proxies among their arguments by themselves; indexing and Python do not.
        for name, method in list(vars(Tensor).items()):
            in_python = isinstance(method, types.FunctionType) and not name.startswith("_")
            if in_python or name in ("__getitem__", "__setitem__"):
                patcher.patch_method(Tensor, name, _create_wrapped_method(Tensor, name))
        _patch_wrapped_functions(patcher)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        new = Tracer.__new__(Tracer)
        for key, value in self.__dict__.items():
            shallow = key == "_autowrap_search"  # modules cannot be copied
            new.__dict__[key] = copy.copy(value) if shallow else copy.deepcopy(value, memo)
        return new


def symbolic_trace(
    root: nn.Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A module whose code is what a module or function did with its inputs.

    The program runs once, on proxies. `concrete_args` are values of arguments that it is
    specialised to; with :data:`PH` in containers, what is in these becomes inputs.

    >>> import rushlight as torch
    >>> class Net(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.layer = torch.nn.Linear(2, 2)
    ...     def forward(self, x, k=2):
    ...         return k * self.layer(x).relu()
    >>> print(torch.fx.symbolic_trace(Net()).code.strip())
    def forward(self, x, k = 2):
        layer = self.layer(x);  x = None
        relu = layer.relu();  layer = None
        mul = k * relu;  k = relu = None
        return mul
    >>> def total(items, double):
    ...     return sum(items) * 2 if double else sum(items)
    >>> given = {"items": [torch.fx.PH] * 3, "double": True}
    >>> torch.fx.symbolic_trace(total, concrete_args=given)([1, 2, 3], True)
    12
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return _make_graph_module(tracer.root, graph, name)


@wrap
def _assert_is_none(value: object, msg: str) -> None:
    if value is not None:
        raise AssertionError(msg)
