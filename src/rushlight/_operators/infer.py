"""The signature of an op, read off the annotations of a Python function."""

from __future__ import annotations

import inspect
import types
import typing
from collections import abc
from typing import Any

import rushlight as torch

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NUMBERS = frozenset({int, float, bool})


def _plain() -> dict[Any, str]:
    return {
        torch.Tensor: "Tensor",
        int: "SymInt",
        float: "float",
        bool: "bool",
        str: "str",
        torch.dtype: "ScalarType",
        torch.device: "Device",
        torch.SymInt: "SymInt",
    }


def _type_text(annotation: Any) -> str | None:
    """The word for a type, or None."""
    plain = _plain()
    if annotation in plain:
        return plain[annotation]
    if annotation == torch.types.Number:
        return "Scalar"
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        some = [part for part in parts if part is not type(None)]
        optional = "?" if len(some) < len(parts) else ""
        if len(some) == 1:
            inner = _type_text(some[0])
            return None if inner is None else inner + optional
        return "Scalar" + optional if _NUMBERS.issuperset(some) else None
    if origin in (list, abc.Sequence) and len(parts) == 1:
        inner = _type_text(parts[0])
        return None if inner is None or inner == "Device" else f"{inner}[]"
    return None


def _result_text(annotation: Any) -> str | None:
    if annotation is None or annotation is type(None):
        return "()"
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is tuple and parts and Ellipsis not in parts:
        texts = [_result_text(part) for part in parts]
        return None if None in texts else f"({', '.join(map(str, texts))})"
    found = _type_text(annotation)
    return found if found in ("Tensor", "Tensor[]", "SymInt", "float", "bool", "Scalar") else None


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
    tags: Any = (),
) -> str:
    """The signature of an op, read off a function's annotations; without ``op_name``, no name.

    >>> import rushlight as torch
    >>> from rushlight.library import infer_schema
    >>> def scale(x: torch.Tensor, by: float = 1.0) -> torch.Tensor: ...
    >>> infer_schema(scale, mutates_args=())
    '(Tensor x, float by=1.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)

    def fail(what: str) -> typing.NoReturn:
        raise ValueError(f"infer_schema(func): {what} Got func with signature {signature})")

    try:
        hints = typing.get_type_hints(prototype_function)
    except (NameError, TypeError) as error:
        fail(f"Unsupported type annotation: {error}.")
    unknown = mutates_args == "unknown"
    written = (
        set() if unknown else {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    )
    texts, keywords = [], False
    for number, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            fail("We do not support positional-only args, varargs, or varkwargs.")
        if parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            texts.append("*")
            keywords = True
        if parameter.annotation is parameter.empty:
            fail(f"Parameter {name} must have a type annotation.")
        annotation = hints[name]
        # get_type_hints makes `x: int = None` an Optional on some versions; the schema does not.
        text = _type_text(annotation)
        if text is None:
            fail(
                f"Parameter {name} has unsupported type {annotation}. The valid types are: Tensor, "
                "int, float, bool, str, torch.dtype, torch.device, numbers, sequences and "
                "Optionals of these."
            )
        if name in written or (unknown and text.startswith("Tensor")):
            if not text.startswith("Tensor"):
                fail(f"Parameter {name} is in mutable_args but only Tensors can be mutated.")
            text = text.replace("Tensor", f"Tensor(a{number}!)", 1)
        if parameter.default is not parameter.empty:
            name = f"{name}={_default_text(fail, name, parameter.default)}"
        texts.append(f"{text} {name}")
    missing = written - set(signature.parameters)
    if missing:
        fail(
            f"{missing} in mutates_args were not found in the custom op's signature. mutates_args "
            "should contain the names of all args that the custom op mutates, or just the string "
            "'unknown' if you don't know."
        )
    if signature.return_annotation is signature.empty:
        fail("No return type annotation was provided. Please add one.")
    result = _result_text(hints["return"])
    if result is None:
        fail(
            f"Return has unsupported type {hints['return']}: use Tensor, numbers or tuples of them."
        )
    return f"{op_name or ''}({', '.join(texts)}) -> {result}"


def _default_text(fail: Any, name: str, value: Any) -> str:
    if value is None or isinstance(value, (int, float, bool)):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value).removeprefix("torch.")
    return fail(f"Parameter {name} has an unsupported default value type {type(value)}.")
