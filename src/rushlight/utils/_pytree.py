"""Nested containers as flat lists: dicts, lists, tuples, named tuples and what is registered."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# How a container type is taken apart and put together: (children, context), and back.
_KNOWN: dict[type, tuple[Callable[[Any], tuple[list[Any], Any]], Callable[[Any, Any], Any]]] = {
    tuple: (lambda t: (list(t), None), lambda c, _: tuple(c)),
    list: (lambda t: (list(t), None), lambda c, _: list(c)),
    dict: (lambda t: (list(t.values()), list(t)), lambda c, k: dict(zip(k, c, strict=True))),
    OrderedDict: (
        lambda t: (list(t.values()), list(t)),
        lambda c, k: OrderedDict(zip(k, c, strict=True)),
    ),
    defaultdict: (
        lambda t: (list(t.values()), (t.default_factory, list(t))),
        lambda c, k: defaultdict(k[0], zip(k[1], c, strict=True)),
    ),
    deque: (lambda t: (list(t), t.maxlen), lambda c, n: deque(c, n)),
}

TreeSpec = namedtuple("TreeSpec", ["type", "context", "children"])
TreeSpec.__doc__ = "The shape of a tree: its container, or None for a leaf."
LeafSpec = TreeSpec(None, None, ())


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[list[Any], Any]],
    unflatten_fn: Callable[[Any, Any], Any],
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
    _KNOWN[cls] = (flatten_fn, unflatten_fn)


def _kind(tree: Any) -> Any:
    cls = type(tree)
    if cls in _KNOWN:
        return cls
    if isinstance(tree, tuple):
        return namedtuple if hasattr(cls, "_fields") else _RESULT if _is_result(cls) else None
    return None


_RESULT = "result"  # what ops with several named results return


def _is_result(cls: type) -> bool:
    return hasattr(cls, "n_sequence_fields")


def tree_flatten(tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and what puts them together again.

    >>> from rushlight.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": 1, "b": (2, 3)})
    >>> leaves
    [1, 2, 3]
    >>> tree_unflatten([x * 10 for x in leaves], spec)
    {'a': 10, 'b': (20, 30)}
    """
    if _kind(tree) is None:
        return [tree], LeafSpec
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves)


def _flatten(tree: Any, leaves: list[Any]) -> TreeSpec:
    kind = _kind(tree)
    if kind is namedtuple or kind is _RESULT:
        children, context = list(tree), type(tree)
    else:
        children, context = _KNOWN[kind][0](tree)
    specs = []
    for child in children:
        if _kind(child) is None:
            leaves.append(child)
            specs.append(LeafSpec)
        else:
            specs.append(_flatten(child, leaves))
    return TreeSpec(kind, context, tuple(specs))


def tree_unflatten(leaves: Any, spec: TreeSpec) -> Any:
    """The tree of this shape with these leaves."""
    return next(iter(leaves)) if spec[0] is None else _unflatten(iter(leaves), spec)


def _unflatten(leaves: Any, spec: TreeSpec) -> Any:
    kind, context, specs = spec
    children = [next(leaves) if s[0] is None else _unflatten(leaves, s) for s in specs]
    if kind is namedtuple:
        return context(*children)
    if kind is _RESULT:
        return context(children)
    return _KNOWN[kind][1](children, context)


def tree_leaves(tree: Any) -> list[Any]:
    """The leaves of a tree, in order."""
    return tree_flatten(tree)[0]


def tree_map(function: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """A tree of the same shape with the function's results in the place of its leaves.

    >>> from rushlight.utils._pytree import tree_map
    >>> tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    leaves, spec = tree_flatten(tree)
    columns = [tree_leaves(other) for other in others]
    return tree_unflatten(map(function, leaves, *columns), spec)


def broadcast_prefix(prefix: Any, tree: Any) -> list[Any] | None:
    """For each leaf of the tree, the leaf of `prefix` above it; None when they do not fit."""
    if _kind(prefix) is None:
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
