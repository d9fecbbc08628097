"""save and load: what goes in comes out, from paths, file-likes and maps of memory."""

import io
import mmap
import os
import stat
import subprocess
import sys
import threading
import zipfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import pytest

import rushlight as torch
from rushlight import serialization

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint8, torch.bool, torch.complex64, torch.complex128,
]  # fmt: skip


def roundtrip(obj, zipped=True, protocol=2, **options):
    file = io.BytesIO()
    torch.save(obj, file, pickle_protocol=protocol, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    return torch.load(file, **options)


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype(dtype, zipped):
    t = torch.tensor([[1, 0, 3], [4, 5, 6]]).to(dtype)
    back = roundtrip(t, zipped)
    assert back.dtype is dtype
    assert torch.equal(back, t)


@pytest.mark.parametrize("protocol", range(6))
def test_plain_data_in_every_protocol(protocol):
    data = {
        "numbers": [0, -1, 255, 256, 2**31, -(2**40), 2**200, 1.5, float("inf"), 1 + 2j, True],
        "texts": ("", "héllo", "a\nb", b"", b"\x00\xff" * 300, bytearray(b"xy")),
        "sets": [{1, 2}, frozenset([3]), set()],
        "none": None,
        (1, "key"): OrderedDict(a=1, b=[]),
        3: defaultdict(list, {"x": [1]}),
        None: Counter("hello"),
        "range": [range(3, 9, 2), slice(1, None, 2)],
        "torch": [torch.Size([2, 3]), torch.float16, torch.device("cpu"), torch.strided],
    }
    back = roundtrip(data, protocol=protocol)
    assert back == data
    assert type(back[3]) is defaultdict
    assert back[3].default_factory is list
    assert type(back["torch"][0]) is torch.Size


@pytest.mark.parametrize("zipped", [True, False], ids=["zip", "legacy"])
def test_tensors_that_share_memory_share_it_again(zipped):
    base = torch.arange(24.0).reshape(4, 6)
    back = roundtrip({"base": base, "t": base.t(), "part": base[1:, ::2], "again": base}, zipped)
    assert back["t"].stride() == (1, 6)
    assert back["part"].storage_offset() == 6
    assert back["base"] is back["again"]
    back["base"][1, 2] = -1.0
    assert back["t"][2, 1] == -1
    assert back["part"][0, 1] == -1


def test_one_storage_read_as_two_dtypes():
    whole = torch.arange(4, dtype=torch.int32)
    other = torch._C._reinterpret(whole, torch.float32, (4,), (1,))
    back = roundtrip([whole, other])
    back[0][0] = 1065353216
    assert back[1][0] == 1


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2)])
def test_scalars_and_empty_tensors(shape):
    back = roundtrip(torch.zeros(shape))
    assert back.shape == torch.Size(shape)


def test_expanded_tensors_keep_their_strides():
    back = roundtrip(torch.ones(1).expand(1000, 1000))
    assert back.stride() == (0, 0)
    assert back.untyped_storage().nbytes() == 4


def test_parameters_flags_and_attributes():
    p = torch.nn.Parameter(torch.ones(2), requires_grad=False)
    t = torch.ones(2, requires_grad=True)
    t.note = "mine"
    back = roundtrip([p, t, torch.nn.Parameter(torch.ones(1))])
    assert type(back[0]) is torch.nn.Parameter
    assert not back[0].requires_grad
    assert back[1].requires_grad
    assert back[1].note == "mine"
    assert back[2].requires_grad
    assert back[2].is_leaf


def test_attributes_of_a_state_dict():
    state = OrderedDict(w=torch.ones(1))
    state._metadata = OrderedDict({"": {"version": 1}})
    assert roundtrip(state)._metadata == {"": {"version": 1}}


def test_lists_that_contain_themselves():
    loop = [1]
    loop.append(loop)
    back = roundtrip(loop)
    assert back[1] is back


def test_history_is_left_out_with_a_warning():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    with pytest.warns(UserWarning, match=r"never history.*MulBackward0.*test_serialization.py"):
        back = roundtrip(y)
    assert back.is_leaf
    assert back.requires_grad


class Mine:
    def __init__(self, x):
        self.x = x


class Sub(torch.Tensor):
    pass


