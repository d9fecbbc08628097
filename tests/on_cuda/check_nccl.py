"""NCCL between as many processes as there are devices here: one."""

import pytest

import rushlight as torch
from rushlight.distributed import ReduceOp, _nccl

pytestmark = pytest.mark.skipif(not _nccl.is_available(), reason="NCCL is not installed")


@pytest.fixture(scope="module")
def alone():
    communicator = _nccl.Communicator(1, 0, _nccl.unique_id())
    yield communicator
    communicator.close()


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.complex64, torch.bool]
)
def test_collectives_of_one(alone, dtype):
    x = torch.arange(6, device="cuda").to(dtype)
    want = x.clone()
    if dtype != torch.bool:
        alone.all_reduce(x)
        alone.reduce(x, 0, ReduceOp.SUM)
    alone.broadcast(x, 0)
    assert torch.equal(x, want)
    out = torch.zeros_like(x)
    alone.all_gather(out, x)
    assert torch.equal(out, want)
    out.zero_()
    alone.reduce_scatter(out, x, ReduceOp.MAX if not dtype.is_complex else ReduceOp.SUM)
    assert torch.equal(out, want)
    out.zero_()
    alone.exchange(x, 0, out, 0)
    assert torch.equal(out, want)


def test_what_does_not_fit(alone):
    with pytest.raises(ValueError, match="contiguous tensors of CUDA devices"):
        alone.all_reduce(torch.ones(2))
    with pytest.raises(ValueError, match="do not fit"):
        alone.all_gather(torch.ones(3, device="cuda"), torch.ones(2, device="cuda"))


def test_versions():
    assert _nccl.version() >= (2, 10, 0)
