"""Files made to harm: nothing runs, nothing crashes, nothing is allocated that the file lacks."""

import contextlib
import gc
import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch

EXPECTED = (pickle.UnpicklingError, RuntimeError, EOFError)


def archive(pickled, storages=(), **records):
    """A checkpoint with any pickle."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as target:
        target.writestr("archive/data.pkl", pickled)
        target.writestr("archive/version", "3\n")
        for key, data in enumerate(storages):
            target.writestr(f"archive/data/{key}", data)
        for name, data in records.items():
            target.writestr(f"archive/{name}", data)
    file.seek(0)
    return file


def load_pickle(pickled, storages=()):
    return torch.load(archive(pickled, storages))


class Bomb:
    """Its pickle asks for a call."""

    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


ran = []


def harmless(*args):
    ran.append(args)


@pytest.mark.parametrize("protocol", range(6))
@pytest.mark.parametrize(
    "bomb",
    [
        Bomb(os.system, "touch /tmp/rushlight-was-here"),
        Bomb(eval, "harmless(1)"),
        Bomb(exec, "import os"),
        Bomb(harmless, 1),
        Bomb(getattr, harmless, "__globals__"),
        Bomb(__import__, "os"),
        Bomb(open, "/tmp/rushlight-was-here", "w"),
        Bomb(torch.load, "/dev/zero"),
        Bomb(pickle.loads, b"."),
        Bomb(type, "X", (), {}),
        Bomb(map, harmless, [1]),
    ],
    ids=lambda bomb: bomb.call[0].__name__,
)
def test_calls_are_refused(bomb, protocol):
    data = pickle.dumps({"x": [bomb]}, protocol)
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        load_pickle(data)
    legacy = b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {})) + data
    with pytest.raises(pickle.UnpicklingError, match="add_safe_globals"):
        torch.load(io.BytesIO(legacy))
    with pytest.raises(pickle.UnpicklingError):
        torch.load(io.BytesIO(data))
    assert ran == []
    assert not os.path.exists("/tmp/rushlight-was-here")


def test_a_whole_module_is_explained():
    data = b"\x80\x02ctorch.nn.modules.linear\nLinear\n)\x81}b."
    with pytest.raises(pickle.UnpicklingError, match="state_dict"):
        load_pickle(data)


@pytest.mark.parametrize(
    "code",
    [
        b"(S'x'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'x'\no.",  # OBJ
        b"\x82\x01.",  # EXT1
        b"\x83\x01\x00.",
        b"\x84\x01\x00\x00\x00.",
        b"Pabc\n.",  # PERSID
        b"\x97.",  # NEXT_BUFFER
        b"\x98.",
        b"\xff.",
    ],
    ids=["inst", "obj", "ext1", "ext2", "ext4", "persid", "next_buffer", "readonly", "unknown"],
)
def test_opcodes_without_use_are_refused(code):
    with pytest.raises(pickle.UnpicklingError):
        load_pickle(code)


ORDERED = b"ccollections\nOrderedDict\n)R"
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"


def put(value):
    """A value without the frame of its pickle."""
    return pickle.dumps(value, 2)[2:-1]


def storage(kind=b"FloatStorage", key="0", place="cpu", numel=4):
    return (
        b"("
        + put("storage")
        + b"ctorch\n"
        + kind
        + b"\n"
        + put(key)
        + put(place)
        + put(numel)
        + b"tQ"
    )


def tensor(offset=0, size=(4,), stride=(1,), grad=False, **kind):
    parts = b"".join(put(x) for x in (offset, size, stride, grad))
    return TENSOR + b"(" + storage(**kind) + parts + ORDERED + b"tR"


BYTES = struct.pack("4f", 1, 2, 3, 4)


def test_the_pieces_of_these_tests_make_a_good_file():
    assert load_pickle(tensor() + b".", [BYTES]).tolist() == [1, 2, 3, 4]
    assert load_pickle(tensor(1, (2,), (2,), True) + b".", [BYTES]).tolist() == [2, 4]


@pytest.mark.parametrize(
    "facts",
    [
        {"size": (5,)},
        {"offset": 1},
        {"offset": -1},
        {"size": (2,), "stride": (4,)},
        {"size": (2,), "stride": (-1,), "offset": 3},
        {"size": (-1,)},
        {"size": (2**62, 4), "stride": (4, 1)},
        {"size": (2**40, 2**40), "stride": (0, 0)},
        {"size": (0, 2**40, 2**40), "stride": (0, 0, 0)},
        {"size": (2,), "stride": (2**63 - 1,)},
        {"size": (2,), "stride": (2**70,)},
        {"size": (2**70,)},
        {"offset": 2**62, "size": (0,)},
        {"size": (2, 2)},
        {"size": (1,) * 65, "stride": (1,) * 65},
        {"size": (1.0,)},
        {"size": (True,)},
        {"size": 4},
        {"size": "4"},
        {"stride": None},
        {"offset": "x"},
        {"grad": "yes"},
        {"grad": True, "kind": b"IntStorage"},
        {"numel": 5},
        {"numel": 3},
        {"numel": -1},
        {"numel": 2**61},
        {"numel": 4.0},
        {"key": "1"},
        {"key": "../0"},
        {"key": "/etc/passwd"},
        {"key": 0},
        {"place": 3},
        {"kind": b"float32"},
        {"kind": b"FloatTensor"},
        {"kind": b"NoStorage"},
        {"kind": b"DoubleStorage"},
    ],
    ids=str,
)
def test_tensors_that_claim_what_is_not_there(facts):
    with pytest.raises(EXPECTED):
        load_pickle(tensor(**facts) + b".", [BYTES])


@pytest.mark.parametrize(
    "code",
    [
        b".",
        b"",
        b"0.",
        b"1.",
        b"2.",
        b"a.",
        b"e.",
        b"s.",
        b"u.",
        b"t.",
        b"R.",
        b"b.",
        b"Q.",
        b"h\x05.",
        b"j\xff\xff\xff\xff.",
        b"q\x01.",
        b"Nr\xff\xff\xff\xff0.",
        b"g-1\n.",
        b"Ix\n.",
        b"L" + b"9" * 5000 + b"L\n.",
        b"X\xff\xff\xff\xffabc.",
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc.",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"\x96\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"B\xff\xff\xff\xffabc.",
        b"\x8b\xff\xff\xff\xffabc.",
        b"Xabc",
        b"X\x02\x00\x00\x00\xff\xff.",
        b"\x80\x99N.",
        b"]]a]s.",
        b"}]Ns.",
        b"}(K\x01u.",
        b"(K\x01K\x02d0",
        b"N}b.",
        b"]}b.",
        b"ccollections\nOrderedDict\n}b.",
        b"ccollections\nOrderedDict\nK\x01K\x02s.",
        b"ccollections\nOrderedDict\nN\x81.",
        b"ccollections\nOrderedDict\nK\x01R.",
        b"ccollections\nOrderedDict\n(K\x01tR.",
        b"ccollections\nOrderedDict\n(](K\x01K\x02eet R.",
        ORDERED + b"}U\x05itemsNsb.",
        ORDERED + b"}U\t__class__Nsb.",
        ORDERED + b"}K\x01Nsb.",
        ORDERED + b"N}U\x01aNs\x86b0",
        b"ccollections\ndefaultdict\n(cos\nsystem\ntR.",
        b"ccollections\ndefaultdict\n(ccollections\ndefaultdict\ntR.",
        b"c__builtin__\nbytearray\n(J\xff\xff\xff\x7ftR.",
        b"c__builtin__\nbytes\n(J\xff\xff\xff\x7ftR.",
        b"c__builtin__\nrange\n(tR.",
        b"c__builtin__\nset\n(](]eatR.",
        b"c__builtin__\ncomplex\n(U\x01atR.",
        b"c__builtin__\nlist\n(tR.",
        b"c__builtin__\nint\n(U\x01atR.",
        b"ctorch\ndevice\n(U\x04nonetR.",
        b"ctorch\nSize\n((U\x01attR.",
        b"ctorch\nTensor\n)R.",
        b"ctorch\nTensor\n)\x81.",
        b"ctorch\nfloat4_e2m1fn_x2\n.",
        b"ctorch._utils\n_rebuild_sparse_tensor\n)R.",
        b"ctorch._utils\n_rebuild_parameter\n(NNNtR.",
        b"ctorch._tensor\n_rebuild_from_type_v2\n(NNNNtR.",
        b"ctorch._tensor\n_rebuild_from_type_v2\n(c_codecs\nencode\nctorch\nTensor\n(U\x01atNtR.",
        b"c_codecs\nencode\n(U\x01aU\x03zip" + b"tR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x04K\x01K\x02\x93.",
    ],
)
def test_nonsense_is_a_clear_error(code):
    with pytest.raises(EXPECTED):
        load_pickle(code)


def test_attributes_cannot_hide_methods():
    state = b"}" + put("backward") + b"Ns"
    args = b"(" + TENSOR + b"ctorch\nTensor\n(" + storage() + put(0) + put((4,)) + put((1,))
    args += b"\x89" + ORDERED + b"t" + state + b"t"
    with pytest.raises(pickle.UnpicklingError, match="backward"):
        load_pickle(b"ctorch._tensor\n_rebuild_from_type_v2\n" + args + b"R.", [BYTES])


class TestDepthAndSize:
    """These would overflow the stack, take forever or fill the memory."""

    N = 200_000

    def test_keys_of_nested_tuples(self):
        deep = b"}" + b")" + b"\x85" * self.N + b"Ns."
        with pytest.raises(pickle.UnpicklingError, match="key"):
            load_pickle(deep)
        doubling = b"}" + b")" + b"2\x86" * 100 + b"Ns."
        with pytest.raises(pickle.UnpicklingError, match="key"):
            load_pickle(doubling)
        with pytest.raises(pickle.UnpicklingError, match="key"):
            load_pickle(b"\x8f(" + b")" + b"\x85" * self.N + b"\x90.")
        assert load_pickle(pickle.dumps({((1, 2), "a"): 3})) == {((1, 2), "a"): 3}

    def test_nested_lists_come_and_go(self):
        value = load_pickle(b"]" * self.N + b"a" * (self.N - 1) + b".")
        assert len(value) == 1
        del value
        value = load_pickle(
            b"}" * self.N + b"" + (b"K\x01" + b"0" * 0) * 0 + b"0" * (self.N - 1) + b"."
        )
        assert value == {}
        value = load_pickle(b"N" + b"\x85" * self.N + b".")
        del value
        gc.collect()

    def test_nested_ordered_dicts(self):
        one = b"ccollections\nOrderedDict\nq\x000h\x00)R"
        value = load_pickle(one + (b"K\x01h\x00)R") * 20_000 + b"s" * 20_000 + b".")
        assert len(value) == 1
        del value
        gc.collect()

    def test_nested_defaultdicts_are_limited(self):
        one = b"ccollections\ndefaultdict\nq\x000h\x00)R"
        value = load_pickle(one + (b"K\x01h\x00)R") * 1000 + b"s" * 1000 + b".")
        del value
        with pytest.raises(pickle.UnpicklingError, match="defaultdicts"):
            load_pickle(one + (b"K\x01h\x00)R") * self.N + b"s" * self.N + b".")

    def test_tensors_that_hold_tensors_as_attributes(self):
        n = 3000
        head = b"ctorch._tensor\n_rebuild_from_type_v2\nq\x01" + TENSOR + b"q\x02"
        head += b"ctorch\nTensor\nq\x03" + storage() + b"q\x04" + ORDERED + b"q\x0500000"
        args = b"(h\x04K\x00(K\x04t(K\x01t\x89h\x05t"
        code = head + (b"h\x01(h\x02h\x03" + args + b"}" + put("next")) * n
        code += b"N" + b"stR" * n + b"."
        value = load_pickle(code, [BYTES])
        assert value.next is not None
        del value
        gc.collect()

    def test_a_memo_of_four_billion(self):
        assert load_pickle(b"K\x01r\xff\xff\xff\xffj\xff\xff\xff\xff\x86.") == (1, 1)


def local_header(name, data):
    facts = (zlib.crc32(data), len(data), len(data), len(name), 0)
    return struct.pack("<4s5H3I2H", b"PK\3\4", 20, 0, 0, 0, 0, *facts) + name


def directory_entry(name, data, start):
    facts = (zlib.crc32(data), len(data), len(data), len(name), 0, 0, 0, 0, 0, start)
    return struct.pack("<4s6H3I5H2I", b"PK\1\2", 20, 20, 0, 0, 0, 0, *facts) + name


class TestArchives:
    def good(self):
        file = io.BytesIO()
        torch.save({"a": torch.arange(1000), "b": [1, "two"]}, file)
        return file.getvalue()

    def test_every_truncation(self):
        data = self.good()
        for end in range(0, len(data), 7):
            with pytest.raises(EXPECTED):
                torch.load(io.BytesIO(data[:end]))

    def test_every_truncation_of_the_older_format(self):
        file = io.BytesIO()
        torch.save(
            {"a": torch.arange(50), "b": [1, "two"]}, file, _use_new_zipfile_serialization=False
        )
        data = file.getvalue()
        for end in range(len(data)):
            with pytest.raises(EXPECTED):
                torch.load(io.BytesIO(data[:end]))

    def test_every_flipped_byte_of_the_data_is_noticed(self):
        data = bytearray(self.good())
        with zipfile.ZipFile(io.BytesIO(bytes(data))) as source:
            info = source.getinfo("archive/data/0")
        start = data.index(torch.arange(1000).numpy().tobytes()[:64], info.header_offset)
        for at in range(start, start + 8000, 501):
            bad = bytearray(data)
            bad[at] ^= 1
            with pytest.raises(RuntimeError, match="checksum of record 'data/0'"):
                torch.load(io.BytesIO(bytes(bad)))

    def test_compressed_records(self):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as target:
            target.writestr("archive/data.pkl", tensor(numel=2**28, size=(2**28,)) + b".")
            target.writestr("archive/data/0", bytes(2**20))
        file.seek(0)
        with pytest.raises(RuntimeError, match="compressed"):
            torch.load(file)

    @pytest.mark.parametrize("names", [(b"a/data.pkl", b"a/data/00"), (b"a/data.pkl",) * 2])
    def test_records_that_overlap(self, names):
        """The second record lies inside the first."""
        data = bytes(100)
        inner = local_header(names[1], data) + data
        outer = local_header(names[0], inner) + inner
        entries = directory_entry(names[0], inner, 0)
        entries += directory_entry(names[1], data, len(outer) - len(inner))
        end = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, 2, 2, len(entries), len(outer), 0)
        with pytest.raises(RuntimeError, match=r"overlap|two records"):
            torch.load(io.BytesIO(outer + entries + end))

    def test_no_checkpoint_at_all(self):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as target:
            target.writestr("hello.txt", "x")
        file.seek(0)
        with pytest.raises(RuntimeError, match=r"data\.pkl"):
            torch.load(file)
        for data in (b"hello world", b"\x89PNG....", b"PK\3\4", b"\0" * 100, b"{}"):
            with pytest.raises(EXPECTED):
                torch.load(io.BytesIO(data))
        with pytest.raises(EOFError):
            torch.load(io.BytesIO())

    def test_scripted_programs(self):
        with pytest.raises(RuntimeError, match="TorchScript"):
            torch.load(archive(b"N.", **{"constants.pkl": b"N."}))

    def test_versions_of_the_future(self):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as target:
            target.writestr("a/data.pkl", b"N.")
            target.writestr("a/version", "99")
        file.seek(0)
        with pytest.raises(RuntimeError, match="version"):
            torch.load(file)

    def test_sizes_of_the_older_format_are_compared_with_the_file(self):
        head = b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {}))
        claim = storage(numel=2**50).replace(b"tQ", b"NtQ")
        with pytest.raises(pickle.UnpicklingError, match="claim"):
            torch.load(io.BytesIO(head + b"\x80\x02" + claim + b"."))

    def test_memory_stays_within_the_size_of_the_file(self):
        """In a process that may not have more."""
        code = f"""
