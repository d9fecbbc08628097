"""NCCL, opened by name: collectives of CUDA devices on the tensors' own memory.

A communicator joins processes that have a device each. Its calls go to the current stream and
return at once. One process makes the name that all of them give: ``unique_id()``.
"""

from __future__ import annotations

import ctypes
import functools
import os

from rushlight import _C
from rushlight.cuda._start import library_folders, require
from rushlight.distributed._reductions import ReduceOp

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

_ID_BYTES = 128
_TYPES = {
    _C.int8: 0, _C.bool: 1, _C.uint8: 1, _C.int32: 2, _C.int64: 4, _C.float16: 6, _C.float32: 7,
    _C.float64: 8, _C.bfloat16: 9,
}  # fmt: skip
_OPS = {ReduceOp.SUM: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3, ReduceOp.AVG: 4}


class _Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * _ID_BYTES)]


@functools.cache
def _library() -> Any:
    """NCCL, or None."""
    places = [os.path.join(folder, "libnccl.so.2") for folder in library_folders()]
    for path in (*filter(os.path.exists, places), "libnccl.so.2"):
        try:
            found = ctypes.CDLL(path)
        except OSError:
            continue
        address, count, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        found.ncclGetErrorString.restype = ctypes.c_char_p
        found.ncclCommInitRank.argtypes = [ctypes.POINTER(address), integer, _Id, integer]
        for name, middle in {
            "ncclAllReduce": [integer, integer], "ncclBroadcast": [integer, integer],
            "ncclReduce": [integer, integer, integer], "ncclAllGather": [integer],
            "ncclReduceScatter": [integer, integer],
        }.items():  # fmt: skip
            getattr(found, name).argtypes = [address, address, count, *middle, address, address]
        for name in ("ncclSend", "ncclRecv"):
            getattr(found, name).argtypes = [address, count, integer, integer, address, address]
        found.ncclCommDestroy.argtypes = [address]
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
        raise RuntimeError(f"NCCL error: {words} ({name}, status {failed})")


def unique_id() -> bytes:
    """A name for a new communicator, made by one of its processes."""
    made = _Id()
    _call("ncclGetUniqueId", ctypes.byref(made))
    return bytes(made)


class Communicator:
    """Processes that call the same collectives in the same order, each with a device."""

    _handle = None

    def __init__(self, size: int, rank: int, name: bytes) -> None:
        require("distributed", RuntimeError)
        self.size, self.rank = size, rank
        handle = ctypes.c_void_p()
        given = _Id.from_buffer_copy(name)
        _call("ncclCommInitRank", ctypes.byref(handle), size, given, rank)
        self._handle = handle

    def _memory(self, op: str, tensor: Any) -> int:
        if not tensor.is_cuda or not tensor.is_contiguous():
            raise ValueError(
                f"{op}: NCCL takes contiguous tensors of CUDA devices, got one on "
                f"{tensor.device} with shape {tuple(tensor.shape)}, strides {tensor.stride()}"
            )
        return tensor.data_ptr()

    def _type(self, op: str, tensor: Any) -> tuple[int, int]:
        """How many numbers of which type NCCL sees: complex ones are pairs."""
        if tensor.is_complex():
            real = _C.float32 if tensor.dtype == _C.complex64 else _C.float64
            return 2 * tensor.numel(), _TYPES[real]
        if tensor.dtype not in _TYPES:
            raise TypeError(f"{op}: NCCL has no numbers like {tensor.dtype}")
        return tensor.numel(), _TYPES[tensor.dtype]

    def _run(self, name: str, *args: Any) -> None:
        _call(name, *args, self._handle, ctypes.c_void_p(_C._cuda_stream_get()))

    def _op(self, name: str, op: Any) -> int:
        if op not in _OPS:
            raise ValueError(f"{name}: NCCL has no reduction like {op}")
        return _OPS[op]

    def all_reduce(self, tensor: Any, op: Any = ReduceOp.SUM) -> None:
        """Every process gets the combination of all tensors."""
        at, (n, kind) = self._memory("all_reduce", tensor), self._type("all_reduce", tensor)
        self._run("ncclAllReduce", at, at, n, kind, self._op("all_reduce", op))

    def reduce(self, tensor: Any, root: int, op: Any = ReduceOp.SUM) -> None:
        """The root gets the combination of all tensors."""
        at, (n, kind) = self._memory("reduce", tensor), self._type("reduce", tensor)
        self._run("ncclReduce", at, at, n, kind, self._op("reduce", op), root)

    def broadcast(self, tensor: Any, root: int) -> None:
        """Every process gets the root's tensor."""
        at, (n, kind) = self._memory("broadcast", tensor), self._type("broadcast", tensor)
        self._run("ncclBroadcast", at, at, n, kind, root)

    def all_gather(self, out: Any, tensor: Any) -> None:
        """``out`` holds the tensors of all processes, in the order of their ranks."""
        if out.numel() != self.size * tensor.numel() or out.dtype != tensor.dtype:
            raise ValueError(
                f"all_gather: {self.size} tensors of {tensor.numel()} elements do not fit an "
                f"output of {out.numel()}"
            )
        n, kind = self._type("all_gather", tensor)
        self._run(
            "ncclAllGather", self._memory("all_gather", tensor), self._memory("all_gather", out),
            n, kind,
        )  # fmt: skip

    def reduce_scatter(self, out: Any, tensor: Any, op: Any = ReduceOp.SUM) -> None:
        """``out`` holds this process's part of the combination of all tensors."""
        if tensor.numel() != self.size * out.numel() or out.dtype != tensor.dtype:
            raise ValueError(
                f"reduce_scatter: {tensor.numel()} elements are not {self.size} parts of "
                f"{out.numel()}"
            )
        n, kind = self._type("reduce_scatter", out)
        self._run(
            "ncclReduceScatter", self._memory("reduce_scatter", tensor),
            self._memory("reduce_scatter", out), n, kind, self._op("reduce_scatter", op),
        )  # fmt: skip

    def send(self, tensor: Any, peer: int) -> None:
        """Sends a tensor to another process, which calls ``recv``."""
        self._run("ncclSend", self._memory("send", tensor), *self._type("send", tensor), peer)

    def recv(self, tensor: Any, peer: int) -> None:
        """Receives what another process sends."""
        self._run("ncclRecv", self._memory("recv", tensor), *self._type("recv", tensor), peer)

    def exchange(self, sent: Any, to: int, received: Any, source: int) -> None:
        """``send`` and ``recv`` at once."""
        _call("ncclGroupStart")
        self.send(sent, to)
        self.recv(received, source)
        _call("ncclGroupEnd")

    def close(self) -> None:
        """Ends it, when its work is done."""
        if self._handle is not None:
            _C._cuda_synchronize()
            _call("ncclCommDestroy", self._handle)
            self._handle = None
