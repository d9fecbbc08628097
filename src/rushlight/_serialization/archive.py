"""The zip archives of checkpoints: records stored uncompressed, each at a multiple of 64 bytes."""

from __future__ import annotations

import io
import struct
from typing import Any, NamedTuple

from rushlight._C import _crc32

ALIGNMENT = 64
_CHUNK = 1 << 20  # what is copied and then summed up while it is still in the cache
_MAX32 = 0xFFFFFFFF

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_END64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_UTF8 = 0x800


def corrupt(why: str) -> RuntimeError:
    """The error for a file that is no intact archive."""
    return RuntimeError(
        f"PytorchStreamReader failed reading zip archive: {why}. The file is truncated or corrupt, "
        "or no checkpoint."
    )


def write_all(file: Any, data: Any) -> None:
    """Writes every byte, also where ``write`` takes only some at a time."""
    view = memoryview(data).cast("B")
    while len(view):
        written = file.write(view)
        if written is None or written >= len(view):
            return  # file-likes that return nothing take all
        view = view[written:]


class Writer:
    """Writes records to a file-like object; ``seekable`` says that headers may be completed later.

    Positions count from where the file stood at first.
    """

    def __init__(self, file: Any, root: str, seekable: bool = False) -> None:
        self._file = file
        self._root = root
        self._seekable = seekable
        self._position = 0
        self._entries: list[tuple[bytes, int, int, int]] = []  # name, checksum, size, position

    def write(self, name: str, data: Any) -> None:
        """Adds a record."""
        view = memoryview(data).cast("B")
        encoded = f"{self._root}/{name}".encode()
        start = self._position
        if self._seekable and len(view) > _CHUNK:
            check = self._write_large(encoded, view)
        else:
            check = _crc32(view)
            self._put(self._header(encoded, check, len(view)))
            self._put(view)
        self._entries.append((encoded, check, len(view), start))

    def _write_large(self, name: bytes, view: memoryview) -> int:
        """Writes and sums up by chunks; the header learns the sum afterwards."""
        start, check = self._position, 0
        header = self._header(name, 0, len(view))
        self._put(header)
        for at in range(0, len(view), _CHUNK):
            part = view[at : at + _CHUNK]
            check = _crc32(part, check)
            self._put(part)
        place = start + 14 - self._position
        self._file.seek(place, io.SEEK_CUR)
        write_all(self._file, check.to_bytes(4, "little"))
        self._file.seek(-place - 4, io.SEEK_CUR)
        return check

    def _put(self, data: Any) -> None:
        write_all(self._file, data)
        self._position += len(data)

    def _header(self, name: bytes, check: int, size: int) -> bytes:
        large = size >= _MAX32
        extra = struct.pack("<2H2Q", 1, 16, size, size) if large else b""
        end = self._position + _LOCAL.size + len(name) + len(extra) + 4
        padding = -end % ALIGNMENT
        extra += struct.pack("<2sH", b"FB", padding) + b"Z" * padding
        said = _MAX32 if large else size
        fields = (b"PK\3\4", 45 if large else 20, _UTF8, 0, 0, 0, check, said, said)
        return _LOCAL.pack(*fields, len(name), len(extra)) + name + extra

    def _directory_entry(self, name: bytes, check: int, size: int, start: int) -> bytes:
        said_size, said_start, more = size, start, b""
        if size >= _MAX32:
            said_size, more = _MAX32, struct.pack("<2Q", size, size)
        if start >= _MAX32:
            said_start, more = _MAX32, more + struct.pack("<Q", start)
        extra = struct.pack("<2H", 1, len(more)) + more if more else b""
        version = 45 if more else 20
        fields = (b"PK\1\2", version, version, _UTF8, 0, 0, 0, check, said_size, said_size)
        lengths = (len(name), len(extra), 0, 0, 0, 0, said_start)
        return _CENTRAL.pack(*fields, *lengths) + name + extra

    def close(self) -> None:
        """Writes the identity of the contents and the directory."""
        text = repr([entry[:3] for entry in self._entries]).encode()
        identity = f"{_crc32(text):020d}{len(text):020d}"
        self.write(".data/serialization_id", identity.encode())
        start = self._position
        for entry in self._entries:
            self._put(self._directory_entry(*entry))
        size, count = self._position - start, len(self._entries)
        if count >= 0xFFFF or size >= _MAX32 or start >= _MAX32:
            where = self._position
            end = (b"PK\6\6", _END64.size - 12, 45, 45, 0, 0, count, count, size, start)
            self._put(_END64.pack(*end))
            self._put(_LOCATOR.pack(b"PK\6\7", 0, where, 1))
        short = min(count, 0xFFFF)
        fields = (b"PK\5\6", 0, 0, short, short, min(size, _MAX32), min(start, _MAX32), 0)
        self._put(_END.pack(*fields))


class Record(NamedTuple):
    """Where a record lies in the file."""

    start: int
    size: int
    check: int


