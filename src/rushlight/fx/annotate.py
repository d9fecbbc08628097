"""Types of values that a traced program states."""

from __future__ import annotations

from typing import Any

from rushlight.fx.proxy import Proxy

__all__ = ["annotate"]


def annotate(val: Any, type: Any) -> Any:
    """Notes the type of a traced value; other values are as they are.

    >>> import rushlight as torch
    >>> from rushlight.fx.annotate import annotate
    >>> graph = torch.fx.symbolic_trace(lambda x: annotate(x + 1, int)).graph
    >>> list(graph.nodes)[1].type
    <class 'int'>
    """
    if not isinstance(val, Proxy):
        return val
    if val.node.type:
        raise RuntimeError(
            f"Tried to annotate a value that already had a type on it! Existing type is "
            f"{val.node.type} and new type is {type}. This could happen if you tried to annotate "
            "a function parameter value (in which case you should use the type slot on the "
            "function signature) or you called annotate on the same value twice"
        )
    val.node.type = type
    return val
