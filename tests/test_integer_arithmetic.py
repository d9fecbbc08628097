"""Integers wrap around, as the machine's do, and sizes that cannot be counted are refused."""

import pytest

import rushlight as torch

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def wrapped(value, dtype):
    info = torch.iinfo(dtype)
    span = info.max - info.min + 1
    return (value - info.min) % span + info.min


def extremes(dtype):
    info = torch.iinfo(dtype)
    return [info.min, info.min + 1, -1 if info.min else 1, 0, 1, 2, 7, info.max - 1, info.max]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_sums_differences_and_products(dtype):
    numbers = extremes(dtype)
    pairs = [(a, b) for a in numbers for b in numbers]
    x, y = (torch.tensor(side, dtype=dtype) for side in zip(*pairs, strict=True))
    for result, law in (
        (x + y, lambda a, b: a + b),
        (x - y, lambda a, b: a - b),
        (x * y, lambda a, b: a * b),
        (torch.add(x, y, alpha=3), lambda a, b: a + 3 * b),
        (torch.sub(x, y, alpha=3), lambda a, b: a - 3 * b),
        (torch.rsub(x, y), lambda a, b: b - a),
        (torch.addcmul(x, y, y, value=2), lambda a, b: a + 2 * b * b),
    ):
        assert result.dtype == dtype
        assert result.tolist() == [wrapped(law(a, b), dtype) for a, b in pairs]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_of_one_number(dtype):
    numbers = extremes(dtype)
    x = torch.tensor(numbers, dtype=dtype)
    assert (-x).tolist() == [wrapped(-n, dtype) for n in numbers]
    assert x.abs().tolist() == [wrapped(abs(n), dtype) for n in numbers]
    assert x.square().tolist() == [wrapped(n * n, dtype) for n in numbers]
    assert (x**3).tolist() == [wrapped(n**3, dtype) for n in numbers]


def test_a_negative_factor():
    x = torch.tensor([1, 2], dtype=torch.int32)
    assert torch.add(x, x, alpha=-3).tolist() == [-2, -4]
    assert torch.addcmul(x, x, x, value=-1).tolist() == [0, -2]


def test_reductions_and_scans():
    top = 2**63 - 1
    x = torch.tensor([top, top, 3])
    assert x.sum().item() == wrapped(2 * top + 3, torch.int64)
    assert x.prod().item() == wrapped(top * top * 3, torch.int64)
    assert x.cumsum(0).tolist() == [top, -2, 1]
    assert x.cumprod(0).tolist() == [
        wrapped(top**k * t, torch.int64) for k, t in ((1, 1), (2, 1), (2, 3))
    ]
    assert (x @ x).item() == wrapped(2 * top * top + 9, torch.int64)
    assert torch.zeros(1, dtype=torch.int64).index_add(0, torch.tensor([0, 0, 0]), x).item() == 1
    assert torch.diff(torch.tensor([-top, top])).item() == wrapped(2 * top, torch.int64)


def test_more_elements_than_can_be_counted():
    one = torch.ones(())
    for make in (
        lambda: one.expand(2**33, 2**33),
        lambda: one.expand(2**31, 2**31, 2),
        lambda: torch.empty(2**33, 2**33),
        lambda: one.as_strided((2**33, 2**33), (0, 0)),
        lambda: one.expand(2**62).unsqueeze(1).expand(2**62, 4),
        lambda: torch.view_as_real(torch.ones((), dtype=torch.complex64).expand(2**62)),
        lambda: torch.broadcast_to(one, (2**33, 2**33)),
    ):
        with pytest.raises(RuntimeError, match="overflow"):
            make()
    assert one.expand(2**31, 2**31).numel() == 2**62


def test_no_elements_beside_dimensions_of_any_size():
    t = torch.empty(0, 2**40, 2**40)
    assert t.numel() == 0
    assert t.is_contiguous()
    assert t.sum().item() == 0
    assert torch.ones(()).expand(2**33, 0, 2**33).numel() == 0


def test_bools_are_added_with_a_factor():
    a = torch.tensor([True, False, False])
    assert torch.add(a, ~a, alpha=2).tolist() == [True, True, True]
    assert torch.add(a, ~a, alpha=0).tolist() == [True, False, False]
    assert a.clone().add_(~a, alpha=2).tolist() == [True, True, True]
