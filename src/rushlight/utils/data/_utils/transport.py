"""How batches travel from a worker to its loader: small ones in the message, large ones in shared
memory that is used again and again.

A worker owns segments of shared memory (files without a name, so that nothing can be left behind).
It copies the bytes of a batch into a free one and sends its number; the descriptor goes along the
first time. The loader makes tensors on that memory, and when the last of them is gone the segment's
number rides back with the next request. So a batch is copied once, and no page is mapped twice.
"""

from __future__ import annotations

import io
import marshal
import mmap
import os
import pickle
import socket
import struct
import weakref
from collections import deque
from typing import Any

from rushlight import _C
from rushlight.multiprocessing._sharing import shared_file

_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64
_INLINE = 1 << 16  # bytes of a batch that still travel in the message
_KEPT = 8  # free segments that a worker keeps
_LENT = 32  # segments of a worker that may be in use here: each costs a descriptor
_RECEIVE = 1 << 16
_CLOEXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class _BatchPickler(pickle.Pickler):
    """Pickles with the bytes of tensors and arrays left out, to be sent beside."""

    def __init__(self, file: io.BytesIO, buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffers.append)

    def reducer_override(self, obj: Any) -> Any:
        return _reduce_tensor(obj) if isinstance(obj, _C.Tensor) else NotImplemented


def _reduce_tensor(tensor: _C.Tensor) -> Any:
    if tensor.grad_fn is not None:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
            "does not support crossing process boundaries. If you just want to transfer the data, "
            "call detach() on the tensor before serializing (e.g., putting it on the queue)."
        )
    dense = tensor.detach()
    if not dense.is_contiguous():
        dense = dense.clone()  # without gaps, the strides kept where they can be
    data: Any = b""
    if dense.numel():
        flat = _C._reinterpret(dense, _C.uint8, (dense.nbytes,), (1,))
        data = pickle.PickleBuffer(memoryview(flat))
    # The dtype goes by name: pickle looks through every module for an object without one.
    facts = (tensor.dtype.name, tuple(tensor.shape), dense.stride(), tensor.requires_grad)
    return _rebuild_tensor, (type(tensor), data, *facts, dict(tensor.__dict__))


def _rebuild_tensor(
    kind: Any, data: Any, name: str, size: Any, stride: Any, wants_grad: bool, attributes: Any
) -> _C.Tensor:
    dtype = getattr(_C, name)
    if len(data) == 0:
        tensor = _C._namespaces[""]["empty"](size, dtype=dtype)
    else:
        tensor = _C._reinterpret(_C._share_buffer(data), dtype, size, stride)
    if kind is not _C.Tensor:
        tensor = _C.Tensor._make_subclass(kind, tensor, wants_grad)
    elif wants_grad:
        tensor.requires_grad_()
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor


def _dump(value: Any) -> tuple[bytes, list[Any]]:
    buffers: list[pickle.PickleBuffer] = []
    file = io.BytesIO()
    _BatchPickler(file, buffers).dump(value)
    return file.getvalue(), [buffer.raw() for buffer in buffers]


def _receive(sock: socket.socket, buffer: bytearray, descriptors: deque[int]) -> bool:
    """Appends what has arrived; False at the end of the stream."""
    data, fds, _, _ = socket.recv_fds(sock, _RECEIVE, 16, _CLOEXEC)
    descriptors.extend(fds)
    buffer += data
    return bool(data)


def _take_frame(buffer: bytearray) -> memoryview | None:
    """The first whole message, removed from the buffer."""
    if len(buffer) < _LENGTH.size:
        return None
    end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
    if len(buffer) < end:
        return None
    frame = bytearray(buffer[_LENGTH.size : end])
    del buffer[:end]
    return memoryview(frame)


