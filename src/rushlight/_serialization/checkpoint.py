"""Checkpoints: a pickle of the structure and one record for the bytes of each storage."""

from __future__ import annotations

import io
import mmap as _mmap
import sys
from pickle import UnpicklingError
from typing import Any

from rushlight import _C
from rushlight._serialization.archive import ALIGNMENT, Reader, Writer
from rushlight._serialization.pickling import dump
from rushlight._serialization.reading import Unpickling, unknown_in_pickle
from rushlight._serialization.storages import (
    LoadedStorage,
    Placer,
    StorageType,
    empty_storage,
    needs_swap,
    swap_bytes,
)

_NEWEST_VERSION = 10


def write_checkpoint(obj: Any, file: Any, root: str, protocol: int, seekable: bool) -> Any:
    """Writes a zip checkpoint; returns the node of a tensor whose history was left out."""
    data, pickler = dump(obj, protocol)
    writer = Writer(file, root, seekable)
    writer.write("data.pkl", data)
    writer.write(".format_version", b"1")
    writer.write(".storage_alignment", str(ALIGNMENT).encode())
    writer.write("byteorder", sys.byteorder.encode())
    for key, flat in pickler.storages.items():
        writer.write(f"data/{key}", memoryview(flat) if flat.numel() else b"")
    writer.write("version", b"3\n")
    writer.close()
    return pickler.lost_history


class CheckpointReader:
    """Reads a zip checkpoint."""

    def __init__(
        self, file: Any, map_location: Any, how: Unpickling, mapped: Any = None, order: str = ""
    ) -> None:
        self._archive = Reader(file)
        self._placer = Placer(map_location)
        self._how = how
        self._mapped = mapped
        self._storages: dict[str, LoadedStorage] = {}
        self._check_version()
        if self._archive.has("byteorder"):
            order = self._archive.read("byteorder").decode("ascii", "replace")
        self._swap = needs_swap(order)

    def _check_version(self) -> None:
        if not self._archive.has("version"):
            return
        text = self._archive.read("version").strip()
        if not text.isdigit() or len(text) > 6 or int(text) > _NEWEST_VERSION:
            raise RuntimeError(
                f"the checkpoint says version {text[:20]!r}; this reader knows 1 to "
                f"{_NEWEST_VERSION}"
            )

    def load(self) -> Any:
        """The saved object."""
        data = self._archive.read("data.pkl")
        return self._how.read(io.BytesIO(data), len(data), self._find_storage)

    def _find_storage(self, identity: Any) -> LoadedStorage:
        kind, key, location, numel = storage_identity(identity, 5)
        found = self._storages.get(key)
        if found is None:
            flat = self._read(f"data/{key}", numel * kind.dtype.itemsize, kind.dtype)
            found = self._storages[key] = self._placer.place(flat, kind.dtype, location)
        return LoadedStorage(found._bytes, kind.dtype)

    def _read(self, name: str, size: int, dtype: Any) -> _C.Tensor:
        if not self._archive.has(name):
            raise UnpicklingError(f"Weights only load failed. The file has no record '{name}'")
        record = self._archive.record(name)
        if record.size != size:
            raise UnpicklingError(
                f"Weights only load failed. A storage of {size} bytes is announced, but the record "
                f"'{name}' has {record.size}: the file is corrupt"
            )
        start = record.start + self._archive.base
        if size and self._mapped is not None and not self._swap and start % dtype.itemsize == 0:
            return _C._share_buffer(memoryview(self._mapped)[start : start + size])
        flat = empty_storage(size)
        if size:
            self._archive.read_into(name, memoryview(flat))
        if self._swap:
            swap_bytes(flat, dtype)
        return flat


def storage_identity(identity: Any, length: int) -> tuple[StorageType, str, str, int]:
    """The checked parts of a persistent id: type, key, location and number of elements."""
    if type(identity) is tuple and len(identity) == length:
        word, kind, key, location, numel = identity[:5]
        word, key, location = _text(word), _text(key), _text(location)
        good = type(key) is str and type(location) is str and type(numel) is int
        if word == "storage" and isinstance(kind, StorageType) and good and 0 <= numel < 2**60:
            return kind, key, location, numel
    raise UnpicklingError(
        "Weights only load failed. Only persistent_load of storage is allowed, got "
        f"{identity!r:.200}"
    )


def _text(value: Any) -> Any:
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def map_file(path: Any, flags: int) -> _mmap.mmap:
    """The whole file in memory; writes stay private unless ``flags`` is MAP_SHARED."""
    shared = flags == _mmap.MAP_SHARED
    access = _mmap.ACCESS_WRITE if shared else _mmap.ACCESS_COPY
    with open(path, "r+b" if shared else "rb") as file:
        return _mmap.mmap(file.fileno(), 0, access=access)


def unknown_names(file: Any) -> list[str]:
    """The names in a zip checkpoint that ``load`` would refuse."""
    return unknown_in_pickle(Reader(file).read("data.pkl"))
