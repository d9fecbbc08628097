"""Trees that stand for others: one leaf for a whole subtree."""

from __future__ import annotations

from rushlight.utils._pytree import (
    SUPPORTED_NODES,
    TreeSpec,
    _get_node_type,
    tree_is_leaf,
    tree_leaves,
)

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any] | None:
    """For each leaf of the tree, the leaf of `prefix` above it; None when they do not fit."""
    if tree_is_leaf(prefix):
        return [prefix] * len(tree_leaves(tree))
    if type(prefix) is not type(tree) and not (
        isinstance(prefix, (list, tuple)) and isinstance(tree, (list, tuple))
    ):
        return None
    if isinstance(prefix, dict):
        if list(prefix) != list(tree) and set(prefix) != set(tree):
            return None
        pairs = [(prefix[key], tree[key]) for key in tree]
    else:
        if len(prefix) != len(tree):
            return None
        pairs = list(zip(prefix, tree, strict=True))
    all_leaves: list[Any] = []
    for part, subtree in pairs:
        leaves = broadcast_prefix(part, subtree)
        if leaves is None:
            return None
        all_leaves += leaves
    return all_leaves


def _broadcast_to_and_flatten(
    tree: Any, treespec: TreeSpec, is_leaf: Callable[[Any], bool] | None = None
) -> list[Any] | None:
    """For each leaf of a tree of this shape the leaf of ``tree`` above it, or None."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    if treespec.type is not kind:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec.children_specs, strict=True):
        leaves = _broadcast_to_and_flatten(child, spec, is_leaf)
        if leaves is None:
            return None
        found += leaves
    return found
