"""The older format: pickles one after the other, then the storages with their lengths."""

from __future__ import annotations

import io
import pickle
import sys
from pickle import UnpicklingError
from typing import Any

from rushlight import _C
from rushlight._serialization.archive import corrupt, fill, write_all
from rushlight._serialization.checkpoint import storage_identity
from rushlight._serialization.pickling import dump
from rushlight._serialization.reading import Unpickling
from rushlight._serialization.storages import (
    LoadedStorage,
    Placer,
    empty_storage,
    needs_swap,
    swap_bytes,
)

MAGIC = 0x1950A86A20F9469CFC6C
_VERSION = 1001


def write_legacy(obj: Any, file: Any, protocol: int) -> Any:
    """Writes a file of the older format; returns the node of a tensor that lost its history."""
    data, pickler = dump(obj, protocol, legacy=True)
    info = {
        "protocol_version": _VERSION,
        "little_endian": sys.byteorder == "little",
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for item in (MAGIC, _VERSION, info):
        write_all(file, pickle.dumps(item, protocol))
    write_all(file, data)
    keys = sorted(pickler.storages)
    write_all(file, pickle.dumps(keys, protocol))
    for key in keys:
        flat = pickler.storages[key]
        numel = flat.numel() // (pickler.storage_dtypes[key] or _C.uint8).itemsize
        write_all(file, numel.to_bytes(8, sys.byteorder))
        if flat.numel():
            write_all(file, memoryview(flat))
    return pickler.lost_history


class LegacyReader:
    """Reads a file of the older format. What storages claim is compared with the file's size."""

    def __init__(self, file: Any, map_location: Any, how: Unpickling) -> None:
        self._file = file
        self._placer = Placer(map_location)
        self._how = how
        here = file.tell()
        self._end = file.seek(0, io.SEEK_END)
        file.seek(here)
        self._claimed = 0
        self._storages: dict[str, LoadedStorage] = {}

    def load(self) -> Any:
        """The saved object."""
        if self._file.tell() == self._end:
            raise EOFError("Ran out of input: the file is empty")
        self._check_start()
        info = self._pickle()
        little = isinstance(info, dict) and info.get("little_endian", True)
        swap = needs_swap("little" if little else "big")
        result = self._pickle(self._find_storage)
        keys = self._pickle()
        if type(keys) is not list or sorted(map(str, keys)) != sorted(self._storages):
            raise UnpicklingError(
                "Weights only load failed. The storages in the file are not those that it uses"
            )
        for key in keys:
            self._fill(self._storages[str(key)], swap)
        return result

    def _check_start(self) -> None:
        try:
            magic = self._pickle()
        except UnpicklingError as error:
            raise UnpicklingError(
                "Weights only load failed. The file is neither a zip checkpoint nor one of the "
                f"older format: it is truncated, corrupt or of another kind ({error})"
            ) from None
        if magic != MAGIC:
            raise RuntimeError("Invalid magic number; corrupt file?")
        version = self._pickle()
        if version != _VERSION:
            raise RuntimeError(f"Invalid protocol version: {version!r:.80}")

    def _pickle(self, persistent_load: Any = None) -> Any:
        left = self._end - self._file.tell()
        return self._how.read(self._file, left, persistent_load or _refuse)

    def _find_storage(self, identity: Any) -> Any:
        if type(identity) is tuple and len(identity) == 4 and identity[0] == "module":
            return identity[1]  # a class, with its source beside it
        kind, key, location, numel = storage_identity(identity, 6)
        size = numel * kind.dtype.itemsize
        storage = self._storages.get(key)
        if storage is None:
            self._claimed += size
            if self._claimed > self._end:
                raise UnpicklingError(
                    f"Weights only load failed. The storages of the file claim {self._claimed} "
                    f"bytes, and the file has {self._end}"
                )
            storage = self._placer.place(empty_storage(size), kind.dtype, location)
            self._storages[key] = storage
        return _part(storage, identity[5])

    def _fill(self, storage: LoadedStorage, swap: bool) -> None:
        number = bytearray(8)
        fill(self._file, memoryview(number))
        order = "big" if (sys.byteorder == "little") == swap else "little"
        numel = int.from_bytes(number, order)  # type: ignore[arg-type]
        if numel * storage.dtype.itemsize != storage.nbytes():
            raise corrupt(f"a storage of {storage.nbytes()} bytes has {numel} elements in the file")
        if storage.nbytes():
            fill(self._file, memoryview(storage._bytes))
        if swap:
            swap_bytes(storage._bytes, storage.dtype)


def _part(storage: LoadedStorage, view: Any) -> LoadedStorage:
    """A storage that is a section of another, as files of the first versions have them."""
    if view is None:
        return storage
    if type(view) is tuple and len(view) == 3 and type(view[1]) is type(view[2]) is int:
        width = storage.dtype.itemsize
        start, size = view[1] * width, view[2] * width
        if 0 <= start <= start + size <= storage.nbytes():
            return LoadedStorage(storage._bytes[start : start + size], storage.dtype)
    raise UnpicklingError(f"Weights only load failed. No part of a storage is {view!r:.200}")


def _refuse(identity: Any) -> Any:
    raise UnpicklingError("Weights only load failed. unsupported persistent id encountered")
