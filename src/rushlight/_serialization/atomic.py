"""Files that appear under their name all at once, or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import secrets
import stat
from collections.abc import Callable
from typing import Any


class AtomicFile:
    """A file to write; it takes the place of ``path`` when the block ends without an error.

    The bytes go to a file without a name (where the file system has such) beside the target, reach
    the disk, and then replace the target in one step. So whoever is interrupted, killed or out of
    disk space leaves the old file as it was. Symbolic links are followed, permissions are kept;
    what is not a regular file (a pipe, a device) is written directly.
    """

    def __init__(self, path: str | bytes | os.PathLike[Any]) -> None:
        self.target = os.path.realpath(os.fsdecode(path))
        self.folder, self.name = os.path.split(self.target)
        self.temporary: str | None = None

    def __enter__(self) -> io.FileIO:
        if not os.path.isdir(self.folder):
            raise RuntimeError(f"Parent directory {self.folder} does not exist.")
        try:
            old = os.stat(self.target)
        except FileNotFoundError:
            old = None
        self.direct = old is not None and not stat.S_ISREG(old.st_mode)
        if self.direct:
            self.file = io.FileIO(self.target, "wb")
            return self.file
        self.file = io.FileIO(self._create(), "wb")
        if old is not None:
            self._keep_permissions(old)
        return self.file

    def _fresh_name(self) -> str:
        return os.path.join(self.folder, f".{self.name[:200]}.{secrets.token_hex(6)}.tmp")

    def _create(self) -> int:
        if hasattr(os, "O_TMPFILE"):
            try:
                return os.open(self.folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o666)
            except OSError:
                pass  # the file system has no files without a name
        self.temporary = self._fresh_name()
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        return os.open(self.temporary, flags, 0o666)

    def _keep_permissions(self, old: os.stat_result) -> None:
        own = os.fstat(self.file.fileno())
        try:
            if (own.st_uid, own.st_gid) != (old.st_uid, old.st_gid):
                os.fchown(self.file.fileno(), old.st_uid, old.st_gid)
        except PermissionError:
            pass  # only the superuser gives files away
        os.fchmod(self.file.fileno(), stat.S_IMODE(old.st_mode))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            if kind is None and not self.direct:
                self._commit()
        finally:
            self.file.close()
            if self.temporary is not None:
                os.unlink(self.temporary)

    def _commit(self) -> None:
        os.fsync(self.file.fileno())
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if self.temporary is None:
                name = self._fresh_name()
                # Naming a folder makes Python call linkat, which follows the link in /proc.
                os.link(f"/proc/self/fd/{self.file.fileno()}", name, dst_dir_fd=folder)
                self.temporary = name
            os.replace(self.temporary, self.target)
            self.temporary = None
            os.fsync(folder)
        finally:
            os.close(folder)


def replace_by(path: str | os.PathLike[str], write: Callable[[str], Any]) -> None:
    """Lets ``write(name)`` write a file beside ``path`` that then takes its place."""
    file = AtomicFile(path)
    name = file._fresh_name()
    try:
        mode = os.stat(file.target).st_mode
    except FileNotFoundError:
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL, 0o666)
        mode = os.fstat(descriptor).st_mode
        os.close(descriptor)
    try:
        write(name)
        os.chmod(name, stat.S_IMODE(mode))
        os.replace(name, file.target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise
