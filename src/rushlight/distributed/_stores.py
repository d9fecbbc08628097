"""Key-value stores through which processes find each other: in memory, in a file, over TCP."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from datetime import timedelta

from rushlight.distributed._errors import DistNetworkError, DistStoreError
from rushlight.distributed._store_server import Server, receive, send
from rushlight.distributed._store_table import Table

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_TIMEOUT = timedelta(seconds=300)


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _seconds(timeout: timedelta | float | None, default: timedelta) -> float:
    timeout = default if timeout is None else timeout
    return timeout.total_seconds() if isinstance(timeout, timedelta) else float(timeout)


class Store:
    """Keys and values that several processes see. A reader waits for a key that is not there yet.

    >>> import rushlight as torch
    >>> store = torch.distributed.HashStore()
    >>> store.set("a", "1")
    >>> store.get("a"), store.add("n", 2), store.add("n", 3)
    (b'1', 2, 5)
    """

    def __init__(self) -> None:
        self._timeout = DEFAULT_TIMEOUT

    def _call(self, command: str, *arguments: bytes, timeout: float | None = None) -> list[bytes]:
        raise NotImplementedError(f"{type(self).__name__} is an interface: make a TCPStore, ...")

    @property
    def timeout(self) -> timedelta:
        """How long a reader waits for a key."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long a reader waits for a key."""
        self._timeout = timeout

    def set(self, key: str, value: str | bytes) -> None:
        """Writes a value; readers that wait for the key go on."""
        self._call("set", _bytes(key), _bytes(value))

    def get(self, key: str) -> bytes:
        """The value of a key, once it is there."""
        return self._waiting("get", [key], None)[0]

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """The values of keys, once all are there."""
        return self._waiting("get", keys, None)

    def multi_set(self, keys: Sequence[str], values: Sequence[str | bytes]) -> None:
        """Writes several values."""
        pairs = [_bytes(x) for pair in zip(keys, values, strict=True) for x in pair]
        self._call("set", *pairs)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Waits until all keys are there."""
        self._waiting("wait", keys, timeout)

    def _waiting(self, command: str, keys: Sequence[str], timeout: timedelta | None) -> list[bytes]:
        seconds = _seconds(timeout, self._timeout)
        try:
            return self._call(command, *map(_bytes, keys), timeout=seconds)
        except TimeoutError:
            missing = [key for key in keys if not self.check([key])]
            raise DistStoreError(
                f"{type(self).__name__}.{command}: wait timeout after {seconds * 1000:.0f}ms, "
                f"keys: {', '.join(missing)}"
            ) from None

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter, which starts at 0; returns its value."""
        return int(self._call("add", _bytes(key), b"%d" % amount)[0])

    def append(self, key: str, value: str | bytes) -> None:
        """Appends to a value."""
        self._call("append", _bytes(key), _bytes(value))

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys are there."""
        return self._call("check", *map(_bytes, keys)) == [b"1"]

    def compare_set(self, key: str, expected_value: str, desired_value: str) -> bytes:
        """Writes if the value is the expected one (an empty text: none); returns what is there."""
        return self._call(
            "compare_set", _bytes(key), _bytes(expected_value), _bytes(desired_value)
        )[0]

    def delete_key(self, key: str) -> bool:
        """Removes a key; whether it was there."""
        return self._call("delete", _bytes(key)) == [b"1"]

    def num_keys(self) -> int:
        """How many keys there are."""
        return int(self._call("count")[0])

    def queue_push(self, key: str, value: str | bytes) -> None:
        """Appends to a queue."""
        self._call("push", _bytes(key), _bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Takes the first entry of a queue, once there is one."""
        from rushlight.distributed._errors import QueueEmptyError

        if not block and not self.queue_len(key):
            raise QueueEmptyError(f"queue {key} is empty")
        return self._waiting("pop", [key], None)[0]

    def queue_len(self, key: str) -> int:
        """How many entries a queue has."""
        return int(self._call("length", _bytes(key))[0])

    def has_extended_api(self) -> bool:
        """Whether ``append``, ``multi_get`` and ``multi_set`` work: they do."""
        return True

    def clone(self) -> Store:
        """A handle of the same store, for another thread."""
        return self

    def _close(self) -> None:
        """Lets go of what the store holds outside this process."""