def test_own_classes_are_refused_until_allowed():
    with pytest.raises(serialization.pickle.UnpicklingError, match="add_safe_globals") as caught:
        roundtrip(Mine(3))
    assert "Mine" in str(caught.value)
    assert "weights_only=False" in str(caught.value)
    with serialization.safe_globals([Mine]):
        assert roundtrip(Mine(3)).x == 3
        assert serialization.get_safe_globals() == [Mine]
    assert serialization.get_safe_globals() == []


def test_allowed_names_can_be_given():
    file = io.BytesIO()
    torch.save(Mine(4), file)
    file.seek(0)
    assert serialization.get_unsafe_globals_in_checkpoint(file) == [f"{__name__}.Mine"]

    class Other:
        pass

    serialization.add_safe_globals([(Other, f"{__name__}.Mine")])
    try:
        file.seek(0)
        back = torch.load(file)
    finally:
        serialization.clear_safe_globals()
    assert type(back) is Other
    assert back.x == 4


@pytest.mark.parametrize("bad", [3, ("x", 3), (Mine, 3)])
def test_only_classes_and_functions_can_be_allowed(bad):
    with pytest.raises(TypeError):
        serialization.add_safe_globals([bad])


def test_subclasses_of_tensor():
    with pytest.raises(serialization.pickle.UnpicklingError, match="Sub"):
        roundtrip(torch.ones(2).as_subclass(Sub))
    with serialization.safe_globals([Sub]):
        back = roundtrip(torch.ones(2).as_subclass(Sub))
    assert type(back) is Sub
    assert torch.equal(back.as_subclass(torch.Tensor), torch.ones(2))


def test_paths_and_files(tmp_path):
    t = torch.arange(5)
    for path in (tmp_path / "a.pt", str(tmp_path / "b.pt")):
        torch.save(t, path)
        assert torch.equal(torch.load(path), t)
    with open(tmp_path / "c.pt", "wb") as file:
        torch.save(t, file)
    with open(tmp_path / "c.pt", "rb") as file:
        assert torch.equal(torch.load(file), t)


def test_a_checkpoint_in_the_middle_of_a_file():
    file = io.BytesIO(b"header")
    file.seek(6)
    torch.save(torch.arange(3), file)
    file.seek(6)
    assert torch.load(file).tolist() == [0, 1, 2]


def test_the_records_of_a_file(tmp_path):
    path = tmp_path / "model.pt"
    torch.save({"a": torch.ones(3), "b": torch.zeros(2**20)}, path)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
        assert names[0] == "model/data.pkl"
        for name in ("version", "byteorder", ".data/serialization_id", "data/0", "data/1"):
            assert f"model/{name}" in names
        raw = path.read_bytes()
        for info in archive.infolist():
            start = info.header_offset + 30
            extra = int.from_bytes(raw[info.header_offset + 28 : info.header_offset + 30], "little")
            assert (start + len(info.filename) + extra) % 64 == 0


def test_equal_objects_give_equal_files():
    files = [io.BytesIO(), io.BytesIO()]
    for file in files:
        torch.save({"a": torch.ones(3)}, file)
    assert files[0].getvalue() == files[1].getvalue()


class TestMapping:
    def test_tensors_lie_in_the_file(self, tmp_path):
        path = tmp_path / "x.pt"
        torch.save({"a": torch.arange(10.0), "e": torch.zeros(0)}, path)
        back = torch.load(path, mmap=True)
        assert torch.equal(back["a"], torch.arange(10.0))
        back["a"][0] = 7.0
        assert torch.load(path)["a"][0] == 0
        del back

    def test_shared_maps_write_to_the_file(self, tmp_path):
        path = tmp_path / "x.pt"
        torch.save(torch.zeros(3), path)
        with serialization.set_default_mmap_options(mmap.MAP_SHARED):
            torch.load(path, mmap=True)[1] = 5.0
        assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
        with pytest.raises(RuntimeError, match="checksum"):
            torch.load(path)

    def test_the_old_values_stay_when_the_file_is_saved_anew(self, tmp_path):
        path = tmp_path / "x.pt"
        torch.save(torch.ones(3), path)
        old = torch.load(path, mmap=True)
        torch.save(torch.zeros(3), path)
        assert old.tolist() == [1, 1, 1]

    def test_only_paths_of_zip_files_can_be_mapped(self, tmp_path):
        with pytest.raises(ValueError, match="file path"):
            torch.load(io.BytesIO(b""), mmap=True)
        torch.save(1, tmp_path / "x", _use_new_zipfile_serialization=False)
        with pytest.raises(RuntimeError, match="mmap can only be used"):
            torch.load(tmp_path / "x", mmap=True)
        with pytest.raises(ValueError, match="MAP_PRIVATE"):
            serialization.set_default_mmap_options(12345)


