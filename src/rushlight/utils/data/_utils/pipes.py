"""What a loader does for data pipes: seeds that workers share, and a part for each of them."""

from __future__ import annotations

import sys
from typing import Any

import rushlight


def is_pipe(dataset: Any, kinds: tuple[str, ...] = ("IterDataPipe", "MapDataPipe")) -> bool:
    """Whether it is a data pipe. Their modules stay unloaded where a program has none."""
    module = sys.modules.get("rushlight.utils.data.datapipes.datapipe")
    return module is not None and isinstance(dataset, tuple(getattr(module, k) for k in kinds))


def is_stream(dataset: Any) -> bool:
    """Whether it is a data pipe without keys."""
    return is_pipe(dataset, ("IterDataPipe",))


def place() -> tuple[int, int]:
    """The number of this process in its group, and how many there are."""
    distributed = sys.modules.get("rushlight.distributed")
    if distributed is None or not distributed.is_initialized():
        return 0, 1
    return distributed.get_rank(), distributed.get_world_size()


def shared_seed(generator: Any) -> int:
    """A seed that all processes of the group have: they then shuffle alike, and take parts."""
    seed = rushlight.empty((), dtype=rushlight.int64).random_(generator=generator)
    if place()[1] > 1:
        drawn = [int(seed.item())]
        sys.modules["rushlight.distributed"].broadcast_object_list(drawn, src=0)
        return drawn[0]
    return int(seed.item())


def set_seed(dataset: Any, seed: int) -> None:
    """Seeds the steps that draw numbers."""
    from rushlight.utils.data.graph_settings import apply_random_seed

    apply_random_seed(dataset, rushlight.Generator().manual_seed(seed))


def divide(dataset: Any, parts: int, part: int) -> None:
    """Leaves the steps that divide a stream their part of it."""
    from rushlight.utils.data.graph_settings import apply_sharding

    apply_sharding(dataset, parts, part)


def divide_among_processes(dataset: Any) -> None:
    """The same in a loader without workers."""
    from rushlight.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
    from rushlight.utils.data.graph_settings import apply_sharding

    rank, size = place()
    apply_sharding(dataset, size, rank, SHARDING_PRIORITIES.DISTRIBUTED)
