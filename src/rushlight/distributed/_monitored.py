"""A barrier that says who is missing."""

from __future__ import annotations

import time
from datetime import timedelta

from rushlight.distributed._buffers import start
from rushlight.distributed._errors import DistBackendError, DistNetworkError

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed._groups import ProcessGroup


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """Waits until every process of the group is here; an error names those that are not.

    >>> import rushlight.distributed as dist
    >>> dist.init_process_group(rank=0, world_size=1)
    >>> dist.monitored_barrier()
    >>> dist.destroy_process_group()
    """
    call = start("monitored_barrier", group)
    if call is None:
        return
    members = call.group
    seconds = (members._timeout if timeout is None else timeout).total_seconds()
    members._barriers += 1
    key = f"barrier/{members._barriers}"
    if members.rank() == 0:
        _await_all(members, key, seconds, wait_all_ranks)
        return
    members._store.set(f"{key}/{members.rank()}", b"1")
    if not await_key(members, f"{key}/go", 0, time.monotonic() + seconds):
        raise DistBackendError(
            f"Rank {members._world.rank} successfully reached monitoredBarrier, but received "
            f"errors while waiting for send/recv from rank {members._ranks[0]} in "
            f"{seconds * 1000:.0f} ms at {call.line()}. Please check rank {members._ranks[0]} logs "
            "for faulty rank."
        )


def _await_all(members: ProcessGroup, key: str, seconds: float, all_ranks: bool) -> None:
    end = time.monotonic() + seconds
    missing = []
    for rank in range(1, members.size()):
        if not await_key(members, f"{key}/{rank}", rank, end):
            missing.append(members._ranks[rank])
            if not all_ranks:
                break
    if missing:
        raise DistBackendError(
            f"[Rank {members._ranks[0]}]: Ranks {', '.join(map(str, missing))} failed to pass "
            f"monitoredBarrier in {seconds * 1000:.0f} ms{members._others()}"
        )
    members._store.set(f"{key}/go", b"1")


def await_key(members: ProcessGroup, key: str, rank: int, end: float) -> bool:
    """Whether a key comes in time, and before the process that writes it has gone."""
    pause = 0.0005
    try:
        while not members._store.check([key]):
            if time.monotonic() > end or members._ranks[rank] in members._world.gone:
                return members._store.check([key])
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
    except DistNetworkError:  # the store went with the process that held it
        return False
    return True
