"""Taking inputs apart the way a graph that was traced with containers expects."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from rushlight.utils._pytree import TreeSpec, tree_flatten

FlattenFnSpec = Callable[[Any, TreeSpec], list[Any]]
FlattenFnExactMatchSpec = Callable[[Any, TreeSpec], bool]
FlattenFuncSpec = FlattenFnSpec
FlattenFuncExactMatchSpec = FlattenFnExactMatchSpec

SUPPORTED_NODES: dict[Any, FlattenFnSpec] = {}
SUPPORTED_NODES_EXACT_MATCH: dict[Any, FlattenFnExactMatchSpec | None] = {}


def register_pytree_flatten_spec(
    cls: Any,
    flatten_fn_spec: FlattenFnSpec,
    flatten_fn_exact_match_spec: FlattenFnExactMatchSpec | None = None,
) -> None:
    """States how containers of a class are taken apart for a given shape of tree.

    >>> from rushlight.fx._pytree import register_pytree_flatten_spec
    >>> class Pair(tuple): ...
    >>> register_pytree_flatten_spec(Pair, lambda pair, spec: list(pair))
    """
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: Any) -> None:
    del SUPPORTED_NODES[cls], SUPPORTED_NODES_EXACT_MATCH[cls]


def _children(spec: TreeSpec) -> Any:
    children = spec.children
    return children() if callable(children) else children


def _is_leaf(spec: TreeSpec) -> bool:
    return spec.type is None


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of a tree, which need only be indexable the way `spec` says.

    >>> from rushlight.fx._pytree import tree_flatten_spec
    >>> from rushlight.utils._pytree import tree_flatten
    >>> tree_flatten_spec({"b": [2, 3], "a": 1, "c": 4}, tree_flatten({"a": 0, "b": [0, 0]})[1])
    [1, 2, 3]
    """
    if _is_leaf(spec):
        return [pytree]
    if spec.type in SUPPORTED_NODES:
        parts = SUPPORTED_NODES[spec.type](pytree, spec)
        pairs = zip(parts, _children(spec), strict=False)
        return [leaf for part, child in pairs for leaf in tree_flatten_spec(part, child)]
    leaves, real = tree_flatten(pytree)
    if real != spec:
        raise RuntimeError(f"Real spec {real} of object {pytree} is different from expected {spec}")
    return leaves


def _by_key(d: Any, spec: TreeSpec) -> list[Any]:
    return [d[k] for k in spec.context]


def _by_index(d: Any, spec: TreeSpec) -> list[Any]:
    return [d[i] for i in range(len(_children(spec)))]


def _same_length(d: Any, spec: TreeSpec) -> bool:
    return len(d) == len(_children(spec))


for _cls in (list, tuple, namedtuple):
    register_pytree_flatten_spec(_cls, _by_index, _same_length)
register_pytree_flatten_spec(dict, _by_key, _same_length)
