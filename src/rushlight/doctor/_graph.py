"""The recorded graph under a backward pass, read once and shared by the checks."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any

LIMIT = 50_000  # nodes; what is further away is not looked at

# Nodes that rearrange or copy elements and change none of them.
_SAME_VALUES = re.compile(
    r"(Unsafe)?(View|Reshape|Transpose|Permute|T|Squeeze|Unsqueeze|Flatten|Unflatten|Clone|ToCopy"
    r"|Alias|Select|Slice|Index|Expand|Contiguous|Movedim|Narrow|AsStrided)Backward\d"
)


class Graph:
    """Nodes by name, leaves, and who uses a node's result."""

    def __init__(self, roots: list[Any]) -> None:
        self.roots = roots
        self.nodes: list[tuple[Any, str]] = []
        self.leaves: list[Any] = []
        self.by_name: dict[str, list[Any]] = {}
        seen: set[int] = set()
        stack = list(roots)
        while stack and len(self.nodes) < LIMIT:
            node = stack.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            name = node.name()
            self.nodes.append((node, name))  # it keeps the node, and with it the id, alive
            if name == "AccumulateGrad":
                self.leaves.append(node.variable)
                continue
            self.by_name.setdefault(name, []).append(node)
            stack += [child for child, _ in node.next_functions if child is not None]

    def named(self, *words: str) -> list[Any]:
        """The nodes of these operations: ``named("Relu")`` finds ReluBackward0."""
        found: list[Any] = []
        for name, nodes in self.by_name.items():
            if name.partition("Backward")[0] in words:
                found += nodes
        return found

    @cached_property
    def numbers(self) -> set[int]:
        """The sequence numbers of all nodes that are not leaves: they are never used again."""
        return {node._sequence_nr() for node, name in self.nodes if name != "AccumulateGrad"}

    @cached_property
    def consumers(self) -> dict[int, list[Any]]:
        """The nodes that use a node's result, by its id."""
        found: dict[int, list[Any]] = {}
        for node, name in self.nodes:
            if name != "AccumulateGrad":
                for child, _ in node.next_functions:
                    if child is not None:
                        found.setdefault(id(child), []).append(node)
        return found


def children(node: Any) -> list[Any]:
    """The nodes whose results a node's operation used."""
    return [child for child, _ in node.next_functions if child is not None]


def source_of(node: Any) -> Any:
    """The node that computed what this node's operation got, views and copies aside."""
    at = node
    for _ in range(32):
        below = children(at)
        if not below:
            return None
        at = below[0]
        # A layer over several dimensions ends in a view: that node has its weights, too.
        if len(at.next_functions) > 1 or not _SAME_VALUES.fullmatch(at.name()):
            return at
    return None


def shape_of(node: Any) -> tuple[int, ...]:
    """The shape of a node's first result."""
    return tuple(node._input_metadata[0].shape)


def saved(node: Any, name: str) -> Any:
    """What a node saved under this name, or None: freed graphs have nothing to show."""
    try:
        return getattr(node, f"_saved_{name}", None)
    except RuntimeError:
        return None


def leaves_of(tensor: Any, limit: int = 5000) -> set[int]:
    """The ids of the leaves that a tensor was computed from."""
    if tensor.grad_fn is None:
        return {id(tensor)} if tensor.requires_grad else set()
    return leaves_of_node(tensor.grad_fn, limit)


def leaves_of_node(root: Any, limit: int = 5000) -> set[int]:
    """The same for a node."""
    found: set[int] = set()
    seen: dict[int, Any] = {}
    stack = [root]
    while stack and len(seen) < limit:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen[id(node)] = node
        if node.name() == "AccumulateGrad":
            found.add(id(node.variable))
        else:
            stack += children(node)
    return found