class TestMapLocation:
    def test_ways_to_say_it(self):
        for place in ("cpu", torch.device("cpu"), {"cpu": "cpu"}, lambda s, loc: s, b"cpu"):
            assert torch.equal(roundtrip(torch.ones(2), map_location=place), torch.ones(2))

    def test_the_function_sees_storages_and_locations(self):
        seen = []
        roundtrip(torch.ones(3), map_location=lambda s, loc: seen.append((s.nbytes(), loc)))
        assert seen == [(12, "cpu")]

    def test_other_devices(self):
        with pytest.raises(RuntimeError, match=r"map_location=torch\.device"):
            roundtrip(torch.ones(2), map_location="cuda:0")
        with pytest.raises(RuntimeError, match="don't know how to restore"):
            roundtrip(torch.ones(2), map_location={"cpu": "xpu"})
        with pytest.raises(TypeError, match="map_location"):
            roundtrip(torch.ones(2), map_location=3)
        with pytest.raises(TypeError, match="must return"):
            roundtrip(torch.ones(2), map_location=lambda s, loc: 3)


def test_wrong_arguments(tmp_path):
    with pytest.raises(AttributeError, match="'write' attribute"):
        torch.save(1, 3)
    with pytest.raises(AttributeError, match="'read' attribute"):
        torch.load(3)
    with pytest.raises(RuntimeError, match=r"Parent directory .*nowhere does not exist"):
        torch.save(1, tmp_path / "nowhere" / "x.pt")
    with pytest.raises(IsADirectoryError):
        torch.save(1, tmp_path)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none.pt")
    with pytest.raises(ValueError, match="protocol"):
        torch.save(1, io.BytesIO(), pickle_protocol=9)
    with pytest.raises(ValueError, match="pickle_module"):
        torch.save(1, io.BytesIO(), pickle_module=os)
    with pytest.raises(TypeError, match="surprise"):
        torch.load(io.BytesIO(), surprise=1)
    with pytest.raises(io.UnsupportedOperation, match="seekable"):
        torch.load(Unseekable(b"abc"))


class Unseekable(io.BytesIO):
    def tell(self):
        raise io.UnsupportedOperation("tell")


def test_file_likes_that_write_little_at_a_time():
    class Slow(io.RawIOBase):
        data = b""

        def writable(self):
            return True

        def write(self, b):
            part = bytes(b[:1000])
            Slow.data += part
            return len(part)

    torch.save(torch.arange(5000), Slow())
    assert torch.load(io.BytesIO(Slow.data))[4999] == 4999


def test_file_likes_without_readinto():
    class Old:
        def __init__(self, data):
            self.file = io.BytesIO(data)
            self.read, self.seek, self.tell = self.file.read, self.file.seek, self.file.tell

    file = io.BytesIO()
    torch.save(torch.arange(5), file)
    assert torch.load(Old(file.getvalue())).tolist() == [0, 1, 2, 3, 4]


def test_byte_order_of_other_machines():
    file = io.BytesIO()
    torch.save([torch.tensor([1.0, -2.5]), torch.tensor([1 + 2j]), torch.tensor([7])], file)
    turned = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(turned, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("byteorder"):
                data = b"big"
            elif "/data/" in name:
                width = {"0": 4, "1": 4, "2": 8}[name[-1]]
                pieces = [data[i : i + width][::-1] for i in range(0, len(data), width)]
                data = b"".join(pieces)
            target.writestr(name, data)
    turned.seek(0)
    a, b, c = torch.load(turned)
    assert a.tolist() == [1, -2.5]
    assert b.tolist() == [1 + 2j]
    assert c.tolist() == [7]


def test_byte_order_of_files_that_do_not_say():
    file, silent = io.BytesIO(), io.BytesIO()
    torch.save(torch.tensor([1], dtype=torch.int16), file)
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(silent, "w") as target:
        for name in source.namelist():
            if not name.endswith("byteorder"):
                target.writestr(name, source.read(name))
    other = {"little": "BIG", "big": "LITTLE"}[sys.byteorder]
    for order, value in ((None, 1), (serialization.LoadEndianness[other], 256)):
        serialization.set_default_load_endianness(order)
        try:
            silent.seek(0)
            assert torch.load(silent).item() == value
        finally:
            serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="set_default_load_endianness"):
        serialization.set_default_load_endianness("big")


