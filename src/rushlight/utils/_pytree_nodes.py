"""Registering classes as containers of trees."""

from __future__ import annotations

import threading
from typing import Any

from rushlight.utils import _pytree
from rushlight.utils._pytree import CONSTANT_NODES, SUPPORTED_NODES, NodeDef
from rushlight.utils._pytree_text import (
    NO_SERIALIZED_TYPE_NAME_FOUND,
    SERIALIZED_TYPE_TO_PYTHON_TYPE,
    SUPPORTED_SERIALIZED_TYPES,
    _SerializeNodeDef,
    namedtuple_names,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable

_NODE_REGISTRY_LOCK = threading.RLock()


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Any], Any] | None = None,
    from_dumpable_context: Callable[[Any], Any] | None = None,
    flatten_with_keys_fn: Callable[[Any], Any] | None = None,
) -> None:
    """Lets objects of a class be seen as containers.

    >>> from rushlight.utils._pytree import register_pytree_node, tree_leaves
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda c, _: Pair(*c))
    >>> tree_leaves(Pair(1, [2]))
    [1, 2]
    """
    with _NODE_REGISTRY_LOCK:
        if cls in SUPPORTED_NODES:
            raise ValueError(f"{cls} is already registered as pytree node.")
        if (to_dumpable_context is None) != (from_dumpable_context is None):
            raise ValueError(
                f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or "
                "registered."
            )
        name = serialized_type_name or NO_SERIALIZED_TYPE_NAME_FOUND
        SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(
            cls, name, to_dumpable_context, from_dumpable_context
        )
        SERIALIZED_TYPE_TO_PYTHON_TYPE[name] = cls


_private_register_pytree_node = _register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    with _NODE_REGISTRY_LOCK:
        del SUPPORTED_NODES[cls]
        node = SUPPORTED_SERIALIZED_TYPES.pop(cls)
        SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(node.serialized_type_name, None)
        CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Gives a class of named tuples a name in texts."""
    namedtuple_names[cls] = serialized_type_name
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def register_dataclass(
    cls: type,
    *,
    field_names: list[str] | None = None,
    drop_field_names: list[str] | None = None,
    serialized_type_name: str | None = None,
) -> None:
    """Lets objects of a data class be seen as containers of their fields.

    >>> from dataclasses import dataclass
    >>> from rushlight.utils._pytree import register_dataclass, tree_map
    >>> @dataclass
    ... class Point:
    ...     x: float
    ...     y: float
    >>> register_dataclass(Point)
    >>> tree_map(lambda v: 2 * v, Point(1.0, 2.0))
    Point(x=2.0, y=4.0)
    """
    import dataclasses

    from rushlight.utils._pytree_paths import GetAttrKey

    if not dataclasses.is_dataclass(cls) and field_names is None:
        raise ValueError(
            "field_names must be specified with a list of all fields used to initialize the class "
            f"when it is not a dataclass: {cls}"
        )
    if field_names is None:
        field_names = [field.name for field in dataclasses.fields(cls) if field.init]
    names = [name for name in field_names if name not in (drop_field_names or ())]

    def present(obj: Any) -> tuple[list[str], list[list[str]]]:
        """Fields that are None are no leaves."""
        there = [name for name in names if getattr(obj, name) is not None]
        return there, [there, [name for name in names if getattr(obj, name) is None]]

    def flatten(obj: Any) -> tuple[list[Any], Any]:
        there, context = present(obj)
        return [getattr(obj, name) for name in there], context

    def unflatten(values: Any, context: Any) -> Any:
        there, none = context
        return cls(**dict(zip(there, values, strict=True)), **dict.fromkeys(none))

    def flatten_with_keys(obj: Any) -> tuple[list[Any], Any]:
        there, context = present(obj)
        return [(GetAttrKey(name), getattr(obj, name)) for name in there], context

    register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=serialized_type_name,
        flatten_with_keys_fn=flatten_with_keys,
    )


class ConstantNode(tuple[Any, ...]):
    """The context of a constant: equal when the constants are."""

    @property
    def value(self) -> Any:
        return self[0]


def register_constant(cls: type) -> None:
    """Lets objects of a class be part of a tree's shape, and not leaves."""
    if "__eq__" not in {name for base in cls.__mro__[:-1] for name in vars(base)}:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__eq__` implementation."
        )
    if cls.__hash__ is None:
        raise TypeError(
            "register_constant(cls) expects `cls` to have a non-default `__hash__` implementation."
        )
    register_pytree_node(
        cls,
        lambda obj: ([], ConstantNode((obj,))),
        lambda _, context: context.value,
        flatten_with_keys_fn=lambda obj: ([], ConstantNode((obj,))),
    )
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: type) -> bool:
    """Whether it was given to ``register_constant``."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


def _is_constant_holder(spec: _pytree.TreeSpec) -> bool:
    return isinstance(spec.context, ConstantNode)


def _retrieve_constant(spec: _pytree.TreeSpec) -> Any:
    if not _is_constant_holder(spec):
        raise AssertionError("spec must hold a constant")
    return _pytree.tree_unflatten([], spec)
