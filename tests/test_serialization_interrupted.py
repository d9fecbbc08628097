"""An interrupted save leaves the old file; permissions, links and other kinds of files."""

import os
import signal
import stat
import subprocess
import sys
import time

import pytest

import rushlight as torch

WRITER = """
import sys, rushlight as torch
t = torch.full((2**24,), 2.0)
print("ready", flush=True)
while True:
    torch.save({"t": t, "n": 2}, sys.argv[1])
"""


def check_old_or_new(path):
    back = torch.load(path)
    value = back["n"]
    assert bool((back["t"] == value).all())


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.06, 0.1])
def test_killed_in_the_middle_of_a_write(tmp_path, delay):
    path = tmp_path / "x.pt"
    torch.save({"t": torch.full((2**24,), 1.0), "n": 1}, path)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    writer.stdout.readline()
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    check_old_or_new(path)


class Failing:
    def __reduce__(self):
        raise ValueError("can't be saved")


def test_an_object_that_cannot_be_saved(tmp_path):
    path = tmp_path / "x.pt"
    torch.save([1, 2], path)
    before = path.read_bytes()
    for bad in (Failing(), lambda: 1, [torch.ones(3), Failing()]):
        with pytest.raises(Exception, match=r"can't be saved|Can't pickle"):
            torch.save(bad, path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_a_full_disk(tmp_path, monkeypatch):
    from rushlight._serialization import archive

    path = tmp_path / "x.pt"
    torch.save([1, 2], path)
    real, count = archive.write_all, [0]

    def write(file, data):
        count[0] += 1
        if count[0] > 5:
            raise OSError(28, "No space left on device")
        real(file, data)

    monkeypatch.setattr(archive, "write_all", write)
    with pytest.raises(OSError, match="No space"):
        torch.save(torch.ones(1000), path)
    monkeypatch.undo()
    assert torch.load(path) == [1, 2]
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_ctrl_c_in_the_middle(tmp_path, monkeypatch):
    path = tmp_path / "x.pt"
    torch.save([1, 2], path)
    monkeypatch.setattr(os, "fsync", lambda fd: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        torch.save(torch.ones(1000), path)
    monkeypatch.undo()
    assert torch.load(path) == [1, 2]
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_without_files_that_have_no_name(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    path = tmp_path / "x.pt"
    torch.save([1], path)
    torch.save([2], path)
    with pytest.raises(ValueError, match="can't be saved"):
        torch.save(Failing(), path)
    assert torch.load(path) == [2]
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


def test_permissions_are_kept(tmp_path):
    path = tmp_path / "x.pt"
    torch.save([1], path)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask
    path.chmod(0o640)
    torch.save([2], path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert torch.load(path) == [2]


def test_links_are_followed(tmp_path):
    real = tmp_path / "real.pt"
    link = tmp_path / "link.pt"
    torch.save([1], real)
    link.symlink_to(real)
    torch.save([2], link)
    assert link.is_symlink()
    assert torch.load(real) == [2]
    dangling = tmp_path / "dangling.pt"
    dangling.symlink_to(tmp_path / "new.pt")
    torch.save([3], dangling)
    assert torch.load(tmp_path / "new.pt") == [3]


def test_pipes_and_devices_are_written_directly(tmp_path):
    torch.save([1], "/dev/null")
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    copy = tmp_path / "copy.pt"
    with open(copy, "wb") as file:
        reader = subprocess.Popen(["cat", str(fifo)], stdout=file)
        torch.save(torch.arange(100_000), fifo)
        assert reader.wait() == 0
    assert torch.load(copy)[-1] == 99_999
    assert stat.S_ISFIFO(fifo.stat().st_mode)
