"""Custom Functions inside vmap."""

from __future__ import annotations

from collections import namedtuple

from rushlight import _C
from rushlight.autograd.function import Function
from rushlight.utils._pytree import tree_flatten, tree_unflatten
from rushlight.utils._pytree_prefix import broadcast_prefix

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

VmapInfo = namedtuple("VmapInfo", ["batch_size", "randomness"])
VmapInfo.__doc__ = "What a Function's `vmap` is told: how many samples, and about random numbers."

_ops = _C._namespaces[""]
_noted: set[Any] = set()


def apply_batched(cls: Any, *args: Any) -> Any:
    """Applies a Function to batched tensors: by its own rule, as it stands, or sample by sample."""
    own_rule = cls.vmap is not Function.vmap
    if own_rule and cls.generate_vmap_rule:
        raise RuntimeError(
            f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and "
            "an overriden vmap staticmethod. Please set generate_vmap_rule=False or delete the "
            "overriden vmap staticmethod to avoid ambiguity."
        )
    if own_rule:
        return _by_rule(cls, args)
    try:
        return _C._function_run(cls, *args)
    except RuntimeError as error:
        if cls.generate_vmap_rule or not str(error).startswith("vmap: "):
            raise
    _note_once(cls)
    return by_sample(cls.apply, args)


def _levels(args: tuple[Any, ...]) -> list[int]:
    return sorted({level for a in args for level in _C._batch_levels(a)})


def _size(args: tuple[Any, ...], level: int) -> int:
    return next(size for a in args for own, size in _C._batch_sizes(a) if own == level)


def _by_rule(cls: Any, args: tuple[Any, ...]) -> Any:
    level = _levels(args)[-1]
    size = _size(args, level)
    plain, in_dims = [], []
    for a in args:
        hidden = level in _C._batch_levels(a)
        plain.append(_ops["_remove_batch_dim"](a, level, size, 0) if hidden else a)
        in_dims.append(0 if hidden else None)
    info = VmapInfo(size, _C._vmap_randomness(level))
    returned = cls.vmap(info, tuple(in_dims), *plain)
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise RuntimeError(
            f"Expected the vmap staticmethod of {cls.__name__} to return (output, out_dims)"
        )
    output, out_dims = returned
    leaves, spec = tree_flatten(output)
    dims = broadcast_prefix(out_dims, output)
    if dims is None:
        raise RuntimeError(
            f"The vmap staticmethod of {cls.__name__} returned out_dims {out_dims!r}, which do "
            "not fit its output"
        )
    return tree_unflatten(
        [
            t if d is None else _ops["_add_batch_dim"](t, d, level)
            for t, d in zip(leaves, dims, strict=True)
        ],
        spec,
    )


def by_sample(function: Any, args: tuple[Any, ...]) -> Any:
    """Calls a function for each sample of the innermost level, and puts the results together."""
    level = _levels(args)[-1]
    size = _size(args, level)
    columns = [
        _ops["_remove_batch_dim"](a, level, size, 0).unbind(0)
        if level in _C._batch_levels(a)
        else [a] * size
        for a in args
    ]
    rows = [tree_flatten(function(*row)) for row in zip(*columns, strict=True)]
    joined = [
        _ops["_add_batch_dim"](_ops["stack"](list(parts), 0), 0, level)
        for parts in zip(*(leaves for leaves, _ in rows), strict=True)
    ]
    return tree_unflatten(joined, rows[0][1])


def _note_once(cls: Any) -> None:
    if cls in _noted:
        return
    _noted.add(cls)
    import warnings

    warnings.warn(
        f"vmap: {cls.__name__} reads numbers out of its tensors, so it is run sample by sample. "
        "A vmap staticmethod would run it once.",
        UserWarning,
        stacklevel=4,
    )
