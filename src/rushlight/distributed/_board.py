"""What each process of a machine is calling, in memory that they share.

A collective that does not fit those of the other processes is found before it is started: every
process writes a line about its n-th collective of a group, and reads those of the others.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
import time

from rushlight.distributed._errors import DistBackendError

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed._stores import Store

_ENTRY = 512  # bytes: the number of the collective, a digest of what must agree, the text
_TEXT = _ENTRY - 16
_RING = 64  # entries for each process and group
_GROUPS = 32
_PAGE = _ENTRY * _RING
_MANY = 8  # in larger groups, a process looks at its neighbours only
_PEERS = 16  # in larger groups, what each process sends to each is not compared
_PAIRS = 16 * _PEERS  # bytes at the end of an entry: counts sent to, and expected of, each rank


class Board:
    """The shared memory of the processes of one machine."""

    def __init__(self, store: Store, rank: int, size: int) -> None:
        machine = _machine()
        store.set(f"machine/{rank}", machine)
        machines = [store.get(f"machine/{r}").decode() for r in range(size)]
        self.rank = rank
        self.here = [r for r in range(size) if machines[r] == machine]
        folder = "/dev/shm" if os.path.isdir("/dev/shm") else None
        key = f"board/{self.here[0]}"
        length = len(self.here) * _GROUPS * _PAGE
        if rank == self.here[0]:
            descriptor, path = tempfile.mkstemp(prefix="rushlight-", dir=folder)
            os.ftruncate(descriptor, length)
            store.set(key, path)
        else:
            path = store.get(key).decode()
            descriptor = os.open(path, os.O_RDWR)
        self.memory = mmap.mmap(descriptor, length)
        os.close(descriptor)
        if store.add(f"{key}/open", 1) == len(self.here):
            os.unlink(path)  # everyone has it; nothing stays behind

    def lines(self, group: int, ranks: list[int]) -> Lines | None:
        """The entries of a group's processes; None if there is nobody to compare with."""
        near = [r for r in ranks if r in self.here]
        if not 0 <= group < _GROUPS or len(near) < 2 or self.rank not in near:
            return None
        return Lines(self, group, near, ranks)


def _machine() -> str:
    """What only processes of one machine, in one container, have in common."""
    import socket

    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        space = os.readlink("/proc/self/ns/ipc") + str(os.stat("/dev/shm").st_dev)
    except OSError:
        boot = space = ""
    return f"{socket.gethostname()} {boot} {space}"