import io, resource, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_serialization_hostile as hostile
import rushlight as torch
torch.load(hostile.archive(hostile.tensor() + b".", [hostile.BYTES]))
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**27, used + 2**27))
claims = [
    {{"numel": 2**40, "size": (2**40,)}}, {{"numel": 2**58}}, {{"size": (2**50,), "stride": (0,)}}
]
for facts in claims:
    try:
        t = torch.load(hostile.archive(hostile.tensor(**facts) + b".", [hostile.BYTES]))
    except hostile.EXPECTED:
        continue
    assert t.untyped_storage().nbytes() == 16
for text in (b"X", b"B", b"\\x8d", b"\\x8e", b"\\x96", b"\\x8b"):
    try:
        torch.load(hostile.archive(text + b"\\xff\\xff\\xff\\x7f\\x00\\x00\\x00\\x00."))
    except hostile.EXPECTED:
        continue
    raise SystemExit("loaded")
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def good_file():
    file = io.BytesIO()
    torch.save({"w": torch.ones(3, 4).t(), "n": [1, 2.5, "x", None], "s": {1}}, file)
    return file.getvalue()


GOOD = good_file()
PICKLE = zipfile.ZipFile(io.BytesIO(GOOD)).read("archive/data.pkl")


def load_or_refuse(data):
    with contextlib.suppress(EXPECTED):
        torch.load(io.BytesIO(data))


