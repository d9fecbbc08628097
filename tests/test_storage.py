"""Storages: the memory behind tensors, new memory, and files in memory."""

import copy
import pickle

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


def test_resizing():
    t = torch.arange(4, dtype=torch.uint8)
    storage, other = t.untyped_storage(), t[1:].untyped_storage()
    assert storage.resize_(8) is storage
    assert storage.nbytes() == other.nbytes() == 8
    assert t.tolist() == [0, 1, 2, 3]
    t.resize_(8)[4:] = 7
    assert other.tolist() == [0, 1, 2, 3, 7, 7, 7, 7]
    storage.resize_(2)
    assert other.tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="negative"):
        storage.resize_(-1)


@pytest.mark.parametrize("size", [3, 10_000, 3_000_000])
def test_tensors_beyond_the_end_stay_safe(size):
    t = torch.ones(size)
    storage = t.untyped_storage().resize_(0)
    assert storage.nbytes() == 0
    assert t.shape == (size,)
    assert t.clone().numel() == size  # whatever it holds
    storage.resize_(8)
    t.fill_(2)
    assert t.sum().item() == 2 * size
    with pytest.raises(RuntimeError, match="storage"):
        t.as_strided((size,), (1,))


def test_memory_of_others_keeps_its_size():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.from_numpy(numpy.zeros(2)).untyped_storage().resize_(64)
    with pytest.raises(RuntimeError, match="not resizable"):
        torch.zeros(2).untyped_storage()[:4].resize_(8)


def test_a_graph_notices_that_its_memory_shrank():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    z = (y * y).sum()
    y.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


def test_storages_of_elements():
    t = torch.tensor([1.0, 2.0, 3.0])
    with pytest.warns(UserWarning, match="TypedStorage is deprecated"):
        storage = t[1:].storage()
    assert isinstance(storage, torch.storage.TypedStorage)
    assert storage.data_ptr() == t.data_ptr()
    assert (storage.size(), len(storage), storage.nbytes(), storage.element_size()) == (3, 3, 12, 4)
    assert storage.tolist() == list(storage) == [1, 2, 3]
    storage[1] = 7
    assert t[1] == storage[1] == 7
    assert storage[1:] == [7, 3]
    assert storage.dtype == torch.float32
    assert storage.untyped() == t.untyped_storage()
    assert storage.clone() != storage
    assert pickle.loads(pickle.dumps(storage)).tolist() == [1, 7, 3]
    assert torch.LongStorage([1, 2]).dtype == torch.int64
    assert torch.DoubleStorage(2).fill_(4).resize_(3).size() == 3
    assert issubclass(torch.FloatStorage, torch.TypedStorage)
    with pytest.raises(AttributeError):
        torch.ZorkStorage


def test_storages_convert_and_move():
    storage = torch.FloatStorage([1.5, 2.0])
    assert storage.type() == "torch.FloatStorage"
    assert storage.pickle_storage_type() == "FloatStorage"
    for name, dtype in [("double", torch.float64), ("int", torch.int32), ("bool", torch.bool)]:
        made = getattr(storage, name)()
        assert (type(made), made.dtype) == (torch.TypedStorage, dtype)
        assert made.tolist() == torch.tensor([1.5, 2.0]).to(dtype).tolist()
    assert storage.type(torch.float32) is storage
    assert storage.type(torch.int64).tolist() == [1, 2]
    assert storage.cpu() is storage.to(device="cpu") is storage
    assert [storage.is_cuda, storage.is_sparse, storage.is_pinned()] == [False] * 3
    copy.copy(storage)[0] = 7
    assert storage[0] == 1.5

    raw = torch.arange(2.0).untyped_storage()
    assert list(raw) == raw.tolist() == [0, 0, 0, 0, 0, 0, 128, 63]
    assert raw.float().tolist() == [0, 0, 0, 0, 0, 0, 128, 63]  # elements of bytes are bytes
    assert raw.type() == "rushlight.storage.UntypedStorage"
    copy.copy(raw).fill_(0)
    assert raw[7] == 63


def test_set_takes_storages():
    x = torch.zeros(1).set_(torch.FloatStorage([0, 1, 2, 3, 4, 5]), 1, (2, 2))
    assert x.tolist() == [[1, 2], [3, 4]]
    assert torch.zeros(1).set_(torch.arange(3.0).untyped_storage()).tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match=r"Storage of type torch.float32 .* torch.int64"):
        torch.zeros(1).set_(torch.LongStorage([1, 2]))
