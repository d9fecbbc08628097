"""Norms and scaling of many gradients in one call of the core."""

import math

import pytest

import rushlight as torch
from rushlight import _C

KINDS = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64]


def tensors(dtype):
    torch.manual_seed(0)
    shapes = [(3, 4), (), (70_000,), (0, 2), (5, 6)]
    made = [torch.randn(s, dtype=torch.float32).to(dtype) for s in shapes]
    made.append(torch.randn(4, 6).to(dtype).t())  # dense, of another order
    made.append(torch.randn(8, 6).to(dtype)[::2, 1:4])  # with gaps
    return made


def one_by_one(list_of, p):
    norms = [torch.linalg.vector_norm(t, p) for t in list_of if t.numel()]
    return torch.linalg.vector_norm(torch.stack(norms), p)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("p", [2.0, 1.0, 3.0, 0.0, math.inf])
def test_norm(dtype, p):
    grads = tensors(dtype)
    total = _C._grads_norm(grads, p)
    wanted = one_by_one(grads, p)
    assert total.dtype == wanted.dtype
    assert total.shape == ()
    assert torch.allclose(
        total.double(), wanted.double(), rtol=1e-2 if dtype.itemsize == 2 else 1e-5
    )


def test_norm_of_mixed_dtypes_and_of_nothing():
    total = _C._grads_norm([torch.ones(4, dtype=torch.bfloat16), torch.ones(5)], 2.0)
    assert total.dtype is torch.float32
    assert total.item() == 3.0
    assert _C._grads_norm([], 2.0).item() == 0.0
    assert math.isnan(_C._grads_norm([torch.tensor([math.nan]), torch.ones(1)], 2.0).item())
    with pytest.raises(TypeError, match="expected tensors, got int"):
        _C._grads_norm([1], 2.0)


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("factor", [0.25, torch.tensor(0.25), torch.tensor([0.25])])
def test_scaling(dtype, factor):
    grads, wanted = tensors(dtype), tensors(dtype)
    versions = [g._version for g in grads]
    assert _C._scale_grads(grads, factor)
    assert [g._version for g in grads] == [v + 1 for v in versions]
    for g, w in zip(grads, wanted, strict=True):
        assert torch.equal(g, w * 0.25)


def test_scaling_leaves_lazy_copies_alone():
    grad = torch.ones(100)
    copy = grad.clone()
    _C._scale_grads([grad], 2.0)
    assert copy.sum().item() == 100.0
    assert grad.sum().item() == 200.0


@pytest.mark.parametrize("dtype", KINDS[:4])
@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("where", [0, 12_345, 69_999])
def test_unscaling_finds_what_is_not_finite(dtype, bad, where):
    grads = tensors(dtype)
    found = torch.zeros(())
    assert _C._unscale_grads(grads, 0.5, found) is True
    assert found.item() == 0
    grads[2][where] = bad
    assert _C._unscale_grads(grads, 0.5, found) is True
    assert found.item() == 1


def test_what_is_left_to_operations():
    """Tensors that are recorded, carry tangents or have a class of their own."""

    class Own(torch.Tensor):
        pass

    recorded = torch.ones(2, requires_grad=True) * 2
    for odd in (recorded, torch.ones(2).as_subclass(Own), torch.ones(2, dtype=torch.int64)):
        assert _C._grads_norm([odd], 2.0) is None
        assert _C._scale_grads([odd], 2.0) is False
        assert _C._unscale_grads([odd], 2.0, torch.zeros(())) is False
    with torch.no_grad():
        assert _C._grads_norm([recorded], 2.0).item() == pytest.approx(8**0.5)


def test_a_refused_write_changes_nothing():
    fine, shared = torch.ones(2), torch.ones(1).expand(3)
    with pytest.raises(RuntimeError, match="single memory location"):
        _C._scale_grads([fine, shared], 2.0)
    assert fine.tolist() == [1.0, 1.0]
