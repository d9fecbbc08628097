"""Generated code, compiled so that tracebacks show it, with imports so that files can hold it."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any

from rushlight.fx import _names
from rushlight.fx._namespace import _custom_builtins


class _EvalCacheLoader:
    """Keeps the text of generated code, so that tracebacks and debuggers can show it."""

    def __init__(self) -> None:
        self.eval_cache: dict[str, str] = {}
        self.next_id = 0

    def cache(
        self, src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
    ) -> str:
        key = f"<eval_with_key>.{self.next_id}"
        self.next_id += 1
        if co_fields:
            place = " from {co_filename}:{co_firstlineno} in {co_name}".format(**co_fields)
            key += place.removesuffix(">")  # names in <> have no source, says linecache
        self.eval_cache[key] = src
        known = {**globals, "__file__": key, "__name__": key, "__loader__": self}
        linecache.lazycache(key, known)
        return key

    def get_source(self, module_name: str) -> str | None:
        return self.eval_cache.get(module_name)


_loader = _EvalCacheLoader()


def _exec_with_source(
    src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> None:
    key = _loader.cache(src, globals, co_fields)
    exec(compile(src, key, "exec", dont_inherit=True), globals)


def _forward_from_src(
    src: str, globals: dict[str, Any], co_fields: dict[str, Any] | None = None
) -> Callable[..., Any]:
    return _method_from_src("forward", src, globals, co_fields)


def _method_from_src(
    method_name: str,
    src: str,
    globals: dict[str, Any],
    co_fields: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    scope = dict(globals)
    _exec_with_source(src, scope, co_fields)
    return scope.pop(method_name)


def _importable(obj: Any) -> tuple[str, str]:
    """The module and name under which another process finds an object."""
    name: str = getattr(obj, "__qualname__", None) or obj.__name__
    module = getattr(obj, "__module__", None)
    found: Any = sys.modules.get(module or "")
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not obj:
        for module in ("operator", "math", "typing", "builtins"):
            if getattr(sys.modules.get(module), name, None) is obj:
                return module, name
        if module is None or "." in name:
            raise RuntimeError(f"{obj} cannot be imported, so a graph that calls it is not saved")
    return module, name  # type: ignore[return-value]


def _format_import_statement(name: str, obj: Any) -> str:
    if name in _custom_builtins:
        return _custom_builtins[name].import_str
    if isinstance(obj, str):  # an annotation in quotes
        return f"{name} = {obj!r}"
    if getattr(obj, "_name", None) and getattr(obj, "__module__", "") == "typing":
        return f"from typing import {obj._name} as {name}"
    if isinstance(obj, _names.Op):
        place = obj.__module__.partition(".")[2]
        inner = f'_namespaces["{place}"]["{obj.__name__}"]'
        return f"from rushlight import _C as {name}\n{name} = {name}.{inner}"
    module, attribute = _importable(obj)
    first, *rest = attribute.split(".")
    fetched = f"from {module} import {first} as {name}"
    return fetched if not rest else f"{fetched}\n{name} = {name}.{'.'.join(rest)}"


def _format_import_block(globals: dict[str, Any]) -> str:
    return "\n".join(sorted({_format_import_statement(k, v) for k, v in globals.items()}))
