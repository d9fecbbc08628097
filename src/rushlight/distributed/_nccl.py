"""NCCL, opened by name: communicators of CUDA devices, on addresses of their memory.

A communicator joins processes that have a device each. Its calls go to the current stream and
return at once. One process makes the name that all of them give: ``unique_id()``.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os

from rushlight import _C
from rushlight.cuda._start import library_folders, require
from rushlight.distributed._errors import DistBackendError

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_ID_BYTES = 128
_BYTE = 1  # what is only moved travels as bytes
_IN_PROGRESS = 7


class _Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * _ID_BYTES)]


def _opened(name: str) -> Iterator[Any]:
    """The libraries of a name that can be opened, in the order of the places to look."""
    places = [os.path.join(folder, name) for folder in library_folders()]
    for path in (*filter(os.path.exists, places), name):
        with contextlib.suppress(OSError):
            yield ctypes.CDLL(path)


def ask_while_recording() -> None:
    """Lets this thread ask for events although another one records a graph."""
    relaxed = ctypes.c_int(2)
    for driver in _opened("libcuda.so.1"):
        driver.cuThreadExchangeStreamCaptureMode(ctypes.byref(relaxed))
        return


@functools.cache
def _library() -> Any:
    """NCCL, or None."""
    for found in _opened("libnccl.so.2"):
        address, count, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        found.ncclGetErrorString.restype = ctypes.c_char_p
        found.ncclGetLastError.restype = ctypes.c_char_p
        found.ncclGetLastError.argtypes = [address]
        found.ncclCommInitRank.argtypes = [ctypes.POINTER(address), integer, _Id, integer]
        for name, middle in {
            "ncclAllReduce": [integer, integer], "ncclBroadcast": [integer, integer],
            "ncclReduce": [integer, integer, integer], "ncclAllGather": [integer],
            "ncclReduceScatter": [integer, integer],
        }.items():  # fmt: skip
            getattr(found, name).argtypes = [address, address, count, *middle, address, address]
        for name in ("ncclSend", "ncclRecv"):
            getattr(found, name).argtypes = [address, count, integer, integer, address, address]
        for name in ("ncclCommDestroy", "ncclCommAbort"):
            getattr(found, name).argtypes = [address]
        found.ncclCommGetAsyncError.argtypes = [address, ctypes.POINTER(integer)]
        return found
    return None


def is_available() -> bool:
    """Whether NCCL is installed."""
    return _library() is not None


def version() -> tuple[int, int, int]:
    """NCCL's version."""
    number = ctypes.c_int()
    _call("ncclGetVersion", ctypes.byref(number))
    major, rest = divmod(number.value, 10000)
    return major, rest // 100, rest % 100


def _call(name: str, *args: Any) -> None:
    library = _library()
    if library is None:
        raise RuntimeError(
            "Distributed package doesn't have NCCL built in: libnccl.so.2 was not found; "
            "pip install rushlight[cuda], or name its folder in RUSHLIGHT_CUDA_PATH"
        )
    failed = getattr(library, name)(*args)
    if failed:
        words = library.ncclGetErrorString(failed).decode()
        more = (library.ncclGetLastError(None) or b"").decode(errors="replace").strip()
        raise DistBackendError(
            f"NCCL error: {words} ({name}, status {failed})" + (f": {more}" if more else "")
        )


def unique_id() -> bytes:
    """A name for a new communicator, made by one of its processes."""
    made = _Id()
    _call("ncclGetUniqueId", ctypes.byref(made))
    return bytes(made)


@contextlib.contextmanager
def together() -> Iterator[None]:
    """The calls of the block are one: those that wait for each other may come in any order."""
    _call("ncclGroupStart")
    try:
        yield
    finally:
        _call("ncclGroupEnd")


class Communicator:
    """Processes that call the same collectives in the same order, each with a device."""

    def __init__(self, device: int, size: int, rank: int, name: bytes) -> None:
        require("distributed", RuntimeError)
        self.device, self.size, self.rank = device, size, rank
        self._handle: Any = ctypes.c_void_p()
        given = _Id.from_buffer_copy(name)
        _C._cuda_enter(device)
        _call("ncclCommInitRank", ctypes.byref(self._handle), size, given, rank)

    def _run(self, name: str, *args: Any) -> None:
        _C._cuda_enter(self.device)
        stream = ctypes.c_void_p(_C._cuda_stream_get(self.device))
        _call(name, *args, self._handle, stream)

    def all_reduce(self, at: int, count: int, kind: int, op: int) -> None:
        """Every process gets the combination of all, in its place."""
        self._run("ncclAllReduce", at, at, count, kind, op)

    def reduce(self, source: int, to: int, count: int, kind: int, op: int, root: int) -> None:
        """The root gets the combination of all."""
        self._run("ncclReduce", source, to, count, kind, op, root)

    def broadcast(self, source: int, to: int, size: int, root: int) -> None:
        """Every process gets the bytes of the root."""
        self._run("ncclBroadcast", source, to, size, _BYTE, root)

    def all_gather(self, source: int, to: int, size: int) -> None:
        """Every process gets the bytes of all, in the order of their ranks."""
        self._run("ncclAllGather", source, to, size, _BYTE)

    def reduce_scatter(self, source: int, to: int, count: int, kind: int, op: int) -> None:
        """Each process gets its part of the combination of all; ``count`` is the part's."""
        self._run("ncclReduceScatter", source, to, count, kind, op)

    def send(self, at: int, size: int, peer: int) -> None:
        """Sends bytes to another process, which calls ``recv``."""
        self._run("ncclSend", at, size, _BYTE, peer)

    def recv(self, at: int, size: int, peer: int) -> None:
        """Receives what another process sends."""
        self._run("ncclRecv", at, size, _BYTE, peer)

    def trouble(self) -> str | None:
        """What went wrong on the device or on the wire, since the calls returned."""
        status = ctypes.c_int()
        if self._handle is not None:
            _library().ncclCommGetAsyncError(self._handle, ctypes.byref(status))
        if status.value in (0, _IN_PROGRESS):
            return None
        return str(_library().ncclGetErrorString(status.value).decode())

    def abort(self) -> None:
        """Ends it at once, with whatever waits for others."""
        handle, self._handle = self._handle, None
        if handle is not None:
            _library().ncclCommAbort(handle)

    def close(self) -> None:
        """Ends it, when its work is done."""
        _C._cuda_synchronize(
            self.device
        )  # the thread that watches may have to abort it, for this to end
        handle, self._handle = self._handle, None
        if handle is not None:
            _call("ncclCommDestroy", handle)
