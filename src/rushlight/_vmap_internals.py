"""The older ``vmap`` and its private helpers, which libraries import."""

from __future__ import annotations

import warnings

from rushlight import _C
from rushlight.utils._pytree import tree_flatten, tree_unflatten
from rushlight.utils._pytree_prefix import broadcast_prefix

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

in_dims_t = "int | tuple[Any, ...]"
out_dims_t = "int | tuple[int, ...]"

_ops = _C._namespaces[""]
_add_batch_dim = _ops["_add_batch_dim"]
_remove_batch_dim = _ops["_remove_batch_dim"]


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0) -> Callable[..., Any]:
    """Deprecated: ``torch.vmap``."""
    warnings.warn(
        "Please use torch.vmap instead of torch._vmap_internals.vmap.", FutureWarning, stacklevel=2
    )
    return _vmap(func, in_dims, out_dims)


def _vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    allow_none_pass_through: bool = False,
) -> Callable[..., Any]:
    from rushlight.func import vmap

    if not allow_none_pass_through:
        return vmap(func, in_dims, out_dims, randomness="error")

    def wrapped(*args: Any) -> Any:
        """None stays None: such results are taken out, and put back where they were."""
        places: Any = None

        def without_none(*samples: Any) -> tuple[Any, ...]:
            nonlocal places
            results, spec = tree_flatten(func(*samples))
            places = (spec, [r is None for r in results])
            return tuple(r for r in results if r is not None)

        dims = out_dims if isinstance(out_dims, int) else 0
        found = iter(vmap(without_none, in_dims, dims)(*args))
        spec, missing = places
        return tree_unflatten([None if none else next(found) for none in missing], spec)

    return wrapped


def _as_tuple(value: Any, num_elements: int, error_message_lambda: Callable[[], str]) -> Any:
    if not isinstance(value, tuple):
        return (value,) * num_elements
    if len(value) != num_elements:
        raise ValueError(error_message_lambda())
    return value


def _broadcast_to_and_flatten(tree: Any, treespec: Any) -> list[Any] | None:
    """For each leaf of a tree of this shape, the leaf of ``tree`` above it."""
    return broadcast_prefix(tree, tree_unflatten([0] * treespec.num_leaves, treespec))


def _get_name(func: Callable[..., Any]) -> str:
    return getattr(func, "__name__", None) or repr(func)