class Lines:
    """The collectives of one group: what its processes on this machine call."""

    def __init__(self, board: Board, group: int, near: list[int], ranks: list[int]) -> None:
        self._memory = board.memory
        self._count = 0
        starts = {r: (board.here.index(r) * _GROUPS + group) * _PAGE for r in near}
        self._own = starts[board.rank]
        self._rank = board.rank
        self._all = [(r, start) for r, start in starts.items() if r != board.rank]
        at = near.index(board.rank)
        beside = {near[at - 1], near[(at + 1) % len(near)]}
        few = len(near) <= _MANY
        self._checked = self._all if few else [x for x in self._all if x[0] in beside]
        self._texts: dict[Any, tuple[int, bytes]] = {}
        self._place, self._size = {r: ranks.index(r) for r in near}, len(ranks)
        self._paired = [0] * _RING  # the collectives whose entries say what goes to whom

    def enter(
        self, what: tuple[Any, ...], shape: Any, site: tuple[str, int], pairs: Any = None
    ) -> int:
        """Writes what this process calls next, and compares; its number in the group.

        ``pairs`` are a text, and how many values it sends to, and expects of, each rank.
        """
        if pairs is not None and len(pairs[1]) > _PEERS:
            pairs = None
        key = (what, shape, site, None if pairs is None else pairs[0])
        entry = self._texts.get(key)
        if entry is None:
            if len(self._texts) > 10_000:  # sizes that differ at every step
                self._texts.clear()
            entry = self._texts[key] = _entry(what, shape, site, key[3])
        self._count = count = self._count + 1
        at = self._own + count % _RING * _ENTRY
        memory = self._memory
        struct.pack_into("<Q", memory, at, 0)  # who reads meanwhile finds no entry
        memory[at + 16 : at + 16 + len(entry[1])] = entry[1]
        if pairs is not None:
            self._paired[count % _RING] = count
            counts = struct.pack(f"<{2 * len(pairs[1])}Q", *pairs[1], *pairs[2])
            memory[at + _ENTRY - _PAIRS : at + _ENTRY - _PAIRS + len(counts)] = counts
        struct.pack_into("<Q", memory, at + 8, entry[0])
        struct.pack_into("<Q", memory, at, count)
        for rank, start in self._checked:
            at = start + count % _RING * _ENTRY
            number, digest = struct.unpack_from("<QQ", memory, at)
            if number == count and digest != entry[0]:
                self._compare(rank, at, count, entry)
            elif number == count and pairs is not None:
                self._compare_pairs(rank, at, count)
        return count

    def look(self, count: int) -> None:
        """Compares again, while waiting for the others."""
        own = self._own + count % _RING * _ENTRY
        number, digest = struct.unpack_from("<QQ", self._memory, own)
        if number != count:
            return
        for rank, start in self._all:
            at = start + count % _RING * _ENTRY
            if struct.unpack_from("<Q", self._memory, at)[0] == count:
                self._compare(rank, at, count, (digest, self._memory[own + 16 : own + _ENTRY]))
                if self._paired[count % _RING] == count:
                    self._compare_pairs(rank, at, count)

    def doing(self) -> str:
        """What each of the others called last."""
        texts = []
        for rank, start in self._all:
            entries = [
                (struct.unpack_from("<Q", self._memory, start + i * _ENTRY)[0], i)
                for i in range(_RING)
            ]
            count, i = max(entries)
            at = start + i * _ENTRY
            text = _text(self._memory[at + 16 : at + _ENTRY]) if count else "no collective"
            state = "is in" if count >= self._count else f"is {self._count - count} behind, after"
            texts.append(f"rank {rank} {state} {text}")
        return "; ".join(texts)

    def _compare_pairs(self, rank: int, at: int, count: int) -> None:
        """Whether this process and another expect of each other what the other sends."""
        own = self._own + count % _RING * _ENTRY
        here, there = self._place[self._rank], self._place[rank]

        def counted(entry: int, ranks: tuple[int, int]) -> list[int]:
            start = entry + _ENTRY - _PAIRS
            offsets = (start + 8 * ranks[0], start + 8 * (self._size + ranks[1]))
            return [struct.unpack_from("<Q", self._memory, offset)[0] for offset in offsets]

        def differs() -> bool:
            return counted(own, (there, there)) != counted(at, (here, here))[::-1]

        if not differs():
            return
        time.sleep(0.001)  # the other may have been writing
        if struct.unpack_from("<Q", self._memory, at)[0] != count or not differs():
            return
        sent, expected = counted(own, (there, there))
        its, wanted = counted(at, (here, here))
        pair = (
            (self._rank, sent, rank, wanted)
            if sent != wanted
            else (rank, its, self._rank, expected)
        )
        texts = [_text(self._memory[x + 16 : x + _ENTRY - _PAIRS]) for x in (own, at)]
        raise DistBackendError(
            f"Detected mismatch between collectives on ranks: rank {self._rank} calls {texts[0]}, "
            f"but rank {rank} calls {texts[1]} (collective {count} of the group): rank {pair[0]} "
            f"sends {pair[1]} values to rank {pair[2]}, which expects {pair[3]}"
        )

    def _compare(self, rank: int, at: int, count: int, own: tuple[int, bytes]) -> None:
        time.sleep(0.001)  # the other may have been writing
        number, digest = struct.unpack_from("<QQ", self._memory, at)
        if number != count or digest == own[0]:
            return
        other = _text(self._memory[at + 16 : at + _ENTRY])
        raise DistBackendError(
            f"Detected mismatch between collectives on ranks: rank {self._rank} calls "
            f"{_text(own[1])}, but rank {rank} calls {other} (collective {count} of the group): "
            "every process of a group must call the same collectives in the same order"
        )


def _entry(
    what: tuple[Any, ...], shape: Any, site: tuple[str, int], told: str | None = None
) -> tuple[int, bytes]:
    """The digest of what must agree, and the text for people."""
    import zlib

    name, op, *rest = what
    details = [] if op is None else [f"op={op.name}"]
    if shape is not None:
        dtype, _, *rest = rest
        details.insert(0, f"{str(dtype).removeprefix('torch.')}{list(shape)}")
    details += [str(x).removeprefix("torch.") for x in rest if x is not None]
    if told is not None:
        details.insert(1, told)
    room, longest = (_TEXT, 300) if told is None else (_TEXT - _PAIRS, 80)
    file = site[0] if len(site[0]) < longest else "..." + site[0][-longest:]
    text = f"{name}({', '.join(details)}) at {file}:{site[1]}".encode()[: room - 1] + b"\0"
    agreed = repr(what).encode()
    return zlib.crc32(agreed) << 32 | zlib.adler32(agreed), text


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode(errors="replace")
