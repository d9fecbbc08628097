"""The table of ops that programs define: finding, adding and taking back its records."""

from __future__ import annotations

from rushlight._operators.custom import Record
from rushlight._operators.overloads import OpOverload, OpOverloadPacket, ops
from rushlight._operators.schema import FunctionSchema

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

RESERVED = frozenset({"prim", "aten"})

# Fake impls of ops that are not defined, by the op's name: see fake_later.
_early: dict[str, Any] = {}


def split(qualname: str) -> tuple[str, str, str]:
    """Namespace, name and overload of ``mylib::op.overload``."""
    space, colons, name = qualname.partition("::")
    if not colons or not space or not name:
        raise ValueError(
            f"Expected `qualname` to be of the form 'namespace::name', got {qualname!r}"
        )
    name, _, overload = name.partition(".")
    return space, name, overload


def record_of(op: Any) -> Record:
    """What is known of an op that is given by name or as an object."""
    made: Record | None = getattr(op, "_record", None)  # of a CustomOpDef
    if made is not None:
        return made
    if isinstance(op, OpOverloadPacket):
        op = op.default
    if isinstance(op, OpOverload):
        op = op.name()
    record = _found(op)
    if record is None:
        space = split(op)[0]
        if space == "aten":
            raise RuntimeError(
                f"{op}: the ops of rushlight's core cannot be changed from Python; define an op of "
                "your own, with torch.library.custom_op"
            )
        raise RuntimeError(
            f"operator {op} does not exist: define it first, with torch.library.define or custom_op"
        )
    return record


def _found(op: str) -> Record | None:
    space, name, overload = split(op)
    packet = vars(getattr(ops, space)).get(name)
    record: Record | None = None if packet is None else packet.records.get(overload or "default")
    return record


def fake_later(op: Any, fn: Any) -> bool:
    """Whether an op may be one of a compiled library that was refused; it is given this fake impl
    if it is defined after all.

    Such libraries go on without their compiled ops, but say what the results look like.
    """
    if not ops.refused_libraries or not isinstance(op, str):
        return False
    if split(op)[0] in RESERVED or _found(op) is not None:
        return False
    _early[op.removesuffix(".default")] = fn
    return True


def define(schema: FunctionSchema, tags: Any = ()) -> Record:
    space, _, name = schema.name.partition("::")
    if space in RESERVED:
        raise ValueError(f"{space} is a reserved namespace: choose another for {schema.name}")
    spaces = getattr(ops, space)
    packet = vars(spaces).get(name)
    if packet is None:
        packet = OpOverloadPacket(space, name)
        setattr(spaces, name, packet)
    overload = schema.overload_name or "default"
    if overload in packet.overloads():
        raise RuntimeError(
            f"Tried to register an operator ({schema}) with the same name and overload name "
            "multiple times."
        )
    record = Record(schema)
    record.fake = _early.pop(schema.name + (f".{overload}" if overload != "default" else ""), None)
    record.overload = packet.add(schema, record.call)
    packet.records[overload] = record
    packet.tags[overload] = tuple(tags) if isinstance(tags, (list, tuple)) else (tags,)
    return record


def forget(record: Record) -> None:
    space, _, name = record.name.partition("::")
    packet = vars(getattr(ops, space)).get(name)
    overload = record.schema.overload_name or "default"
    if packet is not None and packet.records.get(overload) is record:
        del packet.records[overload], packet._overloads[overload]
        if not packet._overloads:
            delattr(getattr(ops, space), name)