def test_storages():
    t = torch.arange(4.0)
    storage, again = roundtrip([t.untyped_storage(), t])
    assert storage.nbytes() == 16
    assert storage == again.untyped_storage()
    part = roundtrip(t.untyped_storage()[4:8])
    assert part.tolist() == [0, 0, 128, 63]


def test_threads_save_and_load_at_once(tmp_path):
    path, failures = tmp_path / "x.pt", []

    def work(k):
        try:
            for _ in range(20):
                torch.save(torch.full((1000,), float(k)), path)
                values = torch.load(path)
                assert bool((values == values[0]).all())
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == []
    assert [p.name for p in tmp_path.iterdir()] == ["x.pt"]


class TestSafetensors:
    @pytest.fixture(autouse=True)
    def package(self):
        pytest.importorskip("safetensors")

    def test_there_and_back(self, tmp_path):
        from rushlight import safetensors

        state = {str(d): torch.ones(2, 3).to(d) for d in DTYPES if d is not torch.complex128}
        state |= {"empty": torch.zeros(0, 3), "scalar": torch.tensor(2)}
        safetensors.save_file(state, tmp_path / "x.safetensors", {"format": "pt"})
        back = torch.load(tmp_path / "x.safetensors")
        assert back.keys() == state.keys()
        for name, t in state.items():
            assert back[name].dtype is t.dtype
            assert torch.equal(back[name], t)
        with safetensors.safe_open(tmp_path / "x.safetensors", "pt") as file:
            assert file.metadata() == {"format": "pt"}
            assert file.get_slice("empty").get_shape() == [0, 3]
        assert safetensors.load(safetensors.save(state)).keys() == state.keys()
        assert stat.S_IMODE(os.stat(tmp_path / "x.safetensors").st_mode) & 0o400

    def test_the_package_itself_in_a_program_for_pytorch(self, tmp_path):
        program = tmp_path / "program.py"
        program.write_text(
            "import sys, torch\n"
            "from safetensors import safe_open\n"
            "from safetensors.torch import load_file, save_file\n"
            "state = {'a': torch.arange(6.0).reshape(2, 3), 'b': torch.ones(3).bfloat16(),"
            " 'c': torch.zeros(0, 2)}\n"
            "save_file(state, sys.argv[1])\n"
            "back = load_file(sys.argv[1])\n"
            "assert all(torch.equal(back[k], state[k]) for k in state)\n"
            "with safe_open(sys.argv[1], framework='pt') as f:\n"
            "    print(f.get_tensor('a').sum().item(), f.get_slice('a')[1:, 2].tolist())\n"
        )
        command = [sys.executable, "-m", "rushlight", "run", str(program), str(tmp_path / "x")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("15.0 [5.0]\n", "")

    def test_refusals(self, tmp_path):
        from rushlight import safetensors

        t = torch.ones(2, 2)
        with pytest.raises(RuntimeError, match="share memory"):
            safetensors.save({"a": t, "b": t})
        with pytest.raises(ValueError, match="non contiguous"):
            safetensors.save({"a": torch.ones(2, 3).t()})
        with pytest.raises(ValueError, match=r"expected torch\.Tensor"):
            safetensors.save({"a": 3})
        with pytest.raises(ValueError, match="complex128"):
            safetensors.save({"a": torch.ones(2, dtype=torch.complex128)})
        Path(tmp_path / "x.safetensors").write_bytes(b"\xff" * 100)
        with pytest.raises(Exception, match="header"):
            torch.load(tmp_path / "x.safetensors")
