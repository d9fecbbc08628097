"""Where a leaf stands in its tree: keys, paths, and functions that give both."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from typing import Any

from rushlight._C import Size
from rushlight.utils._pytree import (
    SUPPORTED_NODES,
    TreeSpec,
    _get_node_type,
    is_structseq_class,
    tree_flatten,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

KeyEntry = Any
KeyPath = tuple[Any, ...]


@dataclass(frozen=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A key of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute of an object."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


def keystr(kp: Iterable[Any]) -> str:
    """A path as one would write it: ``['a'][0].b``."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """What stands at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _keys(tree: Any, kind: Any, children: list[Any]) -> list[Any]:
    if kind in (dict, OrderedDict, defaultdict):
        return [MappingKey(key) for key in tree]
    if kind is namedtuple:
        return [GetAttrKey(name) for name in tree._fields]
    if kind in (list, tuple, deque, Size) or is_structseq_class(kind):
        return [SequenceKey(i) for i in range(len(children))]
    raise ValueError(
        f"Did not find a flatten_with_keys_fn for type: {kind}. Please pass a flatten_with_keys_fn "
        "argument to register_pytree_node."
    )


def _flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """The children of a container with their keys, and its context."""
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return list(zip(_keys(tree, kind, children), children, strict=True)), context


_dict_flatten_with_keys = _ordereddict_flatten_with_keys = _flatten_with_keys
_defaultdict_flatten_with_keys = _deque_flatten_with_keys = _flatten_with_keys
_list_flatten_with_keys = _tuple_flatten_with_keys = _flatten_with_keys
_namedtuple_flatten_with_keys = _flatten_with_keys


def _with_paths(path: tuple[Any, ...], tree: Any, is_leaf: Any, found: list[Any]) -> None:
    kind = _get_node_type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        found.append((path, tree))
        return
    if node.flatten_with_keys_fn is not None:
        pairs = node.flatten_with_keys_fn(tree)[0]
    else:
        pairs = _flatten_with_keys(tree)[0]
    for key, child in pairs:
        _with_paths((*path, key), child, is_leaf, found)


def tree_leaves_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> list[tuple[tuple[Any, ...], Any]]:
    """Pairs of the path to a leaf and the leaf.

    >>> from rushlight.utils._pytree import keystr, tree_leaves_with_path
    >>> [(keystr(path), leaf) for path, leaf in tree_leaves_with_path({"a": [1, 2]})]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    found: list[Any] = []
    _with_paths((), tree, is_leaf, found)
    return found


def tree_flatten_with_path(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """``tree_leaves_with_path``, and what puts the leaves together again."""
    return tree_leaves_with_path(tree, is_leaf), tree_flatten(tree, is_leaf)[1]


def tree_map_with_path(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """``tree_map`` of a function that takes the path to the leaf first."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    leaves = zip(*pairs, strict=True) if pairs else ((), ())
    return spec.unflatten(list(map(func, *leaves, *columns)))
