"""Memory shared with NumPy, buffers and DLPack peers."""

import numpy as np
import pytest

import rushlight as torch
from support import check, leaf, randn

PAIRS = [
    (torch.float64, np.float64),
    (torch.float32, np.float32),
    (torch.float16, np.float16),
    (torch.complex64, np.complex64),
    (torch.complex128, np.complex128),
    (torch.int8, np.int8),
    (torch.int16, np.int16),
    (torch.int32, np.int32),
    (torch.int64, np.int64),
    (torch.uint8, np.uint8),
    (torch.bool, np.bool_),
]


class TestNumpy:
    @pytest.mark.parametrize(("dtype", "np_dtype"), PAIRS)
    def test_dtypes_map_both_ways(self, dtype, np_dtype):
        a = torch.ones(2, 3, dtype=dtype).numpy()
        assert a.dtype == np_dtype
        assert a.shape == (2, 3)
        assert torch.from_numpy(np.ones((2, 3), np_dtype)).dtype == dtype

    def test_numpy_shares_memory(self):
        t = torch.zeros(3)
        a = t.numpy()
        a[0] = 1
        t[1] = 2
        assert t.tolist() == a.tolist() == [1, 2, 0]

    def test_from_numpy_shares_memory(self):
        a = np.zeros(3)
        t = torch.from_numpy(a)
        a[0] = 1
        t[1] = 2
        assert t.tolist() == a.tolist() == [1, 2, 0]
        assert t.data_ptr() == a.ctypes.data

    def test_strides_and_offset_survive_both_ways(self):
        t = torch.arange(12.0).reshape(3, 4).t()[1:, ::2]
        a = t.numpy()
        assert a.strides == (4, 32)
        assert a.tolist() == t.tolist()
        back = torch.from_numpy(a)
        assert back.stride() == t.stride()
        assert back.data_ptr() == t.data_ptr()

    def test_memory_outlives_the_other_owner(self):
        a = torch.arange(1000.0).numpy()
        t = torch.from_numpy(np.arange(1000.0))
        assert a.sum() == t.sum().item() == 499500

    def test_zero_dimensions_and_empty(self):
        assert torch.tensor(2.5).numpy().shape == ()
        assert torch.from_numpy(np.zeros((0, 3))).shape == (0, 3)
        assert torch.from_numpy(np.array(1.5)).item() == 1.5

    def test_negative_strides_are_refused(self):
        with pytest.raises(ValueError, match="negative"):
            torch.from_numpy(np.arange(3)[::-1])
        assert torch.tensor(np.arange(3)[::-1].copy()).tolist() == [2, 1, 0]

    def test_unsupported_dtypes_are_refused(self):
        for bad in (np.array(["a"]), np.array([object()]), np.array(["2020"], "M8[Y]")):
            with pytest.raises(TypeError, match="can't convert"):
                torch.from_numpy(bad)
        with pytest.raises(TypeError):
            torch.from_numpy([1, 2])

    def test_read_only_arrays_warn(self):
        a = np.zeros(2)
        a.flags.writeable = False
        with pytest.warns(UserWarning, match="writable"):
            torch.from_numpy(a)

    def test_numpy_of_a_tensor_that_requires_grad_raises(self):
        x = leaf([1.0])
        with pytest.raises(
            RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"
        ):
            x.numpy()
        with pytest.raises(RuntimeError, match="requires grad"):
            np.asarray(x)
        assert x.detach().numpy().tolist() == [1.0]
        assert x.numpy(force=True).tolist() == [1.0]

    def test_without_recording_a_tensor_that_requires_grad_is_an_array(self):
        x = leaf([1.0, 2.0])
        with torch.no_grad():
            assert x.numpy().tolist() == np.asarray(x).tolist() == [1.0, 2.0]
            x.numpy()[0] = 5
        assert x.tolist() == [5.0, 2.0]

    def test_bfloat16_has_no_numpy_dtype(self):
        with pytest.raises(TypeError, match=r"(?i)bfloat16"):
            torch.zeros(1, dtype=torch.bfloat16).numpy()

    def test_array_protocol(self):
        t = torch.tensor([1.0, 2.0])
        assert np.asarray(t).tolist() == [1.0, 2.0]
        assert np.asarray(t, dtype=np.int32).dtype == np.int32
        assert np.shares_memory(np.asarray(t), t.numpy())

    def test_array_protocol_knows_the_copy_keyword(self):
        t = torch.tensor([1.0, 2.0])
        a = np.array(t)
        a[0] = 9
        assert t.tolist() == [1.0, 2.0]
        assert np.shares_memory(np.array(t, copy=False), t.numpy())

    def test_numpy_functions_read_tensors(self):
        assert np.sum(np.asarray(torch.ones(3))) == 3
        assert np.allclose(torch.ones(2), [1, 1])

    def test_numpy_scalars_are_operands(self):
        t = torch.ones(2)
        assert (t * np.float32(2)).tolist() == [2, 2]
        assert (t + np.int64(1)).tolist() == [2, 2]

    def test_numpys_functions_give_tensors(self):
        t = torch.tensor([0.0, 4.0])
        check(np.sqrt(t), torch.tensor([0.0, 2.0]))
        check(np.add(t, np.ones(2)), torch.tensor([1.0, 5.0], dtype=torch.float64))
        check(np.isfinite(t), torch.tensor([True, True]))

    @pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 1, 4)])
    def test_round_trip(self, shape):
        t = randn(*shape)
        check(torch.from_numpy(t.numpy()), t)