class WorkerEnd:
    """A worker's side of the connection."""

    def __init__(self, sock: socket.socket, prefetch: int) -> None:
        self._sock = sock
        self._inline = min(_INLINE, 2 * _INLINE // max(prefetch, 1))
        self._buffer = bytearray()
        self._segments: dict[int, mmap.mmap] = {}
        self._free: list[int] = []
        self._made = 0
        self._dropped: list[int] = []

    def receive(self, timeout: float) -> Any:
        """The next request. TimeoutError when none comes; EOFError when the loader is gone."""
        self._sock.settimeout(timeout)
        try:
            while (frame := _take_frame(self._buffer)) is None:
                data = self._sock.recv(_RECEIVE)
                if not data:
                    raise EOFError
                self._buffer += data
        except ConnectionError:
            raise EOFError from None
        freed, request = pickle.loads(frame)
        self._free.extend(freed)
        self._drop_spare()
        return request

    def _drop_spare(self) -> None:
        while len(self._free) > _KEPT:
            number = self._free.pop(0)
            del self._segments[number]
            self._dropped.append(number)

    def send(self, kind: str, number: int, value: Any) -> None:
        """Sends a result; raises, with nothing sent, where it can't be pickled."""
        pickled, buffers = _dump(value)
        parts = [pickled, *buffers]
        sizes = [len(part) for part in parts]
        places, total = _layout(sizes)
        head: tuple[Any, ...] = (kind, number, sizes, None, 0, self._dropped)
        if total <= self._inline:
            self._write([marshal.dumps(head), *parts], [])
        else:
            key, capacity, descriptor = self._segment(total)
            target = memoryview(self._segments[key])
            for part, start, size in zip(parts, places, sizes, strict=True):
                target[start : start + size] = part
            target.release()
            head = (kind, number, sizes, key, capacity, self._dropped)
            try:
                self._write([marshal.dumps(head)], [] if descriptor is None else [descriptor])
            finally:
                if descriptor is not None:
                    os.close(descriptor)
        self._dropped = []

    def _segment(self, size: int) -> tuple[int, int, int | None]:
        """A free segment that is large enough, or a new one with its descriptor."""
        for i, key in enumerate(self._free):
            capacity = len(self._segments[key])
            if size <= capacity <= 4 * size:
                del self._free[i]
                return key, capacity, None
        capacity = 1 << (size - 1).bit_length()
        descriptor = shared_file(capacity)
        key, self._made = self._made, self._made + 1
        self._segments[key] = mmap.mmap(descriptor, capacity)
        return key, capacity, descriptor

    def _write(self, parts: list[Any], descriptors: list[int]) -> None:
        self._sock.settimeout(None)
        head = parts[0]
        body = [_LENGTH.pack(len(head)), head, *parts[1:]]
        length = sum(len(part) for part in body)
        message = b"".join([_LENGTH.pack(length), *body])
        sent = socket.send_fds(self._sock, [message], descriptors) if descriptors else 0
        self._sock.sendall(message[sent:])


def _layout(sizes: list[int]) -> tuple[list[int], int]:
    places, end = [], 0
    for size in sizes:
        places.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return places, end


class Message:
    """A result as it arrived; ``value`` builds the object."""

    def __init__(self, kind: str, number: int, parts: list[Any]) -> None:
        self.kind = kind
        self.number = number
        self._parts = parts

    def value(self) -> Any:
        """The object that the worker sent."""
        pickled, *buffers = self._parts
        self._parts = []
        return pickle.loads(pickled, buffers=buffers)


class LoaderEnd:
    """The loader's side of the connection to one worker."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.setblocking(False)
        self._pending = bytearray()
        self._buffer = bytearray()
        self._descriptors: deque[int] = deque()
        self._segments: dict[int, mmap.mmap] = {}
        self._leases: dict[int, Any] = {}
        self._freed: deque[int] = deque()
        self.closed = False
        _open_ends.add(self)

    @property
    def wants_write(self) -> bool:
        """Whether requests wait for room in the connection."""
        return bool(self._pending)

    def send(self, request: Any) -> None:
        """Sends a request without ever waiting."""
        freed = [self._freed.popleft() for _ in range(len(self._freed))]
        data = pickle.dumps((freed, request), 5)
        self._pending += _LENGTH.pack(len(data)) + data
        self.flush()

    def flush(self) -> None:
        """Sends what fits."""
        try:
            while self._pending:
                del self._pending[: self.sock.send(self._pending)]
        except BlockingIOError:
            pass
        except ConnectionError:
            self._pending.clear()  # the worker is gone, which waiting for its result will tell

    def receive(self) -> list[Message]:
        """The messages that have arrived. EOFError when the worker is gone."""
        messages: list[Message] = []
        open_still = True
        while open_still:
            try:
                open_still = _receive(self.sock, self._buffer, self._descriptors)
            except BlockingIOError:
                break
            except ConnectionError:
                open_still = False
            while (frame := _take_frame(self._buffer)) is not None:
                messages.append(self._decode(frame))
            if messages:
                break
        if not open_still and not messages:
            raise EOFError
        return messages

    def _decode(self, frame: memoryview) -> Message:
        start = _LENGTH.size + _LENGTH.unpack_from(frame)[0]
        head = marshal.loads(frame[_LENGTH.size : start])
        kind, number, sizes, key, capacity, dropped = head
        parts: list[Any] = []
        for old in dropped:
            self._segments.pop(old, None)
        if key is None:
            for size in sizes:
                parts.append(bytearray(frame[start : start + size]))
                start += size
            return Message(kind, number, parts)
        view = self._lease(key, capacity)
        parts = [view[p : p + n] for p, n in zip(_layout(sizes)[0], sizes, strict=True)]
        if len(self._leases) > _LENT:  # batches are being collected: they get memory of their own
            parts = [bytearray(part) for part in parts]
        return Message(kind, number, parts)

    def _lease(self, key: int, capacity: int) -> memoryview:
        """The memory of a segment; when nobody uses it any more, its number is handed back."""
        if key not in self._segments:
            if not self._descriptors:
                raise RuntimeError(
                    "DataLoader: a worker's shared memory could not be received: too many open "
                    "files in this process (see ulimit -n)"
                )
            descriptor = self._descriptors.popleft()
            try:
                self._segments[key] = mmap.mmap(descriptor, capacity)
            finally:
                os.close(descriptor)
        base = _C._share_buffer(self._segments[key])
        leases, freed = self._leases, self._freed

        def hand_back(_: Any) -> None:
            leases.pop(key, None)
            freed.append(key)

        leases[key] = weakref.ref(base, hand_back)
        return memoryview(base)

    def close(self) -> None:
        """Ends the connection; the worker then ends by itself."""
        if not self.closed:
            self.closed = True
            self.sock.close()
            while self._descriptors:
                os.close(self._descriptors.popleft())
            self._segments.clear()
            _open_ends.discard(self)


_open_ends: weakref.WeakSet[LoaderEnd] = weakref.WeakSet()


def close_inherited() -> None:
    """In a forked worker: closes the loaders' ends, so that a loader's death reaches all."""
    for end in list(_open_ends):
        end.sock.close()
    _open_ends.clear()


def connection() -> tuple[LoaderEnd, socket.socket]:
    """The loader's end of a new connection, and the socket for the worker's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return LoaderEnd(ours), theirs
