"""What a DataLoader tells the steps of a data pipe: parts, seeds, and whether to shuffle."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import rushlight
from rushlight.utils.data.datapipes.iter.sharding import (
    SHARDING_PRIORITIES,
    _ShardingIterDataPipe,
)
from rushlight.utils.data.graph import traverse_dps

__all__ = [
    "apply_random_seed", "apply_sharding", "apply_shuffle_seed", "apply_shuffle_settings",
    "get_all_graph_pipes",
]  # fmt: skip


def get_all_graph_pipes(graph: dict[int, Any]) -> list[Any]:
    """The pipes of what ``traverse_dps`` gave, each once.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> from rushlight.utils.data.graph import traverse_dps
    >>> from rushlight.utils.data.graph_settings import get_all_graph_pipes
    >>> get_all_graph_pipes(traverse_dps(IterableWrapper("ab").batch(2)))
    [BatcherIterDataPipe, IterableWrapperIterDataPipe]
    """
    found: dict[int, Any] = {}

    def visit(graph: dict[int, Any]) -> None:
        for number, (pipe, below) in graph.items():
            if number not in found:
                found[number] = pipe
                visit(below)

    visit(graph)
    return list(found.values())


def _methods(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(
    datapipe: Any,
    num_of_instances: int,
    instance_id: int,
    sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
) -> Any:
    """Every ``sharding_filter`` takes its part.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> from rushlight.utils.data.graph_settings import apply_sharding
    >>> list(apply_sharding(IterableWrapper(range(4)).sharding_filter().batch(2), 2, 0))
    [[0, 2]]
    """

    def visit(graph: dict[int, Any], divided: Any) -> None:
        for pipe, below in graph.values():
            here = divided
            if isinstance(pipe, _ShardingIterDataPipe) or _methods(pipe, "apply_sharding"):
                if divided is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause "
                        f"data loss. Sharding already applied to {divided!r} while trying to apply "
                        f"to {pipe!r}"
                    )
                if isinstance(pipe, _ShardingIterDataPipe):
                    pipe.apply_sharding(num_of_instances, instance_id, sharding_group)
                else:
                    pipe.apply_sharding(num_of_instances, instance_id)
                here = pipe
            visit(below, here)

    visit(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turns the steps that shuffle on or off; adds one where there is none and it is wanted.

    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> from rushlight.utils.data.graph_settings import apply_shuffle_settings
    >>> list(apply_shuffle_settings(IterableWrapper(range(3)).shuffle(), shuffle=False))
    [0, 1, 2]
    """
    if shuffle is None:
        return datapipe
    shufflers = [
        pipe
        for pipe in get_all_graph_pipes(traverse_dps(datapipe))
        if _methods(pipe, "set_shuffle", "set_seed")
    ]
    if not shufflers and shuffle:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at "
            "the end. Be aware that the default buffer size might not be sufficient for your task.",
            stacklevel=3,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Gives every step that draws numbers a seed from a generator.

    >>> import rushlight as torch
    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper
    >>> from rushlight.utils.data.graph_settings import apply_random_seed
    >>> a, b = [
    ...     list(apply_random_seed(IterableWrapper(range(9)).shuffle(), generator))
    ...     for generator in (torch.Generator().manual_seed(3), torch.Generator().manual_seed(3))
    ... ]
    >>> a == b
    True
    """
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _methods(pipe, "set_seed"):
            drawn = rushlight.empty((), dtype=rushlight.int64).random_(generator=rng)
            pipe.set_seed(int(drawn.item()))
    return datapipe


apply_shuffle_seed = apply_random_seed  # its older name
