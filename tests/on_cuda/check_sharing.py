"""Memory that several libraries see."""

import pytest

import rushlight as torch


class Foreign:
    """Another library's array: the interface of a tensor, and nothing else of it."""

    def __init__(self, tensor, stream=None):
        self.tensor = tensor
        self.__cuda_array_interface__ = tensor.__cuda_array_interface__ | {"stream": stream}


def test_dlpack():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    assert x.__dlpack_device__() == (2, 0)
    y = torch.from_dlpack(x)
    assert y.device == x.device
    assert y.data_ptr() == x.data_ptr()
    y[0, 0] = 9
    assert x[0, 0].item() == 9
    turned = torch.from_dlpack(x.T)
    assert turned.stride() == (1, 3)
    del x, y
    assert turned.sum().item() == 24
    with pytest.raises(BufferError, match="detach"):
        torch.ones(2, device="cuda", requires_grad=True).__dlpack__()


def test_other_streams_follow():
    x = torch.arange(1000.0, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream())
        y = torch.from_dlpack(x * 2)
        assert y.sum().item() == 999000


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool])
def test_the_array_interface(dtype):
    x = (torch.arange(6) % 2).to("cuda", dtype).reshape(2, 3)
    for t in (x, x.T, x[:, ::2], x[0, 0], x[:0]):
        facts = t.__cuda_array_interface__
        assert facts["shape"] == tuple(t.shape)
        y = torch.as_tensor(Foreign(t, stream=1))
        assert y.dtype == dtype
        assert y.device == t.device
        assert torch.equal(y, t)
    y = torch.as_tensor(Foreign(x))
    y.fill_(1)
    assert x.all().item()


def test_what_has_none():
    assert not hasattr(torch.ones(2), "__cuda_array_interface__")
    with pytest.raises(RuntimeError, match="requires grad"):
        torch.ones(2, device="cuda", requires_grad=True).__cuda_array_interface__
    assert torch.as_tensor(torch.ones(2), device="cuda").is_cuda


def test_dlpack_for_the_host_is_a_copy_there():
    x = torch.arange(6.0, device="cuda").reshape(2, 3).t()
    for version in (None, (1, 0)):
        capsule = x.__dlpack__(dl_device=(1, 0), max_version=version)
        y = torch.from_dlpack(capsule)
        assert y.device.type == "cpu"
        assert torch.equal(y, x.cpu())
    with pytest.raises(BufferError, match="without a copy"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    assert torch.from_dlpack(x.__dlpack__(max_version=(1, 1))).data_ptr() == x.data_ptr()
