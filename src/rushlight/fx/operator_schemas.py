"""The signatures of what graphs call, and arguments matched with them."""

from __future__ import annotations

import inspect
import types
import typing
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import rushlight
from rushlight.fx import _names
from rushlight.fx._names import Op

__all__ = [
    "ArgsKwargsPair",
    "check_for_mutable_operation",
    "create_type_hint",
    "get_signature_for_torch_op",
    "normalize_function",
    "normalize_module",
    "type_matches",
]


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments.

    >>> from rushlight.fx.operator_schemas import ArgsKwargsPair
    >>> ArgsKwargsPair((1,), {"dim": 0}).kwargs
    {'dim': 0}
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


# The types of the registry's signatures.
_TYPES: dict[str, Any] = {
    "Tensor": rushlight.Tensor,
    "Tensor|Number": rushlight.Tensor | int | float | complex,
    "Tensor[]": list[rushlight.Tensor],
    "int": int,
    "float": float,
    "Number": int | float | complex,
    "bool": bool,
    "int[]": list[int],
    "size": list[int],
    "dtype": rushlight.dtype,
    "device": rushlight.device,
    "str": str,
    "Generator": rushlight.Generator,
}


def _annotation(text: str) -> Any:
    known = _TYPES.get(text.removesuffix("?"), Any)
    return known | None if text.endswith("?") and known is not Any else known


def get_signature_for_torch_op(op: Any, return_schemas: bool = False) -> Any:
    """The signatures of an op, or None for anything else.

    >>> import rushlight as torch
    >>> from rushlight.fx.operator_schemas import get_signature_for_torch_op
    >>> [list(s.parameters) for s in get_signature_for_torch_op(torch.cumsum)]
    [['input', 'dim', 'dtype']]
    """
    rows = _names.op_parameters(op) if isinstance(op, Op) else []
    made = [
        inspect.Signature([p.replace(annotation=_annotation(p.annotation)) for p in row])
        for row in rows
    ]
    return (made or None, None) if return_schemas else made or None


def check_for_mutable_operation(
    target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Raises if a call of an op would write to one of its arguments.

    >>> import rushlight as torch
    >>> from rushlight.fx.operator_schemas import check_for_mutable_operation
    >>> check_for_mutable_operation(torch.relu_, (), {})
    Traceback (most recent call last):
        ...
    RuntimeError: Tried to trace mutable operation torch.relu_. FX only supports functional ...
    """
    if not isinstance(target, Op) or target.__module__.endswith(".functional"):
        return
    if kwargs.get("out") is not None or target.__name__.endswith("_"):
        raise RuntimeError(
            f"Tried to trace mutable operation {_names.qualified_name(target)}. FX only supports "
            "functional code, so operations that mutate operands in-place (e.g. via `out` "
            "arguments) are not supported"
        )


def create_type_hint(x: Any) -> Any:
    """A list or tuple of types as the type of such lists or tuples.

    >>> from rushlight.fx.operator_schemas import create_type_hint
    >>> create_type_hint([int, int]), create_type_hint((int, str)), create_type_hint(int)
    (list[int], tuple[typing.Any, ...], <class 'int'>)
    """
    if not isinstance(x, (list, tuple)):
        return x
    try:
        base = next((t for t in x if all(issubclass(u, t) for u in x)), Any)
    except TypeError:
        warnings.warn(
            f"We were not able to successfully create type hint from the type {x}", stacklevel=2
        )
        return x
    return list[base] if isinstance(x, list) else tuple[base, ...]  # type: ignore[valid-type]


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of a type may be given where a signature says another.

    >>> from rushlight.fx.operator_schemas import type_matches
    >>> type_matches(list[int], int), type_matches(int, str)
    (True, False)
    """
    if signature_type is argument_type or signature_type is Any:
        return True
    parts = typing.get_args(signature_type)
    if typing.get_origin(signature_type) in (types.UnionType, typing.Union):
        return any(type_matches(part, argument_type) for part in parts)
    if typing.get_origin(signature_type) is list:
        held = typing.get_args(argument_type)
        if typing.get_origin(argument_type) in (list, tuple):
            return all(t is ... or (inspect.isclass(t) and issubclass(t, parts[0])) for t in held)
        return argument_type is int and parts[0] is int
    if inspect.isclass(argument_type) and inspect.isclass(signature_type):
        return issubclass(argument_type, signature_type)
    return False


def _normalized(
    signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any], keywords: bool
) -> ArgsKwargsPair | None:
    plain = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind not in plain for p in signature.parameters.values()):
        return None
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    names = list(signature.parameters)
    count = 0 if keywords else len(args)
    given = tuple(bound.arguments[name] for name in names[:count])
    return ArgsKwargsPair(given, {name: bound.arguments[name] for name in names[count:]})


def _binds(signature: inspect.Signature, args: Any, kwargs: Any) -> inspect.BoundArguments | None:
    try:
        return signature.bind(*args, **kwargs)
    except TypeError:
        return None


def _types_match(signature: inspect.Signature, args: Any, kwargs: Any) -> bool:
    bound = _binds(signature, args, kwargs)
    return bound is not None and all(
        type_matches(signature.parameters[name].annotation, given)
        for name, given in bound.arguments.items()
    )


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call matched with the function's signature, defaults filled in.

    Of several signatures, the first that takes arguments of the given types. None if there is none,
    or if it takes any number of arguments.

    >>> import rushlight as torch
    >>> from rushlight.fx.operator_schemas import normalize_function
    >>> x = torch.ones(2)
    >>> normalize_function(torch.cumsum, (x, 0), normalize_to_only_use_kwargs=True).kwargs["dim"]
    0
    """
    kwargs = kwargs or {}
    keywords = normalize_to_only_use_kwargs
    if not isinstance(target, Op):
        try:
            signature = inspect.signature(inspect.unwrap(target))
        except ValueError:
            return None
        return _normalized(signature, args, kwargs, keywords)
    every = get_signature_for_torch_op(target) or []
    fitting = [s for s in every if _binds(s, args, kwargs) is not None]
    if len(fitting) > 1 and (arg_types or kwarg_types):
        fitting = [s for s in fitting if _types_match(s, arg_types or (), kwarg_types or {})]
    return _normalized(fitting[0], args, kwargs, keywords) if fitting else None


def normalize_module(
    root: rushlight.nn.Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a layer matched with its ``forward``; None for other modules.

    >>> import rushlight as torch
    >>> from rushlight.fx.operator_schemas import normalize_module
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 3))
    >>> normalize_module(net, "0", (1,), normalize_to_only_use_kwargs=True).kwargs
    {'input': 1}
    """
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(
            f"Tried to normalize node with target {target} but root did not have that target!"
        ) from error
    if getattr(rushlight.nn, type(module).__name__, None) is not type(module):
        return None
    signature = inspect.signature(inspect.unwrap(module.forward))
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
