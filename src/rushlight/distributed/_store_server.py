"""The process that holds a TCPStore: one thread, which also tells who left without a word."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading
import time

from rushlight.distributed._errors import DistNetworkError
from rushlight.distributed._store_table import Table

# A message: its length, the number of parts, the parts' lengths, the parts.
_LONGEST = 1 << 30


def pack(*parts: bytes) -> bytes:
    """The message that holds the parts."""
    head = struct.pack(f"<I{len(parts)}I", len(parts), *map(len, parts))
    body = head + b"".join(parts)
    return struct.pack("<I", len(body)) + body


def _unpack(body: bytes) -> list[bytes]:
    (count,) = struct.unpack_from("<I", body)
    lengths = struct.unpack_from(f"<{count}I", body, 4)
    at, parts = 4 + 4 * count, []
    for length in lengths:
        parts.append(body[at : at + length])
        at += length
    return parts


def send(link: socket.socket, *parts: bytes) -> None:
    """Sends a message."""
    link.sendall(pack(*parts))


def receive(link: socket.socket) -> list[bytes]:
    """The next message; ConnectionError when the other side closed."""
    (length,) = struct.unpack("<I", _exactly(link, 4))
    return _unpack(_exactly(link, length))


def _exactly(link: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = link.recv(count - len(data))
        if not more:
            raise ConnectionError("connection closed")
        data += more
    return bytes(data)


class _Client:
    """One connection: what arrived, the command that waits, and whose process it watches."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.data = bytearray()
        self.waiting: tuple[str, list[bytes], float] | None = None
        self.watches: tuple[bytes, bytes] | None = None  # the group's name, the rank


class Server:
    """Answers stores of other processes. Those that watch a group hear of members that die."""

    _shared: dict[int, Server] = {}  # noqa: RUF012 - by port, for stores that share one

    def __init__(self, listener: socket.socket) -> None:
        self.port = listener.getsockname()[1]
        self._listener = listener
        self._retired = False
        self._table = Table()
        self._waiting: set[_Client] = set()
        self._watching: set[_Client] = set()
        self._dead: dict[bytes, list[bytes]] = {}  # by group: who died
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        threading.Thread(target=self._serve, name="rushlight-store", daemon=True).start()

    @classmethod
    def start(cls, host: str, port: int, shared: bool, descriptor: int | None = None) -> Server:
        """A server that listens on the port (0: any free one)."""
        if shared and port in cls._shared:
            return cls._shared[port]
        if descriptor is not None:
            listener = socket.socket(fileno=descriptor)
        else:
            try:
                listener = socket.create_server(("", port), backlog=2048)
            except OSError as error:
                raise DistNetworkError(
                    "The server socket has failed to listen on any local network address: port: "
                    f"{port}: {error}: choose another MASTER_PORT, or end the process that has it"
                ) from None
        server = cls(listener)
        if shared:
            cls._shared[server.port] = server
        return server

    def retire(self) -> None:
        """Frees the port; those that are connected are still answered."""
        self._retired = True
        with contextlib.suppress(OSError):  # wakes the thread
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()

    def _serve(self) -> None:
        while not self._retired or self._selector.get_map():
            limits = [client.waiting[2] for client in self._waiting if client.waiting]
            pause = max(0.0, min(limits) - time.monotonic()) if limits else None
            for key, _ in self._selector.select(pause if pause != float("inf") else None):
                if key.fileobj is self._listener:
                    self._accept()
                else:
                    self._read(key.data)
            self._expire()

    def _accept(self) -> None:
        link, _ = self._listener.accept()
        if self._retired:
            link.close()
            self._selector.unregister(self._listener)
            self._listener.close()
            return
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(link, selectors.EVENT_READ, _Client(link))

    def _read(self, client: _Client) -> None:
        try:
            more = client.link.recv(1 << 16)
        except OSError:
            more = b""
        if not more:
            return self._drop(client)
        data = client.data
        data += more
        while len(data) >= 4:
            (length,) = struct.unpack_from("<I", data)
            if length > _LONGEST:  # nothing that a store sends
                return self._drop(client)
            if len(data) < 4 + length:
                return
            body = bytes(data[4 : 4 + length])
            del data[: 4 + length]
            try:
                self._command(client, *_unpack(body))
            except (KeyError, TypeError, ValueError, struct.error) as error:
                self._answer(client, b"error", f"{type(error).__name__}: {error}".encode())

    def _command(self, client: _Client, name: bytes, limit: bytes, *arguments: bytes) -> None:
        command = name.decode()
        if command == "watch":
            group, rank = arguments
            client.watches = (group, rank)
            self._watching.add(client)
            self._answer(client, b"ok", *self._dead.get(group, ()))
        elif command == "leave":
            self._tell(client, b"left")
            self._watching.discard(client)
            self._answer(client, b"ok")
        elif (result := self._table.run(command, arguments)) is not None:
            self._answer(client, b"ok", *result)
            if command in ("set", "add", "append", "compare_set", "push"):
                self._wake()
        else:
            (seconds,) = struct.unpack("<d", limit)
            until = float("inf") if seconds < 0 else time.monotonic() + seconds
            client.waiting = (command, list(arguments), until)
            self._waiting.add(client)

    def _wake(self) -> None:
        for client in list(self._waiting):
            if client.waiting is None:
                continue
            result = self._table.run(client.waiting[0], client.waiting[1])
            if result is not None:
                self._resume(client, b"ok", *result)

    def _expire(self) -> None:
        now = time.monotonic()
        for client in list(self._waiting):
            if client.waiting is not None and client.waiting[2] <= now:
                self._resume(client, b"timeout")

    def _resume(self, client: _Client, *parts: bytes) -> None:
        client.waiting = None
        self._waiting.discard(client)
        self._answer(client, *parts)

    def _answer(self, client: _Client, *parts: bytes) -> None:
        try:
            client.link.sendall(pack(*parts))
        except OSError:
            self._drop(client)

    def _drop(self, client: _Client) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client.link)
        client.link.close()
        self._waiting.discard(client)
        self._watching.discard(client)
        if client.watches is not None:
            self._dead.setdefault(client.watches[0], []).append(client.watches[1])
            self._tell(client, b"died")

    def _tell(self, client: _Client, how: bytes) -> None:
        """Tells the others of a group that a process has gone."""
        if client.watches is None:
            return
        group, rank = client.watches
        client.watches = None
        for other in list(self._watching):
            if other.watches is not None and other.watches[0] == group:
                self._answer(other, how, rank)
