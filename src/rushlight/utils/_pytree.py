"""Nested containers as flat lists: dicts, lists, tuples, named tuples and what is registered.

What few programs need, paths to leaves and specs as text, is in ``_pytree_paths`` and
``_pytree_text`` and loaded when first used.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, NamedTuple

from rushlight._C import Size

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rushlight.utils._pytree_nodes import (
        _private_register_pytree_node as _private_register_pytree_node,
    )
    from rushlight.utils._pytree_nodes import (
        _register_namedtuple as _register_namedtuple,
    )
    from rushlight.utils._pytree_nodes import (
        _register_pytree_node as _register_pytree_node,
    )
    from rushlight.utils._pytree_nodes import (
        register_constant as register_constant,
    )
    from rushlight.utils._pytree_nodes import (
        register_dataclass as register_dataclass,
    )
    from rushlight.utils._pytree_nodes import (
        register_pytree_node as register_pytree_node,
    )
    from rushlight.utils._pytree_paths import (
        GetAttrKey as GetAttrKey,
    )
    from rushlight.utils._pytree_paths import (
        KeyPath as KeyPath,
    )
    from rushlight.utils._pytree_paths import (
        MappingKey as MappingKey,
    )
    from rushlight.utils._pytree_paths import (
        SequenceKey as SequenceKey,
    )
    from rushlight.utils._pytree_paths import (
        key_get as key_get,
    )
    from rushlight.utils._pytree_paths import (
        keystr as keystr,
    )
    from rushlight.utils._pytree_paths import (
        tree_flatten_with_path as tree_flatten_with_path,
    )
    from rushlight.utils._pytree_paths import (
        tree_leaves_with_path as tree_leaves_with_path,
    )
    from rushlight.utils._pytree_paths import (
        tree_map_with_path as tree_map_with_path,
    )
    from rushlight.utils._pytree_text import (
        treespec_dumps as treespec_dumps,
    )
    from rushlight.utils._pytree_text import (
        treespec_loads as treespec_loads,
    )
    from rushlight.utils._pytree_text import (
        treespec_pprint as treespec_pprint,
    )

PyTree = Context = DumpableContext = Any
FlattenFn = FlattenFunc = UnflattenFn = UnflattenFunc = Any
FlattenWithKeysFn = FlattenWithKeysFunc = ToDumpableContextFn = FromDumpableContextFn = Any


class NodeDef(NamedTuple):
    """How a container type is taken apart and put together: (children, context), and back."""

    type: Any
    flatten_fn: Callable[[Any], tuple[list[Any], Any]]
    unflatten_fn: Callable[[Any, Any], Any]
    flatten_with_keys_fn: Callable[[Any], tuple[list[tuple[Any, Any]], Any]] | None


def _dict_flatten(d: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _dict_unflatten(values: Any, keys: list[Any]) -> dict[Any, Any]:
    return dict(zip(keys, values, strict=True))


def _list_flatten(d: list[Any]) -> tuple[list[Any], None]:
    return d, None


def _list_unflatten(values: Any, context: Any) -> list[Any]:
    return list(values)


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], None]:
    return list(d), None


def _tuple_unflatten(values: Any, context: Any) -> tuple[Any, ...]:
    return tuple(values)


def _namedtuple_flatten(d: Any) -> tuple[list[Any], type]:
    return list(d), type(d)


def _namedtuple_unflatten(values: Any, cls: Any) -> Any:
    return cls(*values)


def _ordereddict_flatten(d: Any) -> tuple[list[Any], list[Any]]:
    return list(d.values()), list(d)


def _ordereddict_unflatten(values: Any, keys: list[Any]) -> Any:
    return OrderedDict(zip(keys, values, strict=True))


def _defaultdict_flatten(d: Any) -> tuple[list[Any], list[Any]]:
    return list(d.values()), [d.default_factory, list(d)]


def _defaultdict_unflatten(values: Any, context: list[Any]) -> Any:
    return defaultdict(context[0], zip(context[1], values, strict=True))


def _deque_flatten(d: Any) -> tuple[list[Any], Any]:
    return list(d), d.maxlen


def _deque_unflatten(values: Any, maxlen: Any) -> Any:
    return deque(values, maxlen=maxlen)


SUPPORTED_NODES: dict[Any, NodeDef] = {
    kind: NodeDef(kind, apart, together, None)
    for kind, apart, together in (
        (tuple, _tuple_flatten, _tuple_unflatten),
        (list, _list_flatten, _list_unflatten),
        (dict, _dict_flatten, _dict_unflatten),
        (namedtuple, _namedtuple_flatten, _namedtuple_unflatten),
        (OrderedDict, _ordereddict_flatten, _ordereddict_unflatten),
        (defaultdict, _defaultdict_flatten, _defaultdict_unflatten),
        (deque, _deque_flatten, _deque_unflatten),
        (Size, _tuple_flatten, lambda values, _: Size(values)),
    )
}
BUILTIN_TYPES = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
STANDARD_DICT_TYPES = frozenset({dict, OrderedDict, defaultdict})
CONSTANT_NODES: set[type] = set()


class TreeSpec:
    """The shape of a tree: its container, what else the container needs, and its children's."""

    __slots__ = ("_children", "_context", "num_leaves", "type")
    type: Any
    num_leaves: int

    def __init__(self, type: Any, context: Any, children_specs: Iterable[TreeSpec]) -> None:
        self.type = type
        self._context = context
        self._children = list(children_specs)
        leaves = sum(child.num_leaves for child in self._children)
        self.num_leaves = 1 if type is None else leaves

    @property
    def context(self) -> Any:
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self._children

    @property
    def num_children(self) -> int:
        return len(self._children)

    @property
    def num_nodes(self) -> int:
        return 1 + sum(child.num_nodes for child in self._children)

    def children(self) -> list[TreeSpec]:
        return list(self._children)

    def child(self, index: int) -> TreeSpec:
        return self._children[index]

    def is_leaf(self) -> bool:
        return self.type is None

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree of this shape with these leaves."""
        given = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(given)} but the spec refers "
                f"to a pytree that holds {self.num_leaves} items ({self})."
            )
        return given[0] if self.type is None else _unflatten(iter(given), self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """What stands at the places of the leaves in a tree that may go on below them."""
        found: list[Any] = []
        _flatten_up_to(self, tree, found)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        mine = (self.type, self.num_leaves, self._context, self._children)
        return mine == (other.type, other.num_leaves, other._context, other._children)

    def __hash__(self) -> int:
        context = self._context
        hashable = tuple(context) if isinstance(context, list) else context
        try:
            return hash((self.type, hashable, tuple(self._children)))
        except TypeError:
            return hash((self.type, tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        name = getattr(self.type, "__name__", str(self.type))
        separator = ",\n" + " " * (indent + 2)
        children = separator.join(child.__repr__(indent + 2) for child in self._children)
        return f"TreeSpec({name}, {self._context}, [{children}])"

    def __reduce__(self) -> Any:
        return TreeSpec, (self.type, self._context, self._children)


PyTreeSpec = TreeSpec
_LEAF_SPEC = TreeSpec(None, None, [])


def LeafSpec() -> TreeSpec:
    """The shape of what is no container."""
    return _LEAF_SPEC


treespec_leaf = LeafSpec


def is_namedtuple_class(cls: type) -> bool:
    """Whether objects of the class are named tuples."""
    fields = getattr(cls, "_fields", None)
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and isinstance(fields, tuple)
        and callable(getattr(cls, "_make", None))
        and callable(getattr(cls, "_asdict", None))
    )


def is_structseq_class(cls: type) -> bool:
    """Whether objects of the class are what ops with several named results return."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields")


