"""Functions that tracing leaves whole, and what it replaces while it runs."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from rushlight import nn
from rushlight._C import ModuleBase
from rushlight.fx.node import map_aggregate
from rushlight.fx.proxy import Proxy

# Functions of modules' scopes, by (id of the scope, name), and methods, that calls leave whole.
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}
_wrapped_methods_to_patch: list[tuple[type, str]] = []

_MISSING = object()


def _find_proxy(*objects_to_search: Any) -> Proxy | None:
    """A proxy among or within objects, or None."""
    found: list[Proxy] = []
    map_aggregate(objects_to_search, lambda x: found.append(x) if isinstance(x, Proxy) else None)
    return found[-1] if found else None


def _create_wrapped_func(orig_fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        made = proxy.tracer.create_proxy("call_function", orig_fn, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return wrapped


def _create_wrapped_method(cls: type, name: str) -> Callable[..., Any]:
    orig_fn = getattr(cls, name)

    @functools.wraps(orig_fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _find_proxy(args, kwargs)
        if proxy is None:
            return orig_fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)

    return wrapped


class _Patch:
    """An entry of a scope or attribute of a class that is replaced."""

    def __init__(self, holder: Any, name: str, new: Any) -> None:
        self.holder, self.name, self.new = holder, name, new
        own = holder if isinstance(holder, dict) else vars(holder)
        self.old = own.get(name, _MISSING)

    def patch(self) -> None:
        if isinstance(self.holder, dict):
            self.holder[self.name] = self.new
        else:
            setattr(self.holder, self.name, self.new)

    def revert(self) -> None:
        absent = self.old is _MISSING
        if isinstance(self.holder, dict):
            if absent:
                del self.holder[self.name]
            else:
                self.holder[self.name] = self.old
        elif absent:
            delattr(self.holder, self.name)
        else:
            setattr(self.holder, self.name, self.old)


class _Patcher:
    """Replaces functions and methods, and puts them back when it is left."""

    def __init__(self) -> None:
        self.patches_made: list[_Patch] = []
        self.visited: set[int] = set()

    def _apply(self, holder: Any, name: str, new_fn: Callable[..., Any]) -> None:
        self.patches_made.append(_Patch(holder, name, new_fn))
        self.patches_made[-1].patch()

    def patch(
        self,
        frame_dict: dict[str, Any],
        name: str,
        new_fn: Callable[..., Any],
        deduplicate: bool = True,
    ) -> None:
        """Replaces a name of a scope, unless it is replaced already."""
        new_fn.__fx_already_patched = deduplicate  # type: ignore[attr-defined]
        if name not in frame_dict and not hasattr(builtins, name):
            raise KeyError(name)
        if not getattr(frame_dict.get(name), "__fx_already_patched", False):
            self._apply(frame_dict, name, new_fn)

    def patch_method(
        self, cls: type, name: str, new_fn: Callable[..., Any], deduplicate: bool = True
    ) -> None:
        """Replaces a method of a class, unless it is replaced already."""
        new_fn.__fx_already_patched = deduplicate  # type: ignore[attr-defined]
        if not getattr(getattr(cls, name), "__fx_already_patched", False):
            self._apply(cls, name, new_fn)

    def visit_once(self, thing: Any) -> bool:
        """Whether it is asked about a thing for the first time."""
        known = id(thing) in self.visited
        self.visited.add(id(thing))
        return not known

    def revert_all_patches(self) -> list[_Patch]:
        """Puts everything back for a while."""
        for patch in reversed(self.patches_made):
            patch.revert()
        return self.patches_made

    def reapply_all_patches(self) -> list[_Patch]:
        """Replaces everything again."""
        for patch in self.patches_made:
            patch.patch()
        return self.patches_made

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.revert_all_patches()
        self.patches_made.clear()
        self.visited.clear()


CURRENT_PATCHER: _Patcher | None = None


@contextlib.contextmanager
def _new_patcher() -> Iterator[_Patcher]:
    global CURRENT_PATCHER
    before = CURRENT_PATCHER
    try:
        with _Patcher() as patcher:
            CURRENT_PATCHER = patcher
            yield patcher
    finally:
        CURRENT_PATCHER = before
        if before is None:
            _quicken(nn.Module)


def _quicken(cls: type) -> None:
    """Has a class of modules and all below it look attributes up in the core again.

    Python turns to its own lookup when ``__getattr__`` is replaced, and stays with it. The core's
    is set where a class is made, so each class is taken through that once more; those with another
    ``__init_subclass__`` behind the core's are left alone, since that would run again too.
    """
    behind = cls.__mro__[cls.__mro__.index(ModuleBase) + 1 : -1]
    if not any("__init_subclass__" in vars(base) for base in behind):
        vars(ModuleBase)["__init_subclass__"].__get__(None, cls)()
    below: list[type] = type.__subclasses__(cls)
    for each in below:
        _quicken(each)


@contextlib.contextmanager
def _maybe_revert_all_patches() -> Iterator[None]:
    patcher = CURRENT_PATCHER
    if patcher is not None:
        patcher.revert_all_patches()
    try:
        yield
    finally:
        if patcher is not None:
            patcher.reapply_all_patches()


def _patch_wrapped_functions(patcher: _Patcher) -> None:
    """Leaves whole what :func:`wrap` named."""
    for (_, name), scope in list(_wrapped_fns_to_patch.items()):
        function = scope.get(name, getattr(builtins, name, None))
        if function is not None:
            patcher.patch(scope, name, _create_wrapped_func(function))
    for cls, name in _wrapped_methods_to_patch:
        patcher.patch_method(cls, name, _create_wrapped_method(cls, name))


def _autowrap_check(patcher: _Patcher, frame_dict: dict[str, Any], function_ids: set[int]) -> None:
    """Leaves whole those functions of a scope that are always left whole, such as ``math.sqrt``."""
    if patcher.visit_once(frame_dict):
        for name, value in list(frame_dict.items()):
            if not name.startswith("_") and callable(value) and id(value) in function_ids:
                patcher.patch(frame_dict, name, _create_wrapped_func(value))


def wrap(fn_or_name: str | Callable[..., Any]) -> str | Callable[..., Any]:
    """Has tracing write down calls of a function of this module, instead of tracing through it.

    Called at the top level of a module, with the function or its name; builtins by their name. Also
    a decorator.

    >>> import rushlight as torch
    >>> @torch.fx.wrap
    ... def scaled(x, by):
    ...     return x * by if by > 1 else x
    >>> print(torch.fx.symbolic_trace(lambda x, by: scaled(x, by)).code.strip().splitlines()[-2])
        scaled = __main___scaled(x, by);  x = by = None
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(
            "Unsupported type for global function! Must be either a callable or string name"
        )
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe().f_back  # type: ignore[union-attr]
    if frame is None or frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[id(frame.f_globals), name] = frame.f_globals
    return fn_or_name
