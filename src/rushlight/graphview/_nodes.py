"""A model's graph as names with scopes, as TensorBoard groups them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.graphview import graph
from rushlight.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

Node = tuple[str, str, list[str], "tuple[int, ...] | None"]


def nodes_of(model: Any, inputs: Sequence[Any]) -> list[Node]:
    """Name, operation, inputs and shape of every step of ``model(*inputs)``."""
    from rushlight import Tensor, enable_grad

    def run() -> list[Any]:
        with enable_grad():
            found = tree_leaves(model(*inputs))
        return [t for t in found if isinstance(t, Tensor) and t.requires_grad]

    steps = graph(run, model).steps
    root = type(model).__name__
    names = []
    for step in steps:
        scope = "/".join([root, *filter(None, step.module.split("."))])
        own = step.name.rpartition(".")[2] if step.kind == "parameter" else step.label
        names.append(f"{scope}/{own.replace(' ', '_')}_{step.id}")
    return [
        (
            names[step.id],
            step.kind if step.kind in ("parameter", "leaf") else step.label,
            [names[i] for i in step.inputs],
            step.shape,
        )
        for step in steps
    ]
