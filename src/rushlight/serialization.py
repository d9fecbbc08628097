"""Saving to and loading from files. Loading runs nothing that a file asks for, unless trusted."""

from __future__ import annotations

import io
import mmap as _mmap
import os
import pickle
import warnings
from enum import Enum
from typing import IO, Any

from rushlight import _scopes
from rushlight._serialization.allowed import (
    add_safe_globals,
    clear_safe_globals,
    get_safe_globals,
    safe_globals,
)
from rushlight._serialization.atomic import AtomicFile
from rushlight._serialization.checkpoint import (
    CheckpointReader,
    map_file,
    unknown_names,
    write_checkpoint,
)
from rushlight._serialization.legacy import LegacyReader, write_legacy
from rushlight._serialization.pickling import DEFAULT_PROTOCOL
from rushlight._serialization.reading import Unpickling
from rushlight._serialization.storages import default_restore_location
from rushlight._serialization.trusted import (
    get_force_weights_only,
    is_trusted,
    set_force_weights_only,
)

__all__ = [
    "DEFAULT_PROTOCOL", "LoadEndianness", "add_safe_globals", "clear_safe_globals",
    "default_restore_location", "get_crc32_options", "get_default_load_endianness",
    "get_default_mmap_options", "get_force_weights_only", "get_safe_globals",
    "get_unsafe_globals_in_checkpoint", "load", "location_tag", "safe_globals", "save",
    "set_crc32_options", "set_default_load_endianness", "set_default_mmap_options",
    "set_force_weights_only",
]  # fmt: skip

MAP_PRIVATE = _mmap.MAP_PRIVATE
MAP_SHARED = _mmap.MAP_SHARED
_mmap_flags = MAP_PRIVATE
_endianness: LoadEndianness | None = None

FileLike = str | os.PathLike[str] | IO[bytes]
MAP_LOCATION = Any  # what load() takes as map_location, for annotations


def save(
    obj: Any,
    f: FileLike,
    pickle_module: Any = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Writes an object to a path or a file-like object, in the format of PyTorch's checkpoints.

    Tensors that share memory share it again when loaded. A path is replaced in one step when all
    is written: an interrupted save leaves the old file as it was.

    >>> import io, rushlight as torch
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2), "epoch": 3}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    if pickle_module is not None and getattr(pickle_module, "__name__", "") != "pickle":
        raise ValueError(
            f"save: pickle_module {getattr(pickle_module, '__name__', pickle_module)!r} is not "
            "supported: rushlight writes pickles itself, in the format of PyTorch's checkpoints"
        )
    if not 0 <= pickle_protocol <= pickle.HIGHEST_PROTOCOL:
        raise ValueError(f"save: pickle protocol {pickle_protocol} is not known")

    def write(file: Any, root: str, seekable: bool) -> Any:
        if _use_new_zipfile_serialization:
            return write_checkpoint(obj, file, root, pickle_protocol, seekable)
        return write_legacy(obj, file, pickle_protocol)

    if isinstance(f, (str, os.PathLike)):
        atomic = AtomicFile(f)
        with atomic as file:
            node = write(file, _root_name(atomic.name), not atomic.direct)
    elif hasattr(f, "write"):
        node = write(f, "archive", False)
        if hasattr(f, "flush"):
            f.flush()
    else:
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'write' attribute"
        )
    if node is not None:
        where = node._where
        warnings.warn(
            f"save writes values, never history: the result of {node.name()}, made at "
            f"{f'{where[0]}:{where[1]}' if where else 'an unknown line'}, will be a leaf that "
            "requires grad. Save its detach() if no gradient is wanted.",
            UserWarning,
            stacklevel=2,
        )


