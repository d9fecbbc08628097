"""Which data pipes a data pipe is made of."""

from __future__ import annotations

from typing import Any

from rushlight.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]


def _within(value: Any, found: list[Any]) -> None:
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        found.append(value)
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            _within(item, found)
    elif isinstance(value, dict):
        for item in value.values():
            _within(item, found)


def traverse_dps(datapipe: Any) -> dict[int, Any]:
    """``{id: (pipe, the same of the pipes in its attributes)}``.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> from rushlight.utils.data.graph import traverse_dps
    >>> pipe = IterableWrapper("ab").batch(2)
    >>> traverse_dps(pipe)[id(pipe)][0]
    BatcherIterDataPipe
    """
    return _traverse(datapipe, frozenset())


def _traverse(datapipe: Any, above: frozenset[int]) -> dict[int, Any]:
    if not isinstance(datapipe, (IterDataPipe, MapDataPipe)):
        raise RuntimeError(
            f"Expected `IterDataPipe` or `MapDataPipe`, but {type(datapipe)} is found"
        )
    if id(datapipe) in above:
        return {}
    found: list[Any] = []
    _within(vars(datapipe), found)
    above |= {id(datapipe)}
    below: dict[int, Any] = {}
    for pipe in found:
        below.update(_traverse(pipe, above))
    return {id(datapipe): (datapipe, below)}


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> dict[int, Any]:
    """The older name of ``traverse_dps``.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> from rushlight.utils.data.graph import traverse
    >>> len(traverse(IterableWrapper("ab")))
    1
    """
    return traverse_dps(datapipe)
