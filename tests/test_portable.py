"""The extension loads on systems older than the one that compiled it."""

import re
import sys
from pathlib import Path

import pytest

import rushlight._C

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="versions of symbols are ELF's")


@pytest.fixture(scope="module")
def extension():
    return Path(rushlight._C.__file__).read_bytes()


def newest(extension, library):
    """The newest version of a library's symbols that the extension asks for."""
    found = re.findall(rb"\0" + library + rb"_(\d+(?:\.\d+)+)\0", extension)
    return max(tuple(map(int, version.split(b"."))) for version in found)


def test_glibc_may_be_as_old_as_2_28(extension):
    assert newest(extension, b"GLIBC") <= (2, 28)


def test_libstdcxx_may_be_that_of_gcc_8(extension):
    assert newest(extension, b"GLIBCXX") <= (3, 4, 24)
    assert newest(extension, b"CXXABI") <= (1, 3, 11)


def test_libmvec_is_looked_up_and_not_required(extension):
    assert extension.count(b"libmvec.so.1") <= 1  # a requirement would be written down once more


def test_its_threads_storage_fits_beside_that_of_others(extension):
    """What a library that is loaded late gets of it is 1,664 bytes in glibc, for all together."""
    start, size, count = (int.from_bytes(extension[at : at + n], "little")
                          for at, n in ((32, 8), (54, 2), (56, 2)))  # fmt: skip
    headers = [extension[start + size * i : start + size * (i + 1)] for i in range(count)]
    sizes = [int.from_bytes(h[40:48], "little") for h in headers if h[:4] == b"\x07\0\0\0"]
    assert sum(sizes) <= 1200