def is_namedtuple_instance(obj: object) -> bool:
    """Whether it is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_structseq_instance(obj: object) -> bool:
    """Whether it is what an op with several named results returned."""
    return is_structseq_class(type(obj))


def is_namedtuple(obj: object) -> bool:
    """Whether it is a named tuple or a class of them."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq(obj: object) -> bool:
    """Whether it is, or makes, what ops with several named results return."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def _result_node(cls: Any) -> NodeDef:
    """Results of ops become known when they are first met."""
    node = NodeDef(cls, _tuple_flatten, lambda values, _: cls(values), None)
    SUPPORTED_NODES[cls] = node
    return node


def _get_node_type(tree: Any) -> Any:
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    if isinstance(tree, tuple):
        if is_namedtuple_class(cls):
            return namedtuple
        if is_structseq_class(cls):
            _result_node(cls)
    return cls


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether it is no container, or ``is_leaf`` says so."""
    if is_leaf is not None and is_leaf(tree):
        return True
    return _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


def tree_flatten(
    tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[Any], TreeSpec]:
    """The leaves of a tree, and what puts them together again.

    >>> from rushlight.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": 1, "b": (2, 3)})
    >>> leaves
    [1, 2, 3]
    >>> tree_unflatten([x * 10 for x in leaves], spec)
    {'a': 10, 'b': (20, 30)}
    """
    leaves: list[Any] = []
    return leaves, _flatten(tree, leaves, is_leaf)


def _flatten(tree: Any, leaves: list[Any], is_leaf: Any) -> TreeSpec:
    kind = _get_node_type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None or (is_leaf is not None and is_leaf(tree)):
        leaves.append(tree)
        return _LEAF_SPEC
    children, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, leaves, is_leaf) for child in children])


