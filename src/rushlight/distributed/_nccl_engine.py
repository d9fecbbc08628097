"""The engine of CUDA devices: NCCL's collectives, on streams of their own.

A collective runs on the device of its tensors; a barrier, which has none, on the group's
``device_id``, or else on the one in use. It waits for what the device's current stream has to do,
runs on the group's stream, and the current stream waits for it: the host goes on at once. Messages
between two processes go by two channels, one for each direction, so that ``isend`` and ``irecv``
may come in any order. A thread watches what is under way: docs/design/distributed.md.
"""

from __future__ import annotations

import collections
import os
import time
from typing import NamedTuple

import rushlight
from rushlight import _C
from rushlight.distributed import _nccl
from rushlight.distributed._errors import DistBackendError
from rushlight.distributed._monitored import await_key
from rushlight.distributed._stream_work import StreamWork, watch

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rushlight.distributed._buffers import Call
    from rushlight.distributed._groups import ProcessGroup

    Launch = Callable[[_nccl.Communicator], None]

_TYPES = {
    _C.int8: 0, _C.bool: 1, _C.uint8: 1, _C.int32: 2, _C.int64: 4, _C.float16: 6, _C.float32: 7,
    _C.float64: 8, _C.bfloat16: 9, _C.complex64: 7, _C.complex128: 8,
}  # fmt: skip
_SUM, _PRODUCT, _MAX, _MIN = range(4)
_OPS = {
    "SUM": _SUM, "AVG": _SUM, "PREMUL_SUM": _SUM, "PRODUCT": _PRODUCT, "MAX": _MAX, "MIN": _MIN,
}  # fmt: skip
# On bytes that are 0 or 1, logic is arithmetic.
_BOOL_OPS = {
    "SUM": _MAX, "MAX": _MAX, "BOR": _MAX, "PRODUCT": _MIN, "MIN": _MIN, "BAND": _MIN,
}  # fmt: skip


class Memory(NamedTuple):
    """A tensor as NCCL sees it."""

    at: int
    numbers: int  # a complex value is two of them
    kind: int
    bytes: int
    value: int  # bytes
    counts: Sequence[int]  # values per rank, or nothing
    device: int

    def part(self, rank: int) -> tuple[int, int]:
        """Address and bytes of what belongs to a rank."""
        start = sum(self.counts[:rank])
        return self.at + start * self.value, self.counts[rank] * self.value


class Request(NamedTuple):
    """A call that is yet to be made: on the group's channel, or on one with another process."""

    device: int
    launch: Launch
    peer: int | None = None
    outward: bool = False
    by_host: bool = False  # whether the host waits for the end


class Source(NamedTuple):
    """Where a message comes from, as MPI's status says it."""

    rank: int

    def Get_source(self) -> int:
        """The rank in the group."""
        return self.rank


class Channel(NamedTuple):
    """A communicator and the stream that its calls go to."""

    communicator: _nccl.Communicator
    stream: Any


