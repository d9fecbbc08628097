"""What nodes that are being made inherit: stack traces, annotations, and where they come from."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rushlight.fx.graph import Graph
    from rushlight.fx.node import Node

__all__ = [
    "NodeSource",
    "NodeSourceAction",
    "annotate",
    "annotate_fn",
    "format_stack",
    "get_current_meta",
    "get_current_replay_node",
    "get_graph_provenance_json",
    "has_preserved_node_meta",
    "preserve_node_meta",
    "reset_grad_fn_seq_nr",
    "set_current_meta",
    "set_current_replay_node",
    "set_grad_fn_seq_nr",
    "set_stack_trace",
]

current_meta: dict[str, Any] = {}
current_replay_node: Node | None = None
should_preserve_node_meta = False

GRADIENT_ACC_SPECIAL_STACK = "Gradient addition node due to multiple use of tensor around:"


class NodeSourceAction(Enum):
    """What a pass did with a node.

    >>> from rushlight.fx.traceback import NodeSourceAction
    >>> NodeSourceAction.CREATE.value
    'create'
    """

    CREATE = "create"
    REPLACE = "replace"


class NodeSource:
    """The node that another was made from, in which pass, and that node's own sources.

    >>> from rushlight.fx.traceback import NodeSource, NodeSourceAction
    >>> NodeSource(None, "pass", NodeSourceAction.CREATE).print_readable()
    '(name=, pass_name=pass, action=create, graph_id=-1)\\n'
    """

    def __init__(
        self,
        node: Node | None,
        pass_name: str = "",
        action: NodeSourceAction | list[NodeSourceAction] | None = None,
    ) -> None:
        actions = action if isinstance(action, list) else [action] if action else []
        self.pass_name, self.action = pass_name, actions
        self.from_node: list[NodeSource] = []
        self.name, self.target, self.graph_id = "", "", -1
        if node is not None:
            self.name, self.target = node.name, str(node.target)
            self.graph_id = id(node.graph)
            self.from_node = list(node.meta.get("from_node", ()))

    def _get_action_string(self) -> str:
        return "+".join(a.value for a in self.action)

    def __repr__(self) -> str:
        return self.print_readable()

    def print_readable(self, indent: int = 0) -> str:
        """The chain of sources, each indented below the one made from it."""
        if indent > 9:
            return ""
        text = (
            " " * (indent * 4) + f"(name={self.name}, pass_name={self.pass_name}, "
            f"action={self._get_action_string()}, graph_id={self.graph_id})\n"
        )
        return text + "".join(source.print_readable(indent + 1) for source in self.from_node)

    def to_dict(self) -> dict[str, Any]:
        """The chain of sources as plain dicts."""
        return {
            "name": self.name,
            "target": self.target,
            "graph_id": self.graph_id,
            "pass_name": self.pass_name,
            "action": self._get_action_string(),
            "from_node": [source.to_dict() for source in self.from_node],
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeSource) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.name, self.target, self.graph_id, self.pass_name))


@contextmanager
def preserve_node_meta(enable: bool = True) -> Iterator[None]:
    """Within it, new nodes take over the metadata that is current.

    >>> from rushlight.fx import traceback
    >>> with traceback.preserve_node_meta():
    ...     traceback.has_preserved_node_meta()
    True
    """
    global should_preserve_node_meta, current_meta
    before = should_preserve_node_meta, current_meta.copy()
    should_preserve_node_meta = enable
    try:
        yield
    finally:
        should_preserve_node_meta, current_meta = before


def has_preserved_node_meta() -> bool:
    """Whether new nodes take over the metadata that is current.

    >>> from rushlight.fx import traceback
    >>> traceback.has_preserved_node_meta()
    False
    """
    return should_preserve_node_meta


def set_stack_trace(stack: list[str]) -> None:
    """Sets the stack trace of the nodes that follow; an empty one clears it.

    >>> from rushlight.fx import traceback
    >>> with traceback.preserve_node_meta():
    ...     traceback.set_stack_trace(["line 1\\n"])
    ...     traceback.format_stack()
    ['line 1\\n']
    """
    if should_preserve_node_meta:
        current_meta.pop("stack_trace", None)
        if stack:
            current_meta["stack_trace"] = "".join(stack)


@contextmanager
def annotate(annotation_dict: dict[str, Any]) -> Iterator[None]:
    """Adds entries to ``meta["custom"]`` of the nodes made within it.

    >>> import rushlight as torch
    >>> def f(x):
    ...     with torch.fx.traceback.annotate({"stage": 1}):
    ...         return x + 1
    >>> with torch.fx.traceback.preserve_node_meta():
    ...     graph = torch.fx.Tracer().trace(f)
    >>> list(graph.nodes)[1].meta["custom"]
    {'stage': 1}
    """
    had, before = "custom" in current_meta, current_meta.get("custom", {})
    current_meta["custom"] = {**before, **annotation_dict}
    try:
        yield
    finally:
        if had:
            current_meta["custom"] = before
        else:
            current_meta.pop("custom", None)


def annotate_fn(
    annotation_dict: dict[str, Any],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """:func:`annotate` as a decorator.

    >>> import rushlight as torch
    >>> @torch.fx.traceback.annotate_fn({"stage": 1})
    ... def f(x):
    ...     return x + 1
    >>> f(1)
    2
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(func)
        def annotated(*args: Any, **kwargs: Any) -> Any:
            with annotate(annotation_dict):
                return func(*args, **kwargs)

        return annotated

    return decorate


