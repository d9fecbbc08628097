"""The records of a checkpoint file by name, as libraries that load lazily read them."""

from __future__ import annotations

from rushlight import _C

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any


class PyTorchFileReader:
    """Reads the records of a file that ``torch.save`` wrote.

    >>> import io, rushlight as torch
    >>> file = io.BytesIO()
    >>> torch.save(torch.ones(2), file)
    >>> _ = file.seek(0)
    >>> reader = torch.PyTorchFileReader(file)
    >>> reader.has_record("data.pkl"), reader.has_record("other")
    (True, False)
    """

    def __init__(self, file: Any) -> None:
        from rushlight._serialization.archive import Reader

        self._file = open(file, "rb") if isinstance(file, str) else file  # noqa: SIM115
        self._reader = Reader(self._file)

    def has_record(self, name: str) -> bool:
        """Whether the file has such a record."""
        return self._reader.has(name)

    def get_record(self, name: str) -> bytes:
        """The bytes of a record."""
        return self._reader.read(name)

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Any:
        """A vector of the elements of a record."""
        data = bytearray(self._reader.read(name))
        flat = _C._share_buffer(data) if data else _C._namespaces[""]["empty"](0, dtype=_C.uint8)
        return _C._reinterpret(flat, dtype, (numel,), (1,))
