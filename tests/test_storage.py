"""Storages: the memory behind tensors, new memory, and files in memory."""

import pytest

import rushlight as torch
from rushlight import UntypedStorage


def test_the_memory_of_a_tensor():
    t = torch.arange(4, dtype=torch.int16)
    storage = t.untyped_storage()
    assert torch.is_storage(storage)
    assert not torch.is_storage(t)
    assert storage.nbytes() == storage.size() == len(storage) == 8
    assert storage.data_ptr() == t.data_ptr()
    assert storage == t[1:].untyped_storage()
    assert storage != t.clone().untyped_storage()
    assert len({storage, t[2:].untyped_storage()}) == 1
    assert storage.tolist() == [0, 0, 1, 0, 2, 0, 3, 0]
    assert storage[2] == 1
    storage[2] = 9
    assert t[1] == 9
    assert storage.device == torch.device("cpu")
    assert storage.element_size() == 1
    assert storage.cpu() is storage.untyped() is storage
    assert "8 bytes" in repr(storage)
    with pytest.raises(IndexError):
        storage[8]


def test_parts_share_and_copies_do_not():
    t = torch.zeros(2)
    part, copy = t.untyped_storage()[4:], t.untyped_storage().clone()
    part.fill_(1)
    assert part.tolist() == [1] * 4
    assert t[0] == 0
    assert t[1] != 0
    assert copy.tolist() == [0] * 8
    copy.copy_(t.untyped_storage())
    assert copy.tolist() == [0] * 4 + [1] * 4


def test_new_memory_as_a_tensor():
    storage = UntypedStorage(12).fill_(0)
    t = torch.asarray(storage, dtype=torch.uint8).view(torch.int32)
    t[1] = 1
    assert storage.tolist() == [0] * 4 + [1] + [0] * 7
    assert UntypedStorage().nbytes() == 0


def test_files(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(range(10)))
    private = UntypedStorage.from_file(path, False, 6)
    private[0] = 77
    assert private.tolist() == [77, 1, 2, 3, 4, 5]
    assert path.read_bytes()[0] == 0
    shared = UntypedStorage.from_file(path, shared=True, nbytes=16)
    shared[15] = 5
    assert path.read_bytes() == bytes([*range(10), 0, 0, 0, 0, 0, 5])
    with pytest.raises(RuntimeError, match="17 bytes wanted"):
        UntypedStorage.from_file(path, False, 17)
    with pytest.raises(FileNotFoundError):
        UntypedStorage.from_file(tmp_path / "none")
    (tmp_path / "empty").touch()
    assert UntypedStorage.from_file(tmp_path / "empty").nbytes() == 0


def test_shared_memory():
    t = torch.ones(3)
    storage = t.untyped_storage()
    assert not storage.is_shared()
    storage.share_memory_()
    assert t.is_shared()
    assert t.tolist() == [1, 1, 1]
