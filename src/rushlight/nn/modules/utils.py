"""Sizes given as one number or one per dimension."""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def _ntuple(n: int) -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a number n times and makes a tuple of anything iterable."""

    def parse(value: Any) -> tuple[Any, ...]:
        return tuple(value) if hasattr(value, "__iter__") else (value,) * n

    return parse


_single = _ntuple(1)
_pair = _ntuple(2)
_triple = _ntuple(3)
_quadruple = _ntuple(4)


def _reverse_repeat_tuple(sizes: Any, n: int) -> tuple[Any, ...]:
    """(a, b) becomes (b, b, a, a): the order in which ``pad`` takes its widths."""
    return tuple(size for size in reversed(sizes) for _ in range(n))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes ``prefix`` off the keys of a state dict that have it, and off its metadata, in place.

    >>> import rushlight as torch
    >>> state = {"module.weight": 1, "step": 2}
    >>> torch.nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
    >>> sorted(state)
    ['step', 'weight']
    """
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata: Any = getattr(state_dict, "_metadata", {})
    for key in list(metadata):
        # "" is the whole, "module" the part of that name: its entry has no dot.
        if key == prefix.removesuffix(".") or key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
