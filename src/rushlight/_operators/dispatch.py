"""Calls of ops as ops of aten: what modes and classes with ``__torch_dispatch__`` see.

The calls come by ``__torch_function__``, above autograd, so what a program calls is seen and what a
backward pass computes is not. A call is translated: a function that PyTorch composes of others is
taken apart by ``decompositions``, the rest is matched with a signature of aten.
"""

from __future__ import annotations

from functools import cache

from rushlight import _C
from rushlight._C import Tensor
from rushlight._operators.binding import match
from rushlight._operators.overloads import OpOverload, OpOverloadPacket, ops
from rushlight._operators.schema import Argument, FunctionSchema

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

# Names of arguments that differ between Python's functions and aten.
_RENAMED = {"input": "self", "axis": "dim", "keepdims": "keepdim"}


def _qualified(func: Any) -> str | None:
    """The name of aten for a function of Python, or None for what is no op."""
    name = getattr(func, "__name__", None)
    if name is None:
        return None
    module = (getattr(func, "__module__", None) or "").partition(".")[2]
    if module in ("special", "linalg", "fft"):
        return f"{module}_{name}"
    return str(name)


@cache
def _ad_hoc(func: Any, name: str) -> OpOverload:
    """An op that aten's table does not have, with any arguments."""
    packet = OpOverloadPacket("aten", name)
    arguments = [Argument("args", "Tensor[]")]
    schema = FunctionSchema(f"aten::{name}", "", arguments, [Argument("", "Tensor")])
    return packet.add(schema, func)


def _spread(schema: FunctionSchema, args: Sequence[Any]) -> tuple[Any, ...] | None:
    """``view(x, 2, 3)`` as ``view(x, (2, 3))``, ``einsum(text, a, b)`` as of ``[a, b]``."""
    positional = [a for a in schema.arguments if not a.kwarg_only]
    for at, argument in enumerate(positional):
        kind = str(argument.type).lower()
        element = int if "int[" in kind else Tensor if kind == "tensor[]" else None
        if element is not None and len(args) > at:
            rest = tuple(args[at:])
            return (*args[:at], rest) if all(isinstance(v, element) for v in rest) else None
    return None


