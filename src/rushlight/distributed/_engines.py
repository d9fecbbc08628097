"""What moves data between the processes of a group: MPI, or nothing where there is one.

An engine says on which device memory must lie (``device``), how it is told of it (``memory``) and
of operations (``op``), and has nonblocking collectives with MPI's names (``comm``), which return
requests. ``exchange`` sends messages in place of some of them, or is None. The engine of CUDA
devices is in ``_nccl_engine.py``.
"""

from __future__ import annotations

import ctypes

from rushlight.distributed import _reductions
from rushlight.distributed._exchange import Exchange

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


_PIECE = 16 << 20  # bytes; from 32 MiB on malloc asks the system for memory each time


class Mpi:
    """MPI's nonblocking collectives on main memory; tensors of other devices are copied there."""

    device = "cpu"

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self.MPI = MPI
        self.comm = comm
        self.in_place = MPI.IN_PLACE
        self.exchange = Exchange(MPI, comm)

    def part(self, ranks: list[int]) -> Mpi | Alone:
        """The engine of some of the processes."""
        if len(ranks) == 1:
            return Alone()
        return Mpi(self.comm.Create_group(self.comm.Get_group().Incl(ranks)))

    def memory(self, tensor: Any, counts: Sequence[int] | None = None) -> Any:
        """Address, length and type; with the number of values per rank."""
        size = tensor.numel() * tensor.element_size()
        datatype = _reductions.mpi_type(self.MPI, tensor.dtype)
        buffer = self.MPI.buffer.fromaddress(tensor.data_ptr(), size)
        if counts is None:
            return [buffer, datatype]
        places = [sum(counts[:i]) for i in range(len(counts))]
        return [buffer, (list(counts), places), datatype]

    def pieces(self, tensor: Any) -> list[Any]:
        """What is combined in turn: MPI's copies of more would be new memory every time."""
        size = _PIECE // tensor.element_size()
        return list(tensor.view(-1).split(size)) if tensor.numel() > size else [tensor]

    def op(self, kind: Any, dtype: Any, where: str) -> Any:
        """The operation that combines values."""
        return _reductions.mpi_op(self.MPI, kind, dtype)

    def meet(self, call: Any, peers: list[int], device: Any) -> None:
        """Nothing: messages need no preparation."""

    def receive(self, call: Any, into: Any, source: int | None, tag: int) -> tuple[Any, Any]:
        """The request for a message, and what will say where it came from."""
        status = self.MPI.Status()
        memory = self.memory(into)
        from_ = self.MPI.ANY_SOURCE if source is None else source

        def check() -> None:
            arrived = status.Get_count(memory[1])
            if arrived != into.numel():
                sender = call.group._ranks[status.Get_source()]
                raise RuntimeError(
                    f"{call.name}: rank {sender} sent {arrived} values, but the tensor has "
                    f"{into.numel()}"
                )

        call.first(check)
        return self.comm.Irecv(memory, source=from_, tag=tag), status

    def close(self) -> None:
        """Nothing: MPI ends with the process."""


class Alone:
    """A group of one process: what it sends is what it receives, at once."""

    device = "cpu"
    in_place = None
    exchange = None

    @property
    def comm(self) -> Any:
        """The collectives: its own."""
        return self

    def part(self, ranks: list[int]) -> Alone:
        """The engine of some of the processes: of the one."""
        return self

    def memory(self, tensor: Any, counts: Sequence[int] | None = None) -> Any:
        """Address and length."""
        return (tensor.data_ptr(), tensor.numel() * tensor.element_size())

    def pieces(self, tensor: Any) -> list[Any]:
        """All at once."""
        return [tensor]

    def op(self, kind: Any, dtype: Any, where: str) -> Any:
        """Nothing to combine."""
        return None

    def meet(self, call: Any, peers: list[int], device: Any) -> None:
        """Nobody."""

    def receive(self, call: Any, into: Any, source: int | None, tag: int) -> tuple[Any, Any]:
        """Raises: there is nobody who sends."""
        raise ValueError(
            f"{call.name}: Invalid source rank: the group has one process, so nobody sends to it"
        )

    def close(self) -> None:
        """Nothing to end."""

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