class HashStore(Store):
    """A store in this process's memory, for threads.

    >>> import rushlight as torch
    >>> store = torch.distributed.HashStore()
    >>> store.set("key", "value")
    >>> store.check(["key"]), store.num_keys(), store.delete_key("key")
    (True, 1, True)
    """

    def __init__(self) -> None:
        super().__init__()
        self._table = Table()
        self._changed = threading.Condition()

    def _call(self, command: str, *arguments: bytes, timeout: float | None = None) -> list[bytes]:
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while (result := self._table.run(command, arguments)) is None:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    raise TimeoutError
                self._changed.wait(left)
            self._changed.notify_all()
            return result


class FileStore(Store):
    """A store in a file that all processes reach. The last one to close it removes the file.

    >>> import tempfile, rushlight as torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = torch.distributed.FileStore(folder + "/store", 1)
    ...     store.set("key", "value")
    ...     value = torch.distributed.FileStore(folder + "/store", 1).get("key")
    >>> value
    b'value'
    """

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__()
        self._path = os.path.abspath(file_name)
        self._read = 0  # bytes of the file that the table holds
        self._table = Table(keeps_journal=True)
        self._lock = threading.Lock()
        self._inode: int | None = None
        self._closed = False
        self._call("add", b"&users", b"1")

    @property
    def path(self) -> str:
        """The file."""
        return self._path

    def num_keys(self) -> int:
        """How many keys there are."""
        return super().num_keys() - 1  # the count of users

    def _call(self, command: str, *arguments: bytes, timeout: float | None = None) -> list[bytes]:
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = 0.0002
        while (result := self._attempt(command, arguments)) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
        return result

    def _attempt(self, command: str, arguments: tuple[bytes, ...]) -> list[bytes] | None:
        """Replays what others wrote, runs the command, and writes what it changed."""
        import fcntl

        with self._lock, open(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            inode = os.fstat(file.fileno()).st_ino
            if inode != self._inode:  # another store took this one's name
                self._inode, self._read = inode, 0
                self._table = Table(keeps_journal=True)
            file.seek(self._read)
            self._table.replay(file.read())
            self._table.journal.clear()
            result = self._table.run(command, arguments)
            file.write(b"".join(self._table.journal))
            self._table.journal.clear()
            self._read = file.tell()
            return result

    def _close(self) -> None:
        """Counts this process out; the last one removes the file."""
        if not self._closed:
            self._closed = True
            if os.path.exists(self._path) and self.add("&users", -1) <= 0:
                os.unlink(self._path)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._close()


class TCPStore(Store):
    """A store that one process serves to the others over TCP.

    >>> import rushlight as torch
    >>> store = torch.distributed.TCPStore("127.0.0.1", 0, 1, is_master=True)
    >>> store.set("key", "value")
    >>> other = torch.distributed.TCPStore("127.0.0.1", store.port, 1, is_master=False)
    >>> other.get("key")
    b'value'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = DEFAULT_TIMEOUT,
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
    ) -> None:
        super().__init__()
        self._timeout = timeout
        self._server: Server | None = None
        self._owns_server = False
        if is_master:
            self._server = Server.start(host_name, port, multi_tenant, master_listen_fd)
            port = self._server.port
            self._owns_server = not multi_tenant
        self._host, self._port = host_name, port
        self._lock = threading.Lock()
        self._socket = self._connect()
        if world_size is not None and world_size > 0 and wait_for_workers:
            self._wait_for_workers(world_size)

    @property
    def host(self) -> str:
        """The server's name."""
        return self._host

    @property
    def port(self) -> int:
        """The server's port."""
        return self._port

    @property
    def libuvBackend(self) -> bool:
        """Whether the server runs on libuv: it does not."""
        return False

    def _wait_for_workers(self, world_size: int) -> None:
        if self.add("&workers", 1) % world_size == 0:
            self.set("&all_workers", b"1")
        if self._server is not None:
            try:
                self.wait(["&all_workers"])
            except DistStoreError:
                raise DistStoreError(
                    f"TCPStore: Timed out after {self._timeout.total_seconds():.0f} seconds "
                    f"waiting for clients: {self.add('&workers', 0)}/{world_size} clients joined"
                ) from None

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + self._timeout.total_seconds()
        pause = 0.005
        while True:
            try:
                link = socket.create_connection((self._host, self._port), timeout=5)
                if link.getsockname() == link.getpeername():
                    # Nobody listened there, and the system chose that port for this end.
                    link.close()
                    raise ConnectionRefusedError("nobody listens there")
            except OSError as error:
                if time.monotonic() > deadline:
                    raise DistNetworkError(
                        "The client socket has timed out after "
                        f"{self._timeout.total_seconds() * 1000:.0f}ms while trying to connect to "
                        f"({self._host}, {self._port}): {error}"
                    ) from None
                time.sleep(pause)
                pause = min(pause * 2, 0.2)
            else:
                link.settimeout(None)
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return link

    def _call(self, command: str, *arguments: bytes, timeout: float | None = None) -> list[bytes]:
        limit = struct.pack("<d", -1.0 if timeout is None else timeout)
        with self._lock:
            try:
                send(self._socket, command.encode(), limit, *arguments)
                status, *result = receive(self._socket)
            except OSError as error:
                raise DistNetworkError(
                    f"TCPStore: the server at {self._host}:{self._port} is gone: {error}"
                ) from None
        if status == b"timeout":
            raise TimeoutError
        if status == b"error":
            raise DistStoreError(f"TCPStore.{command}: {result[0].decode()}")
        return result

    def clone(self) -> Store:
        """A second connection to the same server."""
        other = TCPStore(self._host, self._port, None, False, self._timeout)
        other._server = self._server
        return other

    def num_keys(self) -> int:
        """How many keys there are."""
        return super().num_keys()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self._socket.close()
            if self._server is not None and self._owns_server:
                self._server.retire()


class PrefixStore(Store):
    """A part of another store: its keys start with a prefix.

    >>> import rushlight as torch
    >>> whole = torch.distributed.HashStore()
    >>> part = torch.distributed.PrefixStore("part", whole)
    >>> part.set("key", "value")
    >>> whole.get("part/key")
    b'value'
    """

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._prefix = prefix
        self._store = store

    @property
    def underlying_store(self) -> Store:
        """The whole store."""
        return self._store

    def _close(self) -> None:
        self._store._close()

    @property
    def _underlying_non_prefix_store(self) -> Store:
        store = self._store
        return store._underlying_non_prefix_store if isinstance(store, PrefixStore) else store

    @property
    def timeout(self) -> timedelta:
        """How long a reader waits for a key."""
        return self._store.timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Sets how long a reader waits for a key."""
        self._store.set_timeout(timeout)

    def _waiting(self, command: str, keys: Sequence[str], timeout: timedelta | None) -> list[bytes]:
        return self._store._waiting(command, [f"{self._prefix}/{key}" for key in keys], timeout)

    def _call(self, command: str, *arguments: bytes, timeout: float | None = None) -> list[bytes]:
        prefix = self._prefix.encode() + b"/"
        step = {"set": 2, "check": 1, "get": 1, "wait": 1}.get(command, len(arguments) or 1)
        named = [prefix + x if i % step == 0 else x for i, x in enumerate(arguments)]
        return self._store._call(command, *named, timeout=timeout)

    def num_keys(self) -> int:
        """How many keys the whole store has."""
        return self._store.num_keys()

    def clone(self) -> Store:
        """A handle of the same part, for another thread."""
        return PrefixStore(self._prefix, self._store.clone())
