"""Running combinations of elements along a dimension."""

from __future__ import annotations

import rushlight
from rushlight._C import Tensor
from rushlight.utils import _pytree

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def associative_scan(
    combine_fn: Callable[[Any, Any], Any],
    xs: Any,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Element i of the result is the combination of elements 0 to i, of the last ones first where
    ``reverse`` says so. It must not matter in which order pairs are combined.

    >>> import rushlight as torch
    >>> from rushlight._higher_order_ops import associative_scan
    >>> associative_scan(torch.mul, torch.tensor([1.0, 2.0, 3.0, 4.0]), 0)
    tensor([ 1.,  2.,  6., 24.])
    """
    if not callable(combine_fn):
        raise ValueError(f"combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"combine_mode must be 'pointwise' or 'generic', but got {combine_mode!r}")
    leaves, spec = _pytree.tree_flatten(xs)
    if not leaves or not all(isinstance(leaf, Tensor) and leaf.dim() for leaf in leaves):
        raise ValueError("xs must be tensors of at least one dimension")
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    if len({leaf.shape[0] for leaf in leaves}) != 1:
        raise ValueError("all tensors of xs must have the same size along the dimension")

    def combine(a: list[Tensor], b: list[Tensor]) -> list[Tensor]:
        given = combine_fn(spec.unflatten(a), spec.unflatten(b))
        return _pytree.tree_flatten(given)[0]

    if reverse:
        leaves = [leaf.flip(0) for leaf in leaves]
    found = _scan(combine, leaves)
    if reverse:
        found = [leaf.flip(0) for leaf in found]
    return spec.unflatten([leaf.movedim(0, dim) for leaf in found])


def _scan(
    combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]], xs: list[Tensor]
) -> list[Tensor]:
    """Pairs are combined and scanned; what they give is combined with the elements between."""
    count = xs[0].shape[0]
    if count < 2:
        return xs
    pairs = combine([x[0 : count - 1 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _scan(combine, pairs)
    left = [x[: (count - 1) // 2] for x in odd]
    even = combine(left, [x[2::2] for x in xs]) if count > 2 else [x[:0] for x in xs]
    return [
        _interleaved(rushlight.cat([x[:1], e]), o) for x, e, o in zip(xs, even, odd, strict=True)
    ]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    """Elements in turn; the first may have one more."""
    joined = rushlight.stack([even[: odd.shape[0]], odd], 1).flatten(0, 1)
    return rushlight.cat([joined, even[odd.shape[0] :]])