class TestFuzz:
    @given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
    @settings(max_examples=300, deadline=None)
    def test_one_byte_of_the_file(self, at, value):
        load_or_refuse(GOOD[:at] + bytes([value]) + GOOD[at + 1 :])

    @given(st.data())
    @settings(max_examples=300, deadline=None)
    def test_bytes_of_the_pickle_with_a_right_checksum(self, data):
        pickled = bytearray(PICKLE)
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(pickled) - 1))
            pickled[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        load_or_refuse(archive(bytes(pickled), [BYTES * 3]).getvalue())

    @given(st.lists(st.sampled_from([bytes([b]) for b in range(256)] + [
        b"ccollections\nOrderedDict\n", TENSOR, storage(), b"ctorch\nSize\n", ORDERED,
        b"ctorch.nn.parameter\nParameter\n", b"U\x01a", b"K\x02", b"\x85", b"\x86", b"\x87",
    ]), max_size=40))  # fmt: skip
    @settings(max_examples=400, deadline=None)
    def test_any_sequence_of_opcodes(self, codes):
        load_or_refuse(archive(b"".join(codes) + b".", [BYTES]).getvalue())

    @given(st.binary(max_size=200))
    @settings(max_examples=200, deadline=None)
    def test_any_bytes(self, data):
        load_or_refuse(data)
        load_or_refuse(b"PK\3\4" + data)
        load_or_refuse(archive(data).getvalue())


def test_a_name_with_an_odd_escape_is_named():
    pickled = b"\x80\x02c\\collections\nOrderedDict\n)R."
    with pytest.raises(pickle.UnpicklingError, match="OrderedDict"):
        torch.load(io.BytesIO(archive(pickled, [BYTES]).getvalue()))