class Reader:
    """Reads records; every position and size is checked against the file before it is used."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._base = file.tell()
        self._length = file.seek(0, io.SEEK_END) - self._base
        start, size, count = self._find_directory()
        self._records = self._read_directory(self._read(start, size), count, start)
        self.root = self._find_root()

    def _read(self, start: int, size: int) -> bytes:
        if start < 0 or size < 0 or start + size > self._length:
            raise corrupt("a record reaches beyond the end of the file")
        self._file.seek(self._base + start)
        data = self._file.read(size)
        if len(data) != size:
            raise corrupt("unexpected end of file")
        return data

    def _find_directory(self) -> tuple[int, int, int]:
        tail_start = max(0, self._length - _END.size - 0xFFFF)
        tail = self._read(tail_start, self._length - tail_start)
        at = tail.rfind(b"PK\5\6")
        if at < 0 or len(tail) - at < _END.size:
            raise corrupt("failed finding central directory")
        _, _, _, _, count, size, start, comment = _END.unpack_from(tail, at)
        if len(tail) - at - _END.size < comment:
            raise corrupt("failed finding central directory")
        place = tail_start + at
        if place >= _LOCATOR.size:
            locator = self._read(place - _LOCATOR.size, _LOCATOR.size)
            if locator[:4] == b"PK\6\7":
                end = self._read(_LOCATOR.unpack(locator)[2], _END64.size)
                if end[:4] != b"PK\6\6":
                    raise corrupt("bad end of the central directory")
                count, size, start = _END64.unpack(end)[7:]
        return start, size, count

    def _read_directory(self, data: bytes, count: int, end: int) -> dict[str, Record]:
        records: dict[str, Record] = {}
        at = 0
        for _ in range(min(count, len(data) // _CENTRAL.size + 1)):
            if at + _CENTRAL.size > len(data) or data[at : at + 4] != b"PK\1\2":
                raise corrupt("bad central directory")
            fields = _CENTRAL.unpack_from(data, at)
            flags, method, check = fields[3], fields[4], fields[7]
            sizes = fields[8], fields[9], fields[16]
            name_end = at + _CENTRAL.size + fields[10]
            extra_end = name_end + fields[11]
            raw = data[at + _CENTRAL.size : name_end]
            at = extra_end + fields[12]
            packed, size, start = _wide(sizes, data[name_end:extra_end])
            name = raw.decode("utf-8", "backslashreplace")
            if name.endswith("/"):
                continue  # a folder
            if flags & 1 or method != 0 or packed != size:
                raise corrupt(
                    f"record '{name}' is compressed or encrypted, and checkpoints are stored plain"
                )
            if name in records:
                raise corrupt(f"two records are named '{name}'")
            records[name] = Record(self._data_start(name, raw, start, size, end), size, check)
        if len(records) == 0 or at > len(data):
            raise corrupt("bad central directory")
        _refuse_overlaps(records)
        return records

    def _data_start(self, name: str, raw: bytes, start: int, size: int, end: int) -> int:
        local = self._read(start, _LOCAL.size)
        fields = _LOCAL.unpack(local)
        if local[:4] != b"PK\3\4" or self._read(start + _LOCAL.size, fields[9]) != raw:
            raise corrupt(f"the header of record '{name}' is not where the directory says")
        at = start + _LOCAL.size + fields[9] + fields[10]
        if at + size > end:
            raise corrupt(f"record '{name}' reaches beyond the end of the data")
        return at

    def _find_root(self) -> str:
        for name in self._records:
            root, slash, rest = name.partition("/")
            if slash and rest == "data.pkl":
                if f"{root}/constants.pkl" in self._records:
                    raise RuntimeError(
                        "the file is a TorchScript archive: a program, not a checkpoint. Save the "
                        "model's state_dict() and load that"
                    )
                return root + "/"
        raise RuntimeError(
            "PytorchStreamReader failed locating file data.pkl: file not found. The file is a zip "
            "archive, but no checkpoint."
        )

    def has(self, name: str) -> bool:
        """Whether there is such a record."""
        return self.root + name in self._records

    def record(self, name: str) -> Record:
        """Where a record lies."""
        found = self._records.get(self.root + name)
        if found is None:
            raise corrupt(f"there is no record '{name}'")
        return found

    def read(self, name: str) -> bytes:
        """A whole record, its checksum compared."""
        record = self.record(name)
        data = self._read(record.start, record.size)
        if _crc32(data) != record.check:
            raise _bad_checksum(name)
        return data

    def read_into(self, name: str, target: memoryview) -> None:
        """Fills ``target``, as long as the record, and compares the checksum."""
        record, check = self.record(name), 0
        self._file.seek(self._base + record.start)
        for at in range(0, record.size, _CHUNK):
            part = target[at : at + _CHUNK]
            fill(self._file, part)
            check = _crc32(part, check)
        if check != record.check:
            raise _bad_checksum(name)

    @property
    def base(self) -> int:
        """Where the archive begins in its file."""
        return self._base


def fill(file: Any, target: memoryview) -> None:
    """Reads exactly as many bytes as ``target`` holds."""
    if not hasattr(file, "readinto"):
        data = file.read(len(target))
        if len(data) == len(target):
            target[:] = data
            return
        raise corrupt("unexpected end of file")
    while len(target):
        n = file.readinto(target)
        if not n:
            raise corrupt("unexpected end of file")
        target = target[n:]


def _wide(sizes: tuple[int, int, int], extra: bytes) -> tuple[int, int, int]:
    """Packed size, size and position, with those that need 64 bits read from the extra field."""
    packed, size, start = sizes
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        field = extra[at + 4 : at + 4 + length]
        if kind == 1:
            numbers = [int.from_bytes(field[i : i + 8], "little") for i in range(0, len(field), 8)]
            try:
                size = numbers.pop(0) if size == _MAX32 else size
                packed = numbers.pop(0) if packed == _MAX32 else packed
                start = numbers.pop(0) if start == _MAX32 else start
            except IndexError:
                raise corrupt("bad central directory") from None
        at += 4 + length
    return packed, size, start


def _refuse_overlaps(records: dict[str, Record]) -> None:
    """Records that share bytes could claim more memory than the file has."""
    end, previous = 0, ""
    for name, record in sorted(records.items(), key=lambda item: item[1].start):
        if record.size and record.start < end:
            raise corrupt(f"records '{previous}' and '{name}' overlap")
        end, previous = max(end, record.start + record.size), name


def _bad_checksum(name: str) -> RuntimeError:
    return corrupt(f"the checksum of record '{name}' is wrong")
