"""Trees of containers: shapes, paths, texts, registration."""

from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import pytest

import rushlight as torch
import rushlight.utils._pytree as pytree

Pair = namedtuple("Pair", "a b")
TREES = [
    1,
    None,
    [],
    (1, [2, {"a": 3}]),
    Pair(1, (2,)),
    OrderedDict(b=1, a=[2]),
    defaultdict(list, x=[1]),
    deque([1, (2,)], 3),
    {"z": Pair([], {}), "a": deque()},
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_there_and_back(tree):
    leaves, spec = pytree.tree_flatten(tree)
    assert spec.num_leaves == len(leaves)
    assert pytree.tree_unflatten(leaves, spec) == tree
    assert list(pytree.tree_iter(tree)) == leaves
    assert pytree.tree_structure(tree) == spec
    assert hash(pytree.tree_structure(tree)) == hash(spec)
    paths = pytree.tree_leaves_with_path(tree)
    assert [pytree.key_get(tree, path) for path, _ in paths] == leaves


def test_results_of_ops_are_trees():
    found = torch.max(torch.tensor([[1, 3]]), 1)
    values, indices = pytree.tree_leaves(found)
    assert type(pytree.tree_map(lambda t: t + 1, found)) is type(found)
    assert (values.item(), indices.item()) == (3, 1)


def test_leaves_may_be_chosen():
    tree = [(1, 2), [3]]
    leaves = pytree.tree_leaves(tree, is_leaf=lambda t: isinstance(t, tuple))
    assert leaves == [(1, 2), 3]
    assert pytree.tree_map_only(int, lambda n: -n, [1, "a", 2.0]) == [-1, "a", 2.0]
    assert pytree.tree_all_only(int, lambda n: n > 0, [1, "a"])
    assert pytree.tree_any(lambda x: x == 3, tree)


def test_several_trees_at_once():
    assert pytree.tree_map(lambda a, b: (a, b), {"x": 1}, {"x": [2, 3]}) == {"x": (1, [2, 3])}
    for other, text in (
        ([1], "arity mismatch; expected 2, but got 1"),
        ((1, 2), "type mismatch; expected <class 'list'>, but got <class 'tuple'>"),
    ):
        with pytest.raises(ValueError, match=text):
            pytree.tree_map(lambda a, b: a, [1, 2], other)
    with pytest.raises(ValueError, match="missing key"):
        pytree.tree_map(lambda a, b: a, {"a": 1}, {"b": 1})
    with pytest.raises(ValueError, match="has length 1 but the spec"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))


@pytest.mark.parametrize("tree", [t for t in TREES if not isinstance(t, (Pair, dict))], ids=repr)
def test_shapes_as_text(tree):
    spec = pytree.tree_structure(tree)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


class Box:
    def __init__(self, value):
        self.value = value


def test_registration():
    pytree.register_pytree_node(
        Box,
        lambda b: ([b.value], "kept"),
        lambda values, context: Box(*values),
        serialized_type_name="tests.Box",
        flatten_with_keys_fn=lambda b: ([(pytree.GetAttrKey("value"), b.value)], "kept"),
    )
    try:
        assert pytree.tree_map(lambda n: n + 1, Box(1)).value == 2
        assert pytree.keystr(pytree.tree_leaves_with_path([Box(1)])[0][0]) == "[0].value"
        spec = pytree.tree_structure(Box(1))
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
        assert pytree._get_node_type(Box(1)) is Box
        with pytest.raises(ValueError, match="already registered"):
            pytree.register_pytree_node(Box, None, None)
    finally:
        pytree._deregister_pytree_node(Box)
    assert pytree.tree_is_leaf(Box(1))


def test_data_classes_and_constants():
    @dataclass
    class Batch:
        x: int
        y: int | None = None

    @dataclass(frozen=True)
    class Name:
        text: str

    pytree.register_dataclass(Batch)
    pytree.register_constant(Name)
    assert pytree.tree_leaves([Batch(1, 2), Batch(3), Name("n")]) == [1, 2, 3]
    leaves, spec = pytree.tree_flatten([Batch(3), Name("n")])
    assert pytree.tree_unflatten(leaves, spec) == [Batch(3), Name("n")]
    assert spec != pytree.tree_structure([Batch(3), Name("other")])


def test_a_tree_within_itself_is_refused():
    tree = []
    tree.append(tree)
    with pytest.raises(RecursionError):
        pytree.tree_flatten(tree)
