"""The random generators of other libraries that a function can reach."""

from __future__ import annotations

import functools
import sys
import types
from typing import TYPE_CHECKING, Any

from rushlight import _C

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Pair = tuple[Callable[[], Any], Callable[[Any], object]]
    Parts = Callable[[Any], Iterable[Any]]

_LIMIT = 20_000  # objects looked at: what lies behind a larger heap is not found
_ATOMS = (str, int, float, complex, type(None), bytes, _C.dtype, _C.device, types.ModuleType)
# Their code keeps no generators but the global ones.
_LIBRARIES = frozenset({"rushlight", "numpy", "builtins", *sys.stdlib_module_names})


def _of_bits(generator: Any) -> Pair:
    return (
        functools.partial(getattr, generator, "state"),
        functools.partial(setattr, generator, "state"),
    )


@functools.lru_cache(maxsize=1024)
def _state_of(cls: type) -> Callable[[Any], Pair] | None:
    """How the generators of a class give and take their state; None for other classes."""
    if (module := sys.modules.get("random")) and issubclass(cls, module.Random):
        return lambda g: (g.getstate, g.setstate)
    if module := sys.modules.get("numpy.random"):
        if issubclass(cls, module.Generator):
            return lambda g: _of_bits(g.bit_generator)
        if issubclass(cls, module.BitGenerator):
            return _of_bits
        if issubclass(cls, module.RandomState):
            return lambda g: _of_bits(g._bit_generator)
    return None


def _is_of_library(value: Any) -> bool:
    return str(getattr(value, "__module__", "")).partition(".")[0] in _LIBRARIES


def _named(code: types.CodeType, space: dict[str, Any]) -> Iterator[Any]:
    """What the names in a function's code, and in those inside it, stand for in its module."""
    found = [space[name] for name in code.co_names if name in space]
    yield from found
    for module in found:
        if isinstance(module, types.ModuleType):
            yield from (vars(module).get(name) for name in code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _named(inner, space)


def _function_parts(function: types.FunctionType) -> list[Any]:
    parts = [function.__defaults__, function.__kwdefaults__]
    for cell in function.__closure__ or ():
        try:
            parts.append(cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    if not _is_of_library(function):
        parts += _named(function.__code__, function.__globals__)
    return parts


def _class_parts(cls: type) -> tuple[Any, ...]:
    return () if _is_of_library(cls) else (*vars(cls).values(), *cls.__bases__)


def _object_parts(value: Any) -> tuple[Any, ...]:
    return (getattr(value, "__dict__", None), type(value))


@functools.lru_cache(maxsize=1024)
def _parts_of(cls: type) -> Parts | None:
    """What objects of a class refer to; None for those that lead nowhere."""
    if issubclass(cls, (*_ATOMS, _C.Tensor)):
        return None
    if issubclass(cls, (dict, types.MappingProxyType)):
        return dict.values if issubclass(cls, dict) else types.MappingProxyType.values
    if issubclass(cls, (list, tuple, set, frozenset)):
        return iter
    if issubclass(cls, types.FunctionType):
        return _function_parts
    if issubclass(cls, types.MethodType):
        return lambda method: (method.__self__, method.__func__)
    if issubclass(cls, (classmethod, staticmethod)):
        return lambda method: (method.__func__,)
    if issubclass(cls, functools.partial):
        return lambda partial: (partial.func, partial.args, partial.keywords)
    return _class_parts if issubclass(cls, type) else _object_parts


def reachable(*roots: Any) -> list[Pair]:
    """How to read and to set the state of every generator that the objects lead to."""
    if "random" not in sys.modules and "numpy.random" not in sys.modules:
        return []
    found: list[Pair] = []
    seen: set[int] = set()
    stack = list(roots)
    while stack and len(seen) < _LIMIT:
        value = stack.pop()
        cls: Any = type(value)
        parts = _parts_of(cls)
        if parts is None or id(value) in seen:
            continue
        seen.add(id(value))
        state = _state_of(cls)
        if state is not None:
            found.append(state(value))
        else:
            stack.extend(parts(value))
    return found