class Nccl:
    """NCCL among the processes of a group; communicators are made when they are first used."""

    device = "cuda"
    in_place = None
    exchange = None

    def __init__(self, members: ProcessGroup) -> None:
        self.members = members
        self.error: BaseException | None = None
        self.told = False  # whether the program has seen the error
        self.bound: int | None = None  # the device that the program named for the group
        self._channels: dict[Any, Channel] = {}
        self._names: collections.Counter[str] = collections.Counter()

    @property
    def comm(self) -> Nccl:
        """The collectives: its own."""
        return self

    # -- how things are told -----------------------------------------------------------------------

    def memory(self, tensor: Any, counts: Sequence[int] | None = None) -> Memory:
        """Address, length and type; with the number of values per rank."""
        size, width = tensor.numel(), tensor.element_size()
        numbers = 2 * size if tensor.is_complex() else size
        kind = _TYPES.get(tensor.dtype, -1)
        return Memory(
            tensor.data_ptr(), numbers, kind, size * width, width, counts or (), tensor.get_device()
        )

    def pieces(self, tensor: Any) -> list[Any]:
        """All at once."""
        return [tensor]

    def op(self, kind: Any, dtype: Any, where: str) -> int:
        """The operation that combines values."""
        names = _BOOL_OPS if dtype == _C.bool else _OPS
        if dtype not in _TYPES:
            raise TypeError(
                f"{where}: Input tensor data type is not supported for NCCL process group: {dtype}"
            )
        if kind.name not in names or (dtype.is_complex and kind.name == "PRODUCT"):
            raise ValueError(f"{where}: Cannot use ReduceOp.{kind.name} of {dtype} with NCCL")
        return names[kind.name]

    # -- collectives: what is called when they run -------------------------------------------------

    def Iallreduce(self, send: None, into: Memory, op: int) -> Request:
        """Every process gets the combination of all."""
        return Request(into.device, lambda c: c.all_reduce(into.at, into.numbers, into.kind, op))

    def Ireduce(self, send: Memory | None, into: Memory | None, op: int, root: int) -> Request:
        """The root gets the combination of all."""
        m = send or into
        assert m is not None
        return Request(m.device, lambda c: c.reduce(m.at, m.at, m.numbers, m.kind, op, root))

    def Ibcast(self, memory: Memory, root: int) -> Request:
        """Every process gets what the root has."""
        return Request(
            memory.device, lambda c: c.broadcast(memory.at, memory.at, memory.bytes, root)
        )

    def Iallgather(self, send: Memory, into: Memory) -> Request:
        """Every process gets what all have."""
        return Request(send.device, lambda c: c.all_gather(send.at, into.at, send.bytes))

    def Iallgatherv(self, send: Memory, into: Memory) -> Request:
        """The same with different lengths."""

        def launch(c: _nccl.Communicator) -> None:
            for rank in range(c.size):
                at, size = into.part(rank)
                if size:
                    c.broadcast(send.at if rank == c.rank else at, at, size, rank)

        return Request(send.device, launch)

    def Igatherv(self, send: Memory, into: Memory | None, root: int) -> Request:
        """The root gets what all have."""

        def launch(c: _nccl.Communicator) -> None:
            if send.bytes:
                c.send(send.at, send.bytes, root)
            if into is not None:
                _receive_parts(c, into)

        return Request(send.device, launch)

    def Iscatter(self, send: Memory | None, into: Memory, root: int) -> Request:
        """The root hands parts out."""

        def launch(c: _nccl.Communicator) -> None:
            if not into.bytes:
                return
            if send is not None:
                for rank in range(c.size):
                    c.send(send.at + rank * into.bytes, into.bytes, rank)
            c.recv(into.at, into.bytes, root)

        return Request(into.device, launch)

    def Ireduce_scatter_block(self, send: Memory, into: Memory, op: int) -> Request:
        """Each process gets its part of the combination of all."""
        return Request(
            send.device,
            lambda c: c.reduce_scatter(send.at, into.at, into.numbers, into.kind, op),
        )

    def Ireduce_scatter(self, send: Memory, into: Memory, counts: list[int], op: int) -> Request:
        """The same with different lengths."""
        parts = send._replace(counts=counts)
        per_value = send.numbers // max(sum(counts), 1)

        def launch(c: _nccl.Communicator) -> None:
            for rank in range(c.size):
                at, size = parts.part(rank)
                if size:
                    to = into.at if rank == c.rank else at
                    c.reduce(at, to, counts[rank] * per_value, send.kind, op, rank)

        return Request(send.device, launch)

    def Ialltoallv(self, send: Memory, into: Memory) -> Request:
        """Each process sends a part to each."""

        def launch(c: _nccl.Communicator) -> None:
            for rank in range(c.size):
                at, size = send.part(rank)
                if size:
                    c.send(at, size, rank)
            _receive_parts(c, into)

        return Request(send.device, launch)

    def Ibarrier(self, device: int | None = None) -> Request:
        """Every process adds to a number, which lies on a device."""
        place = self.place() if device is None else device
        with rushlight.no_grad():
            one = rushlight.zeros(1, dtype=rushlight.int32, device=place)
        at, kind = one.data_ptr(), _TYPES[one.dtype]

        def launch(c: _nccl.Communicator, kept: Any = one) -> None:
            c.all_reduce(at, 1, kind, _SUM)

        return Request(one.get_device(), launch, by_host=True)

    def Isend(self, memory: Memory, dest: int, tag: int = 0) -> Request:
        """A message; NCCL has no tags: messages are received in the order they were sent in."""
        other = int(dest > self.members.rank())  # in a channel of two, the lower rank is 0
        return Request(memory.device, lambda c: c.send(memory.at, memory.bytes, other), dest, True)

    def receive(
        self, call: Call, into: Any, source: int | None, tag: int
    ) -> tuple[Request, Source]:
        """The request for a message, and what says where it comes from."""
        if source is None:
            raise ValueError(f"{call.name}: NCCL receives from a given rank: name it by src")
        memory = self.memory(into)
        other = int(source > self.members.rank())
        request = Request(memory.device, lambda c: c.recv(memory.at, memory.bytes, other), source)
        return request, Source(source)

    # -- channels ----------------------------------------------------------------------------------

    def _join(self, call: Call, key: str, ranks: list[int]) -> _nccl.Communicator:
        """A communicator of some ranks of the group, which all come here."""
        members = self.members
        store, rank = members._store, ranks.index(members.rank())
        if rank == 0:
            store.set(f"nccl/{key}/id", _nccl.unique_id())
        store.set(f"nccl/{key}/{ranks[rank]}", b"1")
        limit = members._timeout.total_seconds()
        end = time.monotonic() + limit
        for other in ranks:
            if not await_key(members, f"nccl/{key}/{other}", other, end):
                gone = members._ranks[other] in members._world.gone
                why = "has gone" if gone else f"did not come within {limit:g} s"
                raise DistBackendError(
                    f"{call.name}: rank {members._ranks[other]} {why}, and rank "
                    f"{members._world.rank} waits for it at {call.line()} to set NCCL up"
                )
        try:
            device = _C._cuda_chosen()
            return _nccl.Communicator(device, len(ranks), rank, store.get(f"nccl/{key}/id"))
        except DistBackendError as error:
            raise DistBackendError(
                f"{call.name}: {error}: every process needs a device of its own, and rank "
                f"{members._world.rank} uses cuda:{device}, where CUDA_VISIBLE_DEVICES is "
                f"{os.environ.get('CUDA_VISIBLE_DEVICES')!r}: say "
                "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first"
            ) from None

    def _open(self, key: Any, communicator: _nccl.Communicator) -> Channel:
        self._channels[key] = Channel(communicator, rushlight.cuda.Stream(priority=-1))
        return self._channels[key]

    def _name(self, kind: str) -> str:
        """What the processes call a communicator that they make: the how many-th of its kind."""
        self._names[kind] += 1
        return f"{kind}_{self._names[kind]}"

    def meet(self, call: Call, peers: list[int], device: Any) -> None:
        """Opens both channels of a device to each of the processes, which do the same."""
        own, device = self.members.rank(), device if isinstance(device, int) else device.index
        with rushlight.cuda.device(device):
            for peer in peers:  # in the same order everywhere, so that nobody waits in a circle
                if (device, peer, True) in self._channels:
                    continue
                pair = sorted((own, peer))
                for sender in pair:
                    name = self._name(f"{pair[0]}_{pair[1]}_{sender}")
                    self._open((device, peer, sender == own), self._join(call, name, pair))
                self._connect(device, peer)

    def _connect(self, device: int, peer: int) -> None:
        """A first message in both directions at once: NCCL connects when it is first used."""
        other = int(peer > self.members.rank())
        sent, got = (rushlight.zeros(1, dtype=rushlight.uint8, device=device) for _ in range(2))
        with _nccl.together():
            self._channels[device, peer, True].communicator.send(sent.data_ptr(), 1, other)
            self._channels[device, peer, False].communicator.recv(got.data_ptr(), 1, other)
        rushlight.cuda.current_stream().synchronize()

    def _channel(self, call: Call, request: Request) -> Channel:
        device = request.device
        if request.peer is not None:
            self.meet(call, [request.peer], device)
            return self._channels[device, request.peer, request.outward]
        if device not in self._channels:
            with rushlight.cuda.device(device):
                everyone = list(range(self.members.size()))
                self._open(device, self._join(call, self._name("all"), everyone))
        return self._channels[device]

    def connect(self, call: Call, device: int) -> None:
        """Makes the group's communicator on a device now, which barriers use from then on."""
        self.bound = device
        self._channel(call, Request(device, lambda c: None))

    # -- running -----------------------------------------------------------------------------------

    def run(
        self,
        call: Call,
        requests: list[Request],
        async_op: bool,
        result: Any,
        status: Any,
        seconds: float | None,
    ) -> StreamWork | None:
        """Puts calls, which are all of one channel, into its stream."""
        self.check()
        if not requests:
            requests = [Request(self.place(), lambda c: None)]
        channel = self._channel(call, requests[0])
        with rushlight.cuda.device(requests[0].device):
            work = self._put(call, channel, requests, result, status)
        if async_op:
            return work
        if seconds is not None:
            work._run(seconds)
        else:
            work.wait()
        return None

    def place(self) -> int:
        """The device of calls that have no tensor."""
        return _C._cuda_chosen() if self.bound is None else self.bound

    def _put(
        self, call: Call, channel: Channel, requests: list[Request], result: Any, status: Any
    ) -> StreamWork:
        """Puts calls into the channel's stream, whose device is in use."""
        current = rushlight.cuda.current_stream()
        recorded = rushlight.cuda.is_current_stream_capturing()
        stream = current if recorded else channel.stream
        work = StreamWork(call, self, stream, result, status, requests[0].by_host)
        if not recorded:
            watch.add(work)
            stream.wait_stream(current)
        try:
            with rushlight.cuda.stream(stream):
                with _nccl.together():
                    for request in requests:
                        request.launch(channel.communicator)
                call._finish()
                work.mark()
        except DistBackendError:
            self.check()  # the thread that watches may have ended it, and knows why
            raise
        return work

    def check(self) -> None:
        """Raises what has gone wrong before."""
        if self.error is not None:
            self.told = True
            raise self.error

    def trouble(self) -> str | None:
        """What NCCL says is wrong."""
        found = (c.communicator.trouble() for c in self._channels.values())
        return next((text for text in found if text is not None), None)

    def fail(self, error: BaseException) -> None:
        """Ends the communicators: what waits for another process on the device goes on."""
        if self.error is not None:
            return
        self.error = error
        self.members._mark_failed()
        for channel in self._channels.values():
            channel.communicator.abort()

    def close(self) -> None:
        """Ends the communicators, when their work is done."""
        if self.error is None:
            for channel in self._channels.values():
                channel.communicator.close()
        self._channels.clear()


def _receive_parts(c: _nccl.Communicator, into: Memory) -> None:
    for rank in range(c.size):
        at, size = into.part(rank)
        if size:
            c.recv(at, size, rank)


def require(where: str) -> None:
    """Raises if there is no NCCL, or no device."""
    if not _nccl.is_available():
        raise RuntimeError(
            f"{where}: Distributed package doesn't have NCCL built in: libnccl.so.2 was not found: "
            "pip install rushlight[cuda], or use backend='gloo', whose engine is MPI"
        )
    if not rushlight.cuda.is_available():
        raise ValueError(
            f"{where}: ProcessGroupNCCL is only supported with GPUs, no GPUs found!: use backend="
            "'gloo', whose engine is MPI"
        )


def is_default() -> bool:
    """Whether CUDA tensors go by NCCL when no backend is named: each process has a device."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return 0 < here <= rushlight.cuda.device_count() and _nccl.is_available()