def _unflatten(leaves: Any, spec: TreeSpec) -> Any:
    children = [next(leaves) if s.type is None else _unflatten(leaves, s) for s in spec._children]
    return SUPPORTED_NODES[spec.type].unflatten_fn(children, spec._context)


def _flatten_up_to(spec: TreeSpec, tree: Any, found: list[Any]) -> None:
    if spec.type is None:
        found.append(tree)
        return
    kind = _get_node_type(tree)
    both_dicts = spec.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
    if kind is not spec.type and not both_dicts:
        raise ValueError(f"Node type mismatch; expected {spec.type!r}, but got {kind!r}.")
    if both_dicts:
        keys = spec._context[1] if spec.type is defaultdict else spec._context
        if set(keys) != set(tree):
            missing, extra = set(keys) - set(tree), set(tree) - set(keys)
            texts = [f"missing key(s): {missing}"] if missing else []
            texts += [f"extra key(s): {extra}"] if extra else []
            raise ValueError(f"Node keys mismatch; {'; '.join(texts)}.")
        children = [tree[key] for key in keys]
    else:
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != spec.num_children:
            raise ValueError(
                f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}."
            )
        if kind is not deque and context != spec._context:
            raise ValueError(
                f"Node context mismatch for custom node type {spec.type!r}: expected "
                f"{spec._context!r}, but got {context!r}."
            )
    for child, subtree in zip(spec._children, children, strict=True):
        _flatten_up_to(child, subtree, found)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of this shape with these leaves."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(
            "tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but "
            f"got item of type {type(treespec)}."
        )
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """The leaves of a tree, one by one."""
    node = SUPPORTED_NODES.get(_get_node_type(tree))
    if node is None or (is_leaf is not None and is_leaf(tree)):
        yield tree
        return
    for child in node.flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves of a tree, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The shape of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of a call's arguments."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]


def tree_map(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """A tree of the same shape with the function's results in the place of its leaves.

    >>> from rushlight.utils._pytree import tree_map
    >>> tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    return spec.unflatten(list(map(func, leaves, *columns)))


def tree_map_(
    func: Callable[..., Any],
    tree: Any,
    *rests: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Calls the function for each leaf; the tree itself is returned."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [spec.flatten_up_to(rest) for rest in rests]
    for each in zip(leaves, *columns, strict=True):
        func(*each)
    return tree


def _chooses(which: Any) -> Callable[[Any], bool]:
    """What a type, a tuple of types or a predicate says of a leaf."""
    if isinstance(which, type) or not callable(which):
        return lambda x: isinstance(x, which)
    chosen: Callable[[Any], bool] = which
    return chosen


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Any]:
    """A decorator: the function is applied to such values, others stay."""
    chosen = _chooses(type_or_types_or_pred)

    def wrapper(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: func(x) if chosen(x) else x

    return wrapper


def tree_map_only(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """``tree_map`` over the leaves of some types; others stay.

    >>> from rushlight.utils._pytree import tree_map_only
    >>> tree_map_only(int, lambda n: n + 1, [1, "a", (2.0, 3)])
    [2, 'a', (2.0, 4)]
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any,
    /,
    func: Callable[[Any], Any],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """Calls the function for the leaves of some types; the tree itself is returned."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(
    pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether it holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(
    pred: Callable[[Any], bool], tree: Any, is_leaf: Callable[[Any], bool] | None = None
) -> bool:
    """Whether it holds for a leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(
    type_or_types: Any,
    /,
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Whether it holds for every leaf of some types."""
    chosen = _chooses(type_or_types)
    return all(pred(x) for x in tree_iter(tree, is_leaf) if chosen(x))


def tree_any_only(
    type_or_types: Any,
    /,
    pred: Callable[[Any], bool],
    tree: Any,
    is_leaf: Callable[[Any], bool] | None = None,
) -> bool:
    """Whether it holds for a leaf of some types."""
    chosen = _chooses(type_or_types)
    return any(pred(x) for x in tree_iter(tree, is_leaf) if chosen(x))


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The shape of a tuple of trees of these shapes."""
    return TreeSpec(tuple, None, iterable)


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The shape of a dict of trees of these shapes."""
    specs = dict(mapping, **kwargs)
    return TreeSpec(dict, list(specs), specs.values())


def __getattr__(name: str) -> Any:
    from importlib import import_module

    for home in ("_pytree_nodes", "_pytree_paths", "_pytree_prefix", "_pytree_text"):
        module = import_module(f"rushlight.utils.{home}")
        if name in vars(module) and not name.startswith("__"):
            return getattr(module, name)
    from rushlight._missing import MissingAttribute

    raise MissingAttribute("rushlight.utils._pytree", name)