def normalize(
    overload: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments in the signature's order, without those that are the default."""
    schema = overload._schema
    places = [a for a in schema.arguments if not a.kwarg_only]
    given = dict(zip([a.name for a in places], args, strict=False)) | dict(kwargs)
    values = [given.get(a.name, a.default_value) for a in places]
    while values and places[len(values) - 1].has_default_value():
        default = places[len(values) - 1].default_value
        if not _is_default(values[-1], default):
            break
        values.pop()
    named = {
        a.name: given[a.name]
        for a in schema.arguments
        if a.kwarg_only and a.name in given and not _is_default(given[a.name], a.default_value)
    }
    return tuple(values), named


def _is_default(value: Any, default: Any) -> bool:
    if isinstance(value, Tensor):
        return False
    if isinstance(value, (list, tuple)) and isinstance(default, list):
        return list(value) == default
    return value is default or (type(value) is type(default) and bool(value == default))


def resolve(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[OpOverload, tuple[Any, ...], dict[str, Any]] | None:
    """The op of aten for a call, with its arguments; None for what is no op."""
    name = _qualified(func)
    if name is None or name in _NO_OPS or not _is_op(func):
        return None
    packet = getattr(ops.aten, name, None)
    if packet is not None:
        named = {
            key if any(_has(packet, key)) else _RENAMED.get(key, key): value
            for key, value in kwargs.items()
            if not (value is None and key in ("dtype", "layout", "device", "out"))
        }
        for values in (args, *(filter(None, [_spread_first(packet, args)]))):
            found = match(packet, values, named)
            if found is not None:
                return (found, *normalize(found, values, named))
    return _ad_hoc(func, name), tuple(args), dict(kwargs)


def _has(packet: OpOverloadPacket, key: str) -> list[bool]:
    return [
        any(a.name == key for a in getattr(packet, o)._schema.arguments) for o in packet.overloads()
    ]


def _spread_first(packet: OpOverloadPacket, args: Sequence[Any]) -> tuple[Any, ...] | None:
    for name in packet.overloads():
        found = _spread(getattr(packet, name)._schema, args)
        if found is not None:
            return found
    return None


# Attributes and conversions, which compute nothing.
_NO_OPS = frozenset({
    "requires_grad_", "retain_grad", "backward", "register_hook", "__len__", "size", "stride",
    "dim", "numel", "is_contiguous", "data_ptr", "storage_offset", "element_size", "tolist",
    "numpy", "__array__", "__repr__", "__format__", "__hash__", "untyped_storage", "as_subclass",
    "is_floating_point", "is_complex", "__get__", "__set__", "__delete__", "ndimension", "nelement",
    "is_set_to", "share_memory_", "__reduce_ex__", "__deepcopy__", "type", "is_inference",
})  # fmt: skip


def _is_op(func: Any) -> bool:
    kind = type(func)
    return kind is _OP or kind.__name__ in ("method_descriptor", "wrapper_descriptor", "function")


_OP = type(_C._namespaces[""]["add"])


class Call:
    """Makes calls of aten for a decomposition: ``aten.mm(a, b)``."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer = answer

    def __getattr__(self, name: str) -> Callable[..., Any]:
        packet = getattr(ops.aten, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            overload = match(packet, args, kwargs)
            if overload is None:
                raise RuntimeError(f"{packet}: no overload for {args}")
            values, named = normalize(overload, args, kwargs)
            return self._answer(overload, values, named)

        return call


def deliver(
    answer: Callable[..., Any], func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    """Hands the ops of a call to ``answer(overload, args, kwargs)``; NotImplemented for no op."""
    from rushlight._operators.decompositions import find

    name = _qualified(func)
    if name == "__get__":  # x.T
        name = "attribute " + getattr(func.__self__, "__name__", "")
        decomposition = find(func, name)
    else:
        decomposition = find(func, name) if name and _is_op(func) else None
    if decomposition is not None:
        result = decomposition(Call(answer), *args, **kwargs)
        if result is not NotImplemented:
            return result
    found = resolve(func, args, kwargs)
    if found is None:
        return NotImplemented
    return answer(*found)


def intercept(record: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What modes and classes say to a call of an op that a program defined."""
    from rushlight.utils._python_dispatch import TorchDispatchMode, _suspended, modes
    from rushlight.utils._pytree import tree_leaves

    active = modes()
    if active:
        mode = active[-1]
        rule = _rule(record, type(mode))
        types = tuple({type(t) for t in tree_leaves((args, kwargs)) if _dispatches(type(t))})
        with _suspended(mode):
            if rule is not None:
                return rule(mode, record.overload, types, args, kwargs)
            if type(mode).__torch_dispatch__ is TorchDispatchMode.__torch_dispatch__:
                return record.call(*args, **kwargs)
            return mode.__torch_dispatch__(record.overload, types, args, kwargs)
    for leaf in tree_leaves((args, kwargs)):
        cls = type(leaf)
        if _dispatches(cls):
            rule = _rule(record, cls)
            types = (cls,)
            if rule is not None:
                return rule(cls, record.overload, types, args, kwargs)
            return cls.__torch_dispatch__(record.overload, types, args, kwargs)
    return NotImplemented


def _rule(record: Any, cls: type) -> Any:
    for base in cls.__mro__:
        if base in record.dispatch_rules:
            return record.dispatch_rules[base]
    return None


def _dispatches(cls: type) -> bool:
    """Whether a class of tensors answers for ops of aten itself."""
    if cls is Tensor or not issubclass(cls, Tensor):
        return False
    found = getattr(cls, "__torch_dispatch__", None)
    base = getattr(Tensor, "__torch_dispatch__", None)
    return found is not None and getattr(found, "__func__", found) is not getattr(
        base, "__func__", base
    )
