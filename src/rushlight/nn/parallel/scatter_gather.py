"""Batches cut into parts and put together again, along a dimension of every tensor in a tree."""

from __future__ import annotations

from rushlight import _C
from rushlight.utils import _pytree

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

__all__ = ["gather", "scatter", "scatter_kwargs"]

_ops = _C._namespaces[""]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> list[Any]:
    """One part of the inputs for each target; what is no tensor goes to all of them.

    >>> import rushlight as torch
    >>> from rushlight.nn.parallel import scatter
    >>> scatter((torch.arange(4), "x"), ["cpu", "cpu"])
    [(tensor([0, 1]), 'x'), (tensor([2, 3]), 'x')]
    """
    leaves, spec = _pytree.tree_flatten(inputs)
    columns = [
        _ops["chunk"](leaf, len(target_gpus), dim)
        if isinstance(leaf, _C.Tensor)
        else (leaf,) * len(target_gpus)
        for leaf in leaves
    ]
    # A batch smaller than the number of targets has fewer parts than there are targets.
    tensors = [c for c, leaf in zip(columns, leaves, strict=True) if isinstance(leaf, _C.Tensor)]
    count = min(map(len, tensors)) if tensors else len(target_gpus)
    parts = [[column[i] for column in columns] for i in range(count)]
    return [
        spec.unflatten([t.to(to) if isinstance(t, _C.Tensor) else t for t in part])
        for part, to in zip(parts, target_gpus, strict=False)
    ]


def scatter_kwargs(
    inputs: tuple[Any, ...],
    kwargs: dict[str, Any] | None,
    target_gpus: Sequence[Any],
    dim: int = 0,
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """``scatter`` of positional and named arguments, to one number of parts.

    >>> import rushlight as torch
    >>> from rushlight.nn.parallel.scatter_gather import scatter_kwargs
    >>> scatter_kwargs((torch.arange(2),), {"k": 1}, ["cpu", "cpu"])
    (((tensor([0]),), (tensor([1]),)), ({'k': 1}, {'k': 1}))
    """
    positional = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(positional), len(named))
    positional += [()] * (count - len(positional))
    named += [{}] * (count - len(named))
    return tuple(positional), tuple(named)


def gather(outputs: Sequence[Any], target_device: Any, dim: int = 0) -> Any:
    """The parts as one tree: tensors are joined along a dimension, numbers become one tensor.

    >>> import rushlight as torch
    >>> from rushlight.nn.parallel import gather
    >>> gather([torch.zeros(1), torch.ones(2)], "cpu")
    tensor([0., 1., 1.])
    """
    spec = _pytree.tree_structure(outputs[0])
    columns = [spec.flatten_up_to(output) for output in outputs]

    def join(*parts: Any) -> Any:
        if all(part is None for part in parts):
            return None
        if not isinstance(parts[0], _C.Tensor):
            raise TypeError(f"gather: expected tensors, got {type(parts[0]).__name__}")
        whole = [t.unsqueeze(0) if t.dim() == 0 else t for t in parts]
        return _ops["cat"]([t.to(target_device) for t in whole], dim)

    return spec.unflatten(list(map(join, *columns)))
