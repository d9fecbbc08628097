"""Bools whose bytes are neither 0 nor 1 read as true: memory may be shared with other dtypes."""

import array
import io

import numpy as np
import pytest

import rushlight as torch
from registry import ENTRIES, is_pointwise, path, samples_of
from samples import SAMPLES, function
from support import values
from test_ops import tensors_of, works

BYTES = [0, 2, 255, 1, 0, 128]
TRUTH = [byte != 0 for byte in BYTES]


def odd_bools():
    return torch.tensor(BYTES, dtype=torch.uint8).view(torch.bool)


def test_counting():
    t = odd_bools()
    assert t.sum().item() == 4
    assert torch.count_nonzero(t).item() == 4
    assert t.nonzero().flatten().tolist() == [1, 2, 3, 5]
    assert t.cumsum(0).tolist() == [0, 1, 2, 3, 3, 4]
    assert t.long().tolist() == [0, 1, 1, 1, 0, 1]
    assert t.float().mean().item() == pytest.approx(4 / 6)
    assert t.tolist() == TRUTH
    assert torch.bincount(t.long()).tolist() == [2, 4]


def test_choosing():
    t, x = odd_bools(), torch.arange(6.0)
    chosen = [1.0, 2.0, 3.0, 5.0]
    assert x[t].tolist() == chosen
    assert x.masked_select(t).tolist() == chosen
    assert torch.where(t, x, -1.0).tolist() == [-1, 1, 2, 3, -1, 5]
    assert x.masked_fill(t, 9.0).tolist() == [0, 9, 9, 9, 4, 9]
    assert x.masked_scatter(t, -x).tolist() == [0, 0, -1, -2, 4, -3]
    y = x.clone()
    y[t] = 7.0
    assert y.tolist() == [0, 7, 7, 7, 4, 7]


def test_logic_and_order():
    t, plain = odd_bools(), torch.tensor(TRUTH)
    assert t.equal(plain)
    assert (t == plain).all()
    assert not (t ^ plain).any()
    assert (~t).tolist() == [not v for v in TRUTH]
    assert t.unique().tolist() == [False, True]
    assert t.sort().values.tolist() == sorted(TRUTH)
    assert t.sort(stable=True).indices.tolist() == plain.sort(stable=True).indices.tolist()
    assert [t.max().item(), t.min().item(), t.all().item(), t.any().item()] == [1, 0, 0, 1]


def every_way_in():
    data = bytes(BYTES)
    stored = torch.tensor(BYTES, dtype=torch.uint8)
    file = io.BytesIO()
    torch.save(odd_bools(), file)
    file.seek(0)
    base = torch.zeros(6, dtype=torch.bool)
    base.view(torch.uint8).copy_(stored)
    return {
        "view": stored.view(torch.bool),
        "written through a view": base,
        "frombuffer": torch.frombuffer(bytearray(data), dtype=torch.bool),
        "from_numpy": torch.from_numpy(np.frombuffer(bytearray(data), np.bool_)),
        "tensor of an array": torch.tensor(np.frombuffer(data, np.bool_)),
        "from_dlpack": torch.from_dlpack(np.frombuffer(bytearray(data), np.bool_)),
        "load": torch.load(file),
        "clone": odd_bools().clone(),
        "a strided view": torch.tensor(BYTES, dtype=torch.uint8)
        .repeat_interleave(2)
        .view(torch.bool)[::2],
    }


@pytest.mark.parametrize("way", list(every_way_in()))
def test_bytes_from_anywhere_are_truths(way):
    t = every_way_in()[way]
    assert t.sum().item() == 4
    assert torch.arange(6)[t].tolist() == [1, 2, 3, 5]
    assert torch.arange(6).masked_select(t).tolist() == [1, 2, 3, 5]


def test_memory_stays_shared():
    numbers = array.array("B", BYTES)
    t = torch.frombuffer(numbers, dtype=torch.bool)
    numbers[0] = 77
    assert t.sum().item() == 5
    t[1] = True
    assert numbers[1] == 1


def odd(value):
    """The same truths in other bytes, in the same layout."""
    if isinstance(value, torch.Tensor) and value.dtype == torch.bool:
        result = value.clone()
        noise = (torch.arange(value.numel()).reshape(value.shape) * 37 % 254 + 2).to(torch.uint8)
        result.view(torch.uint8).mul_(noise)
        return result
    if isinstance(value, (list, tuple)):
        return type(value)(odd(v) for v in value)
    return value


def check_bools(f, cases):
    for sample in cases:
        expected = works(f, sample)
        if expected is None:
            continue
        found = f(*map(odd, sample.args), **{k: odd(v) for k, v in sample.kwargs.items()})
        for a, b in zip(tensors_of(found), tensors_of(expected), strict=True):
            np.testing.assert_array_equal(values(a), values(b))


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("dtype", [torch.bool, torch.float64], ids=["bool", "float64"])
def test_every_op_reads_odd_bytes_as_true(name, dtype):
    check_bools(function(name), SAMPLES[name](dtype, 5))


@pytest.mark.parametrize("entry", [e for e in ENTRIES if is_pointwise(e)], ids=path)
def test_every_pointwise_op_reads_odd_bytes_as_true(entry):
    check_bools(function(path(entry)), samples_of(entry, torch.bool, 5))