class TestBuffers:
    def test_frombuffer_shares_memory(self):
        data = bytearray(np.arange(4, dtype=np.int32).tobytes())
        t = torch.frombuffer(data, dtype=torch.int32)
        assert t.tolist() == [0, 1, 2, 3]
        data[0:4] = (7).to_bytes(4, "little")
        assert t[0].item() == 7
        assert torch.frombuffer(data, dtype=torch.int32, count=2, offset=4).tolist() == [1, 2]

    def test_frombuffer_checks_its_arguments(self):
        data = bytearray(8)
        for kwargs in ({"count": 3}, {"offset": 9}, {"offset": -1}, {"count": 0}):
            with pytest.raises(ValueError, match=r"offset|count|buffer|length"):
                torch.frombuffer(data, dtype=torch.int32, **kwargs)
        with pytest.raises(ValueError, match="buffer"):
            torch.frombuffer(bytearray(), dtype=torch.int32)
        with pytest.raises((TypeError, ValueError)):
            torch.frombuffer(3, dtype=torch.int32)


class TestDlpack:
    @pytest.mark.parametrize(
        "dtype", [torch.float32, torch.float64, torch.int8, torch.int64, torch.uint8]
    )
    def test_numpy_imports_without_copying(self, dtype):
        t = torch.arange(6, dtype=dtype).reshape(2, 3).t()
        a = np.from_dlpack(t)
        assert a.ctypes.data == t.data_ptr()
        assert a.tolist() == t.tolist()
        t[0, 0] = 9
        assert a[0, 0] == 9

    def test_imports_from_numpy_without_copying(self):
        a = np.arange(6.0).reshape(2, 3).T
        t = torch.from_dlpack(a)
        assert t.stride() == (1, 3)
        assert t.data_ptr() == a.ctypes.data
        t[0, 0] = 9
        a[1, 1] = 8
        assert a[0, 0] == 9
        assert t[1, 1].item() == 8

    def test_round_trip_through_its_own_capsule(self):
        t = torch.arange(4.0)
        u = torch.from_dlpack(t)
        u[0] = 7
        assert t[0].item() == 7
        assert t.__dlpack_device__() == (1, 0)

    def test_memory_outlives_the_exporter(self):
        assert np.from_dlpack(torch.arange(1000)).sum() == 499500
        assert torch.from_dlpack(np.arange(1000)).sum().item() == 499500

    def test_unused_capsules_are_freed(self):
        for _ in range(100):
            torch.ones(1000).__dlpack__()
        assert torch.ones(3).sum().item() == 3

    def test_a_tensor_that_requires_grad_is_refused(self):
        with pytest.raises(BufferError, match="require"):
            leaf([1.0]).__dlpack__()

    def test_non_exporters_are_refused(self):
        with pytest.raises((TypeError, AttributeError, RuntimeError)):
            torch.from_dlpack(3)


def test_memory_that_is_not_aligned_is_read():
    numbers = np.arange(3, dtype=np.int64)
    for dtype, torch_dtype in (("int64", torch.int64), ("float32", torch.float32)):
        data = bytearray(b"x" + numbers.astype(dtype).tobytes())
        t = torch.frombuffer(data, dtype=torch_dtype, offset=1)
        assert t.tolist() == [0, 1, 2]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (2, 0)], ids=str)
def test_arrays_without_elements(shape):
    for t in (torch.from_dlpack(np.zeros(shape)), torch.from_numpy(np.zeros(shape))):
        assert t.clone().shape == shape
        assert t.sum().item() == 0


@pytest.mark.parametrize("version", [None, (0, 8), (1, 0), (1, 3), (2, 0)])
def test_dlpack_capsules_are_of_the_version_that_the_consumer_knows(version):
    x = torch.arange(6.0).reshape(2, 3).t()
    capsule = x.__dlpack__(max_version=version)
    versioned = version is not None and version >= (1, 0)
    assert f'"{"dltensor_versioned" if versioned else "dltensor"}"' in repr(capsule)
    y = torch.from_dlpack(capsule)
    assert y.data_ptr() == x.data_ptr()
    assert torch.equal(x, y)
    with pytest.raises(RuntimeError, match="consumed only once"):
        torch.from_dlpack(capsule)


def test_dlpack_of_another_device_is_refused():
    with pytest.raises(BufferError, match="can not be shared with the device"):
        torch.ones(2).__dlpack__(dl_device=(2, 0))
    copy = torch.from_dlpack(torch.ones(2).__dlpack__(dl_device=(1, 0), copy=True))
    assert copy.tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("ignore:The PyTorch API of")
@pytest.mark.parametrize("kind", ["sparse", "nested", "masked"])
def test_tensors_that_hold_others_do_not_give_their_own_memory_away(kind):
    made = {
        "sparse": lambda: torch.eye(3).to_sparse(),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
        "masked": lambda: torch.masked.masked_tensor(torch.ones(2), torch.tensor([True, False])),
    }[kind]()
    for export in (memoryview, torch.Tensor.numpy, torch._C._to_dlpack):
        with pytest.raises(BufferError, match=r"does not export its memory.*to_dense\(\)"):
            export(made)
    for array in (np.asarray, np.array):
        with pytest.raises((TypeError, RuntimeError), match="numpy"):
            array(made)
    x = torch.ones(3, 3)
    with pytest.raises(RuntimeError, match=r"incompatible tensor type: one of them is a \w+Tensor"):
        x.data = made
    assert x.tolist() == torch.ones(3, 3).tolist()
