"""Checkpoints in a folder."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # type checkers read it as True; the imports below cost time
if TYPE_CHECKING:
    from typing import Any

    from rushlight.distributed.checkpoint.metadata import Metadata

__all__ = ["FileSystemReader", "FileSystemWriter", "StorageReader", "StorageWriter"]


class StorageWriter:
    """Where a checkpoint is written.

    >>> from rushlight.distributed.checkpoint import StorageWriter
    >>> StorageWriter("folder").path
    'folder'
    """

    def __init__(self, path: Any) -> None:
        self.path = os.fspath(path)
        self.overwrite = True


class StorageReader:
    """Where a checkpoint is read.

    >>> from rushlight.distributed.checkpoint import StorageReader
    >>> StorageReader("folder").path
    'folder'
    """

    def __init__(self, path: Any) -> None:
        self.path = os.fspath(path)

    def read_metadata(self) -> Metadata:
        """What the checkpoint holds."""
        from rushlight.distributed.checkpoint.metadata import Metadata

        return Metadata.read(self.path)


class FileSystemWriter(StorageWriter):
    """A folder to write to; with ``overwrite=False``, one that holds no checkpoint yet.

    The other options choose among ways of writing, and there is one.

    >>> from rushlight.distributed.checkpoint import FileSystemWriter
    >>> FileSystemWriter("folder", single_file_per_rank=True).path
    'folder'
    """

    def __init__(self, path: Any, *, overwrite: bool = True, **options: Any) -> None:
        super().__init__(path)
        self.overwrite = overwrite


class FileSystemReader(StorageReader):
    """A folder to read from.

    >>> from rushlight.distributed.checkpoint import FileSystemReader
    >>> FileSystemReader("folder").path
    'folder'
    """