def load(
    f: FileLike,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Reads what ``save`` or PyTorch wrote: tensors, numbers, strings and plain containers.

    Nothing is run whatever the file contains, and classes of your own are refused until
    ``serialization.add_safe_globals`` names them. ``weights_only=False`` says that you trust the
    file: whole modules, arrays of NumPy and objects of any class load, and it may run any code;
    ``serialization.set_force_weights_only`` and the environment variable
    ``TORCH_FORCE_WEIGHTS_ONLY_LOAD`` forbid that. ``mmap=True`` maps the file instead of reading
    it; writing to such tensors does not change the file. ``map_location`` is a device, a dict from
    locations to locations or a function of a storage and its location.

    >>> import rushlight as torch
    >>> import io
    >>> file = io.BytesIO()
    >>> torch.save({"step": 3, "weight": torch.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> torch.load(file, weights_only=True)
    {'step': 3, 'weight': tensor([1., 1.])}
    """
    trusted = is_trusted(weights_only, pickle_module)
    encoding = pickle_load_args.pop("encoding", "utf-8")
    for name in pickle_load_args:
        if name not in ("fix_imports", "errors", "buffers"):
            raise TypeError(f"load: unexpected argument '{name}'")
    how = Unpickling(trusted, encoding, pickle_module, **pickle_load_args)
    if isinstance(f, (str, os.PathLike)):
        if os.fspath(f).endswith(".safetensors"):
            return _load_safetensors(f, map_location)
        with open(f, "rb") as file:
            mapped = map_file(f, _mmap_flags) if mmap and _is_zip(file) else None
            return _load_from(file, map_location, how, mapped, bool(mmap))
    if not hasattr(f, "read"):
        raise AttributeError(
            "expected 'f' to be string, path, or a file-like object with a 'read' attribute"
        )
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    _check_seekable(f)
    return _load_from(f, map_location, how, None, False)


def _load_from(file: Any, map_location: Any, how: Unpickling, mapped: Any, mmap: bool) -> Any:
    if _is_zip(file):
        order = "" if _endianness is None else _endianness.name.lower()
        return CheckpointReader(file, map_location, how, mapped, order).load()
    if mmap:
        raise RuntimeError(
            "mmap can only be used with files saved with `torch.save(..., "
            "_use_new_zipfile_serialization=True)`, please torch.save your checkpoint with this "
            "option in order to use mmap."
        )
    return LegacyReader(file, map_location, how).load()


def _check_seekable(f: Any) -> None:
    try:
        f.seek(f.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        raise type(error)(
            f"{error}. You can only torch.load from a file that is seekable. Please pre-load the "
            "data into a buffer like io.BytesIO and try to load from it instead."
        ) from None


def _is_zip(file: Any) -> bool:
    start = file.tell()
    magic = file.read(4)
    file.seek(start)
    return bool(magic == b"PK\3\4")


def _root_name(name: str) -> str:
    stem = os.path.splitext(name)[0]
    return stem if stem.isascii() and stem.isprintable() and "/" not in stem else "archive"


def _load_safetensors(f: Any, map_location: Any) -> Any:
    from rushlight.safetensors import load_file

    if isinstance(map_location, dict) or callable(map_location):
        raise RuntimeError(
            "Loading safetensors file with dict or callable map_location is not supported. Use a "
            "device string or torch.device instead."
        )
    return load_file(f, "cpu" if map_location is None else map_location)


def get_unsafe_globals_in_checkpoint(f: FileLike) -> list[str]:
    """The names in a zip checkpoint that ``load`` refuses until they are allowed.

    >>> import fractions, io, rushlight as torch
    >>> file = io.BytesIO()
    >>> torch.save([fractions.Fraction(1, 3)], file)
    >>> _ = file.seek(0)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(file)
    ['fractions.Fraction']
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return get_unsafe_globals_in_checkpoint(file)
    if not _is_zip(f):
        raise ValueError("Expected input to be a checkpoint returned by torch.save")
    return unknown_names(f)


def location_tag(storage: Any) -> str:
    """Where a storage lives, as files say it.

    >>> import rushlight as torch
    >>> torch.serialization.location_tag(torch.ones(2).untyped_storage())
    'cpu'
    """
    return str(storage._bytes.device)


class LoadEndianness(Enum):
    """The byte order that a file without a mark of its own is taken to have."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


def get_default_load_endianness() -> LoadEndianness | None:
    """What ``set_default_load_endianness`` set.

    >>> import rushlight as torch
    >>> print(torch.serialization.get_default_load_endianness())
    None
    """
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Says the byte order of files that do not; those of today all do.

    >>> import rushlight as torch
    >>> torch.serialization.set_default_load_endianness(torch.serialization.LoadEndianness.LITTLE)
    >>> torch.serialization.get_default_load_endianness().name
    'LITTLE'
    >>> torch.serialization.set_default_load_endianness(None)
    """
    global _endianness
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _endianness = endianness


def get_crc32_options() -> bool:
    """Whether checksums are written: always.

    >>> import rushlight as torch
    >>> torch.serialization.get_crc32_options()
    True
    """
    return True


def set_crc32_options(compute_crc32: bool) -> None:
    """Accepted for compatibility: checksums cost next to nothing and are always written.

    >>> import rushlight as torch
    >>> torch.serialization.set_crc32_options(False)
    >>> torch.serialization.get_crc32_options()
    True
    """


def get_default_mmap_options() -> int:
    """``MAP_PRIVATE`` or ``MAP_SHARED``: how ``load(mmap=True)`` maps files.

    >>> import mmap, rushlight as torch
    >>> torch.serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    True
    """
    return _mmap_flags


class set_default_mmap_options(_scopes.Block):
    """Sets how ``load(mmap=True)`` maps files; as a context, for the length of a block.

    >>> import mmap, rushlight as torch
    >>> with torch.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     torch.serialization.get_default_mmap_options() == mmap.MAP_SHARED
    True
    """

    _at_once = True

    @staticmethod
    def _parts_of(flags: int) -> Any:
        if flags not in (MAP_PRIVATE, MAP_SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE "
                f"or mmap.MAP_SHARED, but got {flags}"
            )
        return (("items", ((globals(), "_mmap_flags", flags),)),)
