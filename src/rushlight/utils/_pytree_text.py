"""Shapes of trees as text, which can be read again."""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from importlib import import_module
from typing import Any, NamedTuple

from rushlight._C import Size
from rushlight.utils._pytree import _LEAF_SPEC, TreeSpec

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable

NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1


class _SerializeNodeDef(NamedTuple):
    typ: Any
    serialized_type_name: str
    to_dumpable_context: Callable[[Any], Any] | None
    from_dumpable_context: Callable[[Any], Any] | None


def _defaultdict_serialize(context: Any) -> dict[str, Any]:
    factory, keys = context
    return {
        "default_factory_module": factory.__module__,
        "default_factory_name": factory.__qualname__,
        "dict_context": keys,
    }


def _defaultdict_deserialize(dumped: dict[str, Any]) -> list[Any]:
    module = import_module(dumped["default_factory_module"])
    return [getattr(module, dumped["default_factory_name"]), dumped["dict_context"]]


namedtuple_names: dict[type, str] = {}


def _namedtuple_serialize(context: type) -> str:
    if context not in namedtuple_names:
        raise NotImplementedError(
            f"Can't serialize TreeSpec of namedtuple class {context}: it has no name in texts; "
            "give it one with `_register_namedtuple`."
        )
    return namedtuple_names[context]


def _namedtuple_deserialize(dumped: str) -> Any:
    if dumped not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Can't deserialize TreeSpec of namedtuple class {dumped}: no class has this name; "
            "give it to one with `_register_namedtuple`."
        )
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumped]


SUPPORTED_SERIALIZED_TYPES: dict[Any, _SerializeNodeDef] = {
    kind: _SerializeNodeDef(kind, name, to, back)
    for kind, name, to, back in (
        (tuple, "builtins.tuple", None, None),
        (list, "builtins.list", None, None),
        (dict, "builtins.dict", None, None),
        (
            namedtuple,
            "collections.namedtuple",
            _namedtuple_serialize,
            _namedtuple_deserialize,
        ),
        (OrderedDict, "collections.OrderedDict", None, None),
        (
            defaultdict,
            "collections.defaultdict",
            _defaultdict_serialize,
            _defaultdict_deserialize,
        ),
        (deque, "collections.deque", None, None),
        (Size, "torch.Size", None, None),
    )
}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {
    node.serialized_type_name: kind for kind, node in SUPPORTED_SERIALIZED_TYPES.items()
}


def _to_json(spec: TreeSpec) -> dict[str, Any]:
    if spec.type is None:
        return {"type": None, "context": None, "children_spec": []}
    node = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if node is None or node.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(
            f"No registered serialization name for {spec.type} found. Please update your "
            "register_pytree_node call with a `serialized_type_name` kwarg."
        )
    if node.to_dumpable_context is not None:
        context = node.to_dumpable_context(spec.context)
    else:
        try:
            context = json.dumps(spec.context)
        except TypeError as error:
            raise TypeError(
                f"Unable to serialize context of {spec.type}: give register_pytree_node "
                "to_dumpable_context and from_dumpable_context"
            ) from error
    children = [_to_json(child) for child in spec.children_specs]
    return {"type": node.serialized_type_name, "context": context, "children_spec": children}


def _of_json(data: dict[str, Any]) -> TreeSpec:
    if data["type"] is None:
        return _LEAF_SPEC
    if data["type"] not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(
            f"Deserializing {data['type']} in pytree is not registered: register its class with "
            "this serialized_type_name first"
        )
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE[data["type"]]
    back = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable_context
    context = data["context"]
    context = json.loads(context) if back is None else back(context)
    return TreeSpec(kind, context, [_of_json(child) for child in data["children_spec"]])


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The shape of a tree as text.

    >>> from rushlight.utils._pytree import tree_structure, treespec_dumps, treespec_loads
    >>> spec = tree_structure([1, {"a": 2}])
    >>> treespec_loads(treespec_dumps(spec)) == spec
    True
    """
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec "
            f"but got item of type {type(treespec)}."
        )
    if protocol not in (None, DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL):
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return json.dumps([DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL, _to_json(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """The shape that ``treespec_dumps`` wrote."""
    protocol, data = json.loads(serialized)
    if protocol != DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return _of_json(data)


def treespec_pprint(treespec: TreeSpec) -> str:
    """The tree with a star for each leaf."""
    import pprint

    return pprint.pformat(treespec.unflatten([_Star()] * treespec.num_leaves))


class _Star:
    def __repr__(self) -> str:
        return "*"


def pytree_to_str(treespec: TreeSpec) -> str:
    """Deprecated: ``treespec_dumps``."""
    return treespec_dumps(treespec)


def str_to_pytree(json: str) -> TreeSpec:
    """Deprecated: ``treespec_loads``."""
    return treespec_loads(json)
