"""Streams of files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatch
from typing import Any

from rushlight.utils.data.datapipes._decorator import functional_datapipe, non_deterministic
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe
from rushlight.utils.data.datapipes.utils.common import StreamWrapper

__all__ = ["FileListerIterDataPipe", "FileOpenerIterDataPipe", "StreamReaderIterDataPipe"]


def _length(pipe: Any) -> int:
    if pipe.length == -1:
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return int(pipe.length)


def _unordered(self: Any, root: Any = ".", masks: Any = "", **options: Any) -> bool:
    return bool(options.get("non_deterministic", False))


def _fail(error: OSError) -> None:
    raise error


@functional_datapipe("list_files")
@non_deterministic(_unordered)
class FileListerIterDataPipe(IterDataPipe[Any]):
    """Paths of the files in folders whose names match one of ``masks``, in the order of names.

    >>> from rushlight.utils.data.datapipes.iter import FileLister
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     list(FileLister(folder, "*.txt"))
    []
    """

    def __init__(
        self,
        root: str | Sequence[str] | IterDataPipe[Any] = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        if isinstance(root, str):
            root = [root]
        self.datapipe: Any = (
            root if isinstance(root, IterDataPipe) else IterableWrapperIterDataPipe(root)
        )
        self.masks = [masks] if isinstance(masks, str) else list(masks)
        self.recursive, self.abspath, self.length = recursive, abspath, length
        self.non_deterministic = non_deterministic

    def _matches(self, name: str) -> bool:
        return self.masks in ([], [""]) or any(fnmatch(name, mask) for mask in self.masks)

    def _paths(self, root: str) -> Iterator[str]:
        if os.path.isfile(root):
            if self._matches(os.path.basename(root)):
                yield os.path.abspath(root) if self.abspath else root
            return
        for folder, folders, files in os.walk(root, onerror=_fail):
            where = os.path.abspath(folder) if self.abspath else folder
            if not self.non_deterministic:
                files.sort()
                folders.sort()
            yield from (os.path.join(where, name) for name in files if self._matches(name))
            if not self.recursive:
                return

    def __iter__(self) -> Iterator[str]:
        for root in self.datapipe:
            yield from self._paths(root)

    def __len__(self) -> int:
        return _length(self)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(IterDataPipe[Any]):
    """Pairs of a path and the file, which closes when it is forgotten.

    >>> from rushlight.utils.data.datapipes.iter import FileOpener, IterableWrapper
    >>> FileOpener(IterableWrapper(["a.bin"]), mode="rb")
    FileOpenerIterDataPipe
    """

    def __init__(
        self,
        datapipe: Iterable[str],
        mode: str = "r",
        encoding: str | None = None,
        length: int = -1,
    ) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}: one of 'b', 't', 'rb', 'rt' and 'r'")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.encoding, self.length = datapipe, encoding, length
        self.mode = mode if mode.startswith("r") else f"r{mode}"

    def __iter__(self) -> Iterator[tuple[str, StreamWrapper]]:
        for path in self.datapipe:
            if not isinstance(path, (str, os.PathLike)):
                raise TypeError(f"Expected string type for pathname, but got {type(path)}")
            file = open(path, self.mode, encoding=self.encoding)  # noqa: SIM115, the wrapper's
            yield os.fspath(path), StreamWrapper(file, name=os.fspath(path))

    def __len__(self) -> int:
        return _length(self)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[Any]):
    """Pairs of a path and what the file holds, whole or in pieces of ``chunk``.

    >>> import io
    >>> from rushlight.utils.data.datapipes.iter import IterableWrapper, StreamReader
    >>> list(StreamReader(IterableWrapper([("a", io.StringIO("text"))]), chunk=2))
    [('a', 'te'), ('a', 'xt')]
    """

    def __init__(self, datapipe: IterDataPipe[Any], chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for path, stream in self.datapipe:
            while data := stream.read(-1 if self.chunk is None else self.chunk):
                yield path, data
            stream.close()
