"""Storages in checkpoints: their type names, their contents, and where they are put."""

from __future__ import annotations

import sys
from typing import Any

from rushlight import _C
from rushlight._tensor import _LEGACY, _STORED
from rushlight.storage import UntypedStorage

# "FloatStorage" and the like, as PyTorch's files name the dtype of a storage.
STORAGE_DTYPES = {f"{name}Storage": dtype for name, dtype in _LEGACY.items()}
STORAGE_NAMES = {dtype: name for name, dtype in STORAGE_DTYPES.items()}
DTYPES = {dtype.name: dtype for dtype in (*STORAGE_DTYPES.values(), *_STORED.values())}


class StorageType:
    """What a file means by ``torch.FloatStorage``: a dtype for the bytes of a storage."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dtype = STORAGE_DTYPES.get(name, _C.uint8)


class LoadedStorage(UntypedStorage):
    """A storage that was read from a file, with the dtype that the file gives it."""

    def __init__(self, flat: _C.Tensor, dtype: Any) -> None:
        self._flat = flat
        self._part = flat.numel() != flat._storage_bytes()
        self.dtype = dtype


def empty_storage(size: int) -> _C.Tensor:
    """Bytes to be filled."""
    return _C._namespaces[""]["empty"](size, dtype=_C.uint8)


def swap_bytes(flat: _C.Tensor, dtype: Any) -> None:
    """Turns the byte order of every number around, in place."""
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    if width > 1 and flat.numel():
        view = memoryview(flat)
        old = bytes(view)
        turned = bytearray(len(old))
        for i in range(width):
            turned[i::width] = old[width - 1 - i :: width]
        view[:] = turned


def needs_swap(said: str) -> bool:
    """Whether a file's byte order is not this machine's."""
    return said in ("little", "big") and said != sys.byteorder


def default_restore_location(storage: Any, location: Any) -> Any:
    """Keeps a storage of the location ``cpu``; refuses others, which this build does not have.

    >>> import rushlight as torch
    >>> storage = torch.ones(2).untyped_storage()
    >>> torch.serialization.default_restore_location(storage, "cpu") is storage
    True
    """
    if isinstance(location, bytes):
        location = location.decode("ascii", "replace")
    kind = str(location).partition(":")[0]
    if kind == "cpu":
        return storage
    if kind == "meta":
        return LoadedStorage(storage._bytes.to("meta"), getattr(storage, "dtype", _C.uint8))
    if kind == "cuda":
        from rushlight.cuda import device_count

        number, count = _C.device(str(location)).index or 0, device_count()
        if number < count:
            place = _C.device("cuda", number)
            return LoadedStorage(storage._bytes.to(place), getattr(storage, "dtype", _C.uint8))
        if count:
            raise RuntimeError(
                f"Attempting to deserialize object on CUDA device {number} but "
                f"torch.cuda.device_count() is {count}. Please use torch.load with map_location to "
                "map your storages to an existing device."
            )
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is "
            "False. If you are running on a CPU-only machine, please use torch.load with "
            "map_location=torch.device('cpu') to map your storages to the CPU."
        )
    raise RuntimeError(
        f"don't know how to restore data location of {type(storage).__name__} (tagged with "
        f"{location}): this build of rushlight computes on the CPU only; load with "
        "map_location='cpu'"
    )


class Placer:
    """Applies ``map_location`` to every storage of a file."""

    def __init__(self, map_location: Any) -> None:
        known = (type(None), dict, str, bytes, _C.device)
        if not isinstance(map_location, known) and not callable(map_location):
            raise TypeError(
                "load: map_location must be a device, a string, a dict or a function, got "
                f"{type(map_location).__name__}"
            )
        self._map = map_location

    def place(self, flat: _C.Tensor, dtype: Any, location: Any) -> LoadedStorage:
        """The storage to use for the bytes that were read."""
        storage: Any = LoadedStorage(flat, dtype)
        wanted = self._map
        if wanted is None:
            storage = default_restore_location(storage, location)
        elif isinstance(wanted, dict):
            storage = default_restore_location(storage, wanted.get(location, location))
        elif isinstance(wanted, (str, bytes, _C.device)):
            text = wanted if isinstance(wanted, bytes) else str(wanted)
            storage = default_restore_location(storage, text)
        else:
            storage = wanted(storage, location)
            if storage is None:
                storage = default_restore_location(LoadedStorage(flat, dtype), location)
        if not isinstance(storage, UntypedStorage):
            raise TypeError(
                "load: the map_location function must return the storage or None, got "
                f"{type(storage).__name__}"
            )
        return LoadedStorage(storage._bytes, dtype)
