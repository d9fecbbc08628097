"""Which signature of an op a call means, and its arguments in the signature's order."""

from __future__ import annotations

import numbers

from rushlight import _C
from rushlight._C import Tensor

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rushlight._operators.overloads import OpOverload, OpOverloadPacket
    from rushlight._operators.schema import Argument, FunctionSchema


def fits(kind: str, value: Any) -> bool:
    """Whether a value can be an argument of this type."""
    if kind.endswith("?"):
        return value is None or fits(kind[:-1], value)
    if kind.endswith("]"):
        inner, _, size = kind[:-1].rpartition("[")
        if isinstance(value, (list, tuple)):
            return all(fits(inner, each) for each in value)
        return bool(size) and fits(inner, value)  # one number for all
    if kind == "Tensor":
        return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")
    if isinstance(value, Tensor):
        # A number may come as a tensor without dimensions.
        return kind in ("Scalar", "int", "SymInt", "float", "bool") and value.dim() == 0
    if kind == "bool":
        return isinstance(value, bool)
    if kind in ("int", "SymInt"):
        return isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if kind == "float":
        return isinstance(value, numbers.Real)
    if kind == "Scalar":
        return isinstance(value, numbers.Number)
    if kind == "str":
        return isinstance(value, str)
    if kind == "ScalarType":
        return isinstance(value, (_C.dtype, int))
    if kind == "Device":
        return isinstance(value, (_C.device, str, int))
    return True


def bind(
    schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The given arguments by name, or None where they do not fit."""
    positional = [a for a in schema.arguments if not a.kwarg_only]
    if len(args) > len(positional):
        return None
    given = {a.name: value for a, value in zip(positional, args, strict=False)}
    for name, value in kwargs.items():
        if name in given:
            return None
        given[name] = value
    known = {a.name: a for a in schema.arguments}
    if not given.keys() <= known.keys():
        return None
    for name, argument in known.items():
        if name in given:
            if not fits(str(argument.type), given[name]):
                return None
        elif not argument.has_default_value():
            return None
    return given


# Overloads of numbers that PyTorch's Python functions leave to those of tensors.
_WRAPPED = frozenset({
    "add", "sub", "mul", "div", "floor_divide", "add_", "sub_", "mul_", "div_", "floor_divide_",
})  # fmt: skip


def _fits_as_tensor(argument: Argument, value: Any) -> bool:
    return str(argument.type) == "Tensor" and isinstance(value, numbers.Number)


def match(packet: OpOverloadPacket, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The overload that a Python function of this name calls for these arguments, or None."""
    if packet.__name__ in _WRAPPED:
        for name in packet.overloads():
            overload = getattr(packet, name)
            arguments = overload._schema.arguments
            pairs = list(zip([a for a in arguments if not a.kwarg_only], args, strict=False))
            fitting = all(_fits_as_tensor(a, v) or fits(str(a.type), v) for a, v in pairs)
            if fitting and kwargs.keys() <= {a.name for a in arguments}:
                return overload
    for name in packet.overloads():
        overload = getattr(packet, name)
        if bind(overload._schema, args, kwargs) is not None:
            return overload
    return None


def choose(packet: OpOverloadPacket, args: Sequence[Any], kwargs: Mapping[str, Any]) -> OpOverload:
    """The overload for these arguments."""
    found: OpOverload | None = None
    for name in packet.overloads():
        if bind(getattr(packet, name)._schema, args, kwargs) is not None:
            return getattr(packet, name)
    found = match(packet, args, kwargs)
    if found is not None:
        return found
    got = ", ".join(
        [type(a).__name__ for a in args] + [f"{k}={type(v).__name__}" for k, v in kwargs.items()]
    )
    listed = "\n".join(f"  {getattr(packet, name)._schema}" for name in packet.overloads())
    raise RuntimeError(
        f"{packet._qualified_op_name}: no overload takes these arguments: ({got}); it has\n{listed}"
    )


def check(schema: FunctionSchema, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The given arguments by name; says what is wrong with them."""
    given = bind(schema, args, kwargs)
    if given is not None:
        return given
    positional = [a for a in schema.arguments if not a.kwarg_only]
    if len(args) > len(positional):
        raise RuntimeError(
            f"{schema.name}() expected at most {len(positional)} argument(s) but received "
            f"{len(args)} argument(s). Declaration: {schema}"
        )
    named = dict(zip([a.name for a in positional], args, strict=False)) | dict(kwargs)
    for argument in schema.arguments:
        if argument.name not in named:
            if not argument.has_default_value():
                raise RuntimeError(
                    f"{schema.name}() is missing value for argument '{argument.name}'. "
                    f"Declaration: {schema}"
                )
        elif not fits(str(argument.type), named[argument.name]):
            value = named[argument.name]
            raise RuntimeError(
                f"{schema.name}() Expected a value of type '{argument.type}' for argument "
                f"'{argument.name}' but instead found type '{type(value).__name__}'.\n"
                f"Value: {value!r}\nDeclaration: {schema}"
            )
    unknown = named.keys() - {a.name for a in schema.arguments}
    raise RuntimeError(
        f"{schema.name}(): Unknown keyword argument {', '.join(sorted(unknown)) or 'given twice'}. "
        f"Declaration: {schema}"
    )