def set_grad_fn_seq_nr(seq_nr: int) -> None:
    """Notes the number of the backward node that runs.

    >>> from rushlight.fx import traceback
    >>> with traceback.preserve_node_meta():
    ...     traceback.set_grad_fn_seq_nr(7)
    ...     traceback.get_current_meta()["grad_fn_seq_nr"]
    [7]
    """
    if should_preserve_node_meta:
        current_meta["grad_fn_seq_nr"] = [*current_meta.get("grad_fn_seq_nr", []), seq_nr]
        current_meta["in_grad_fn"] = current_meta.get("in_grad_fn", 0) + 1


def reset_grad_fn_seq_nr() -> None:
    """Takes back the last :func:`set_grad_fn_seq_nr`.

    >>> from rushlight.fx import traceback
    >>> with traceback.preserve_node_meta():
    ...     traceback.set_grad_fn_seq_nr(7)
    ...     traceback.reset_grad_fn_seq_nr()
    ...     traceback.get_current_meta()
    {}
    """
    if should_preserve_node_meta and current_meta.get("in_grad_fn", 0) > 0:
        current_meta["grad_fn_seq_nr"] = current_meta["grad_fn_seq_nr"][:-1]
        current_meta["in_grad_fn"] -= 1
        if not current_meta["in_grad_fn"]:
            del current_meta["in_grad_fn"], current_meta["grad_fn_seq_nr"]


def format_stack() -> list[str]:
    """The stack trace that is current, or that of the call.

    >>> from rushlight.fx import traceback
    >>> len(traceback.format_stack()) > 0
    True
    """
    if should_preserve_node_meta:
        return [current_meta.get("stack_trace", "")]
    return traceback.format_list(traceback.extract_stack()[:-1])


@contextmanager
def set_current_meta(node: Node, pass_name: str = "") -> Iterator[None]:
    """Within it, new nodes take over the metadata of `node`, and name it as their source.

    >>> import rushlight as torch
    >>> from rushlight.fx import traceback
    >>> node = torch.fx.Graph().placeholder("x")
    >>> node.meta["custom"] = 1
    >>> with traceback.preserve_node_meta(), traceback.set_current_meta(node):
    ...     traceback.get_current_meta()["custom"]
    1
    """
    global current_meta
    if not (should_preserve_node_meta and node.meta):
        yield
        return
    before = current_meta
    source = NodeSource(node, pass_name, NodeSourceAction.CREATE)
    current_meta = {**node.meta, "from_node": [source]}
    try:
        yield
    finally:
        current_meta = before


def get_current_meta() -> dict[str, Any]:
    """The metadata that is current.

    >>> from rushlight.fx import traceback
    >>> traceback.get_current_meta()
    {}
    """
    return current_meta


@contextmanager
def set_current_replay_node(node: Node | None) -> Iterator[None]:
    """Within it, `node` is the one that is run again.

    >>> import rushlight as torch
    >>> from rushlight.fx import traceback
    >>> with traceback.set_current_replay_node(torch.fx.Graph().placeholder("x")):
    ...     traceback.get_current_replay_node()
    x
    """
    global current_replay_node
    before, current_replay_node = current_replay_node, node
    try:
        yield
    finally:
        current_replay_node = before


def get_current_replay_node() -> Node | None:
    """The node that is run again, if any.

    >>> from rushlight.fx import traceback
    >>> traceback.get_current_replay_node() is None
    True
    """
    return current_replay_node


def get_graph_provenance_json(graph: Graph) -> dict[str, Any]:
    """The sources of each node that has some, by its name.

    >>> import rushlight as torch
    >>> from rushlight.fx import traceback
    >>> traceback.get_graph_provenance_json(torch.fx.symbolic_trace(lambda x: x).graph)
    {}
    """
    return {
        node.name: [source.to_dict() for source in node.meta["from_node"]]
        for node in graph.nodes
        if node.meta.get("from_node")
    }
