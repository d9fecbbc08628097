"""The communicator of a group of one process: what it sends is what it receives."""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


class Alone:
    """MPI's nonblocking collectives for one process; they are done when they return."""

    @staticmethod
    def copy(source: Any, target: Any, *rest: Any, **options: Any) -> None:
        """Copies bytes; memory is a pair of an address and a length, or None: in place."""
        if source is not None and target is not None:
            ctypes.memmove(target[0], source[0], source[1])

    Iallreduce = Ireduce = Iallgather = Iallgatherv = Igather = Igatherv = copy
    Ireduce_scatter = Ireduce_scatter_block = Ialltoall = Ialltoallv = copy

    @staticmethod
    def Iscatter(source: Any, target: Any, root: int = 0) -> None:
        """Copies, unless it is in place."""
        Alone.copy(source, target)

    @staticmethod
    def Ibcast(buffer: Any, root: int = 0) -> None:
        """Nothing: every process has it."""

    @staticmethod
    def Ibarrier() -> None:
        """Nothing: every process is here."""
