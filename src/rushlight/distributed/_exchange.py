"""Sums and gathers of some size in small groups, by messages straight from process to process.

Each process sends every other one its part, adds up what it gets for its own part, and sends the
sum to all: two rounds whatever the number of processes, and no byte twice. MPI's own forms take
more rounds and copies: docs/design/distributed.md has the times.
"""

from __future__ import annotations

import rushlight
from rushlight import _C
from rushlight.distributed import _reductions

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_ops = _C._namespaces[""]

# Bytes from which on messages are quicker, with two processes and with more.
_LEAST = {
    "all_reduce": (1 << 20, 8 << 10),
    "reduce_scatter": (1 << 16, 8 << 10),
    "all_gather": (1 << 62, 8 << 10),
}
_MANY = 8  # processes; the number of messages grows with its square
_TURNS = 4096  # collectives under way at a time, at most: each has tags of its own
_SUMS = ("SUM", "AVG", "PREMUL_SUM")


class Request:
    """Rounds of messages under way; ``Test`` moves them on, as that of MPI's requests does."""

    def __init__(self, rounds: Iterator[list[Any]]) -> None:
        self._rounds = rounds
        self._open = next(rounds)

    def Test(self, status: Any = None) -> bool:
        """Whether all rounds are over; begins the next one when it can."""
        while True:
            while self._open:
                if not self._open[-1].Test():
                    return False
                self._open.pop()
            with rushlight.inference_mode():  # tensors of that mode are changed in it alone
                following = next(self._rounds, None)
            if following is None:
                return True
            self._open = following


class Exchange:
    """The collectives of one communicator that go by messages of their own."""

    def __init__(self, MPI: Any, comm: Any) -> None:
        self._MPI, self._comm = MPI, comm
        self._size, self._rank = comm.Get_size(), comm.Get_rank()
        self._others = [r for r in range(self._size) if r != self._rank]
        # Tags from the top of their range: programs choose theirs from the bottom.
        self._top = MPI.COMM_WORLD.Get_attr(MPI.TAG_UB) - 1
        self._turn = 0

    def suits(self, name: str, whole: Any, op: Any = None) -> bool:
        """Whether messages are quicker; every process of a collective answers the same."""
        if whole.numel() * whole.element_size() < _LEAST[name][self._size > 2]:
            return False
        adds = op is None or (op.name in _SUMS and whole.dtype.is_floating_point)
        return adds and self._size <= _MANY

    def all_reduce(self, whole: Any, factor: float = 1.0) -> Request:
        """The sum over all processes times ``factor``, in place."""
        return Request(self._all_reduce(whole.view(-1), factor, self._tag()))

    def reduce_scatter(self, whole: Any, own: Any) -> Request:
        """The sum of this process's part of ``whole``, in ``own``."""
        return Request(self._reduce_scatter(whole.view(-1), own.view(-1), self._tag()))

    def all_gather(self, own: Any, whole: Any) -> Request:
        """The parts of all processes, in ``whole``."""
        return Request(self._all_gather(own, whole.view(-1), self._tag()))

    def _tag(self) -> int:
        self._turn = (self._turn + 1) % _TURNS
        return int(self._top - 2 * self._turn)

    def _memory(self, flat: Any, length: int) -> Any:
        """Gives the memory of the part of each rank, ``length`` values or what is left."""
        datatype = _reductions.mpi_type(self._MPI, flat.dtype)
        start, size = flat.data_ptr(), flat.element_size()
        count = flat.numel()

        def of(rank: int) -> list[Any]:
            first, last = min(rank * length, count), min((rank + 1) * length, count)
            part = self._MPI.buffer.fromaddress(start + first * size, (last - first) * size)
            return [part, datatype]

        return of

    def _all_reduce(self, whole: Any, factor: float, tag: int) -> Iterator[list[Any]]:
        length = -(-whole.numel() // self._size)
        own = whole[self._rank * length : (self._rank + 1) * length].data
        parts = self._memory(whole, length)
        yield from self._sum(parts, own, own, tag)
        if factor != 1.0:
            own.mul_(factor)
        yield self._spread(parts, tag + 1)

    def _reduce_scatter(self, whole: Any, own: Any, tag: int) -> Iterator[list[Any]]:
        length = own.numel()
        first = whole[self._rank * length : (self._rank + 1) * length]
        yield from self._sum(self._memory(whole, length), first, own.data, tag)

    def _all_gather(self, own: Any, whole: Any, tag: int) -> Iterator[list[Any]]:
        length = own.numel()
        place = whole[self._rank * length : (self._rank + 1) * length].data
        if place.data_ptr() != own.data_ptr():
            place.copy_(own.view(-1))
        yield self._spread(self._memory(whole, length), tag)

    def _sum(self, parts: Any, first: Any, own: Any, tag: int) -> Iterator[list[Any]]:
        """Sends the others their parts; ``own`` becomes ``first`` and what they send."""
        count = own.numel()
        come = _ops["empty"](len(self._others), count, dtype=own.dtype)
        places = self._memory(come.view(-1), count)
        receive, send = self._comm.Irecv, self._comm.Isend
        requests = [receive(places(i), source=r, tag=tag) for i, r in enumerate(self._others)]
        yield requests + [send(parts(r), dest=r, tag=tag) for r in self._others]
        rows = list(come)
        _ops["add"](first, rows[0], out=own)
        for row in rows[1:]:
            own.add_(row)

    def _spread(self, parts: Any, tag: int) -> list[Any]:
        """Sends all others this process's part, and receives theirs."""
        own = parts(self._rank)
        receive, send = self._comm.Irecv, self._comm.Isend
        requests = [receive(parts(r), source=r, tag=tag) for r in self._others]
        return requests + [send(own, dest=r, tag=tag) for r in self._others]
