"""What of a state dict this process has: names, and parts of tensors with their place."""

from __future__ import annotations

from dataclasses import dataclass

from rushlight._C import Tensor
from rushlight.distributed.checkpoint.stateful import Stateful

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any


@dataclass(frozen=True)
class Part:
    """A block of a tensor: where it begins in the whole, and its sizes.

    >>> from rushlight.distributed.checkpoint._entries import Part
    >>> Part((0, 0), (2, 3)).overlap(Part((1, 1), (4, 4)))
    Part(offsets=(1, 1), sizes=(1, 2))
    >>> Part((0,), (2,)).overlap(Part((2,), (1,))) is None
    True
    """

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    def overlap(self, other: Part) -> Part | None:
        """What both have."""
        starts = tuple(map(max, self.offsets, other.offsets))
        ends = tuple(
            min(a + n, b + m)
            for a, n, b, m in zip(self.offsets, self.sizes, other.offsets, other.sizes, strict=True)
        )
        sizes = tuple(end - start for start, end in zip(starts, ends, strict=True))
        return None if any(n <= 0 for n in sizes) else Part(starts, sizes)

    def within(self, tensor: Tensor, outer: Part) -> Tensor:
        """This block of a tensor that holds the block ``outer``."""
        for dim, (start, base, size) in enumerate(
            zip(self.offsets, outer.offsets, self.sizes, strict=True)
        ):
            tensor = tensor.narrow(dim, start - base, size)
        return tensor


def flat(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, tuple[Any, ...], Any]]:
    """(name, path, value) of each leaf; objects are asked for their state.

    Dicts are taken apart, and lists in which there are tensors.

    >>> from rushlight.distributed.checkpoint._entries import flat
    >>> [(name, value) for name, _, value in flat({"a": {"b": 1}, "c": [2, 3]})]
    [('a.b', 1), ('c', [2, 3])]
    """
    if not isinstance(tree, Tensor) and isinstance(tree, Stateful):
        tree = tree.state_dict()
    if isinstance(tree, dict) and tree:
        for key, value in tree.items():
            yield from flat(value, (*path, key))
    elif isinstance(tree, (list, tuple)) and _has_tensors(tree):
        for key, value in enumerate(tree):
            yield from flat(value, (*path, key))
    else:
        yield ".".join(map(str, path)), path, tree


def _has_tensors(tree: Any) -> bool:
    if isinstance(tree, dict):
        return any(map(_has_tensors, tree.values()))
    if isinstance(tree, (list, tuple)):
        return any(map(_has_tensors, tree))
    return isinstance(tree, Tensor)


def part_of(value: Tensor) -> tuple[tuple[int, ...], Part, Tensor]:
    """The shape of the whole tensor, the part that this process has, and its numbers."""
    from rushlight.distributed.tensor._dtensor import DTensor
    from rushlight.distributed.tensor._utils import compute_local_shape_and_global_offset
    from rushlight.distributed.tensor.placement_types import _StridedShard

    shape = tuple(value.shape)
    if not isinstance(value, DTensor):
        return shape, Part((0,) * len(shape), shape), value.detach()
    for placement in value.placements:
        if placement.is_partial():
            raise RuntimeError(
                "checkpoint: a tensor whose parts are terms of a sum cannot be saved: "
                "redistribute it first"
            )
        if isinstance(placement, _StridedShard):
            raise RuntimeError(
                f"checkpoint: a part of several blocks, {placement}, is no region of the tensor: "
                f"redistribute it to Shard({placement.dim}) first"
            )
    sizes, offsets = compute_local_shape_and_global_offset(
        shape, value.device_mesh, value.placements
    )
    return shape, Part(offsets, sizes), value.to_local().detach()
