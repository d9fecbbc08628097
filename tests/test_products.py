"""Matrix products of sizes around the edges of blocks, panels and tasks, in every layout."""

import itertools

import pytest

import rushlight as torch
from rushlight.nn.functional import linear

ROWS = (1, 5, 64, 97, 130)
COLUMNS = (1, 33, 48, 65, 200)
DEPTHS = (3, 36, 101, 1024, 1501)


def matrix(rows, columns, layout):
    """Small whole numbers, so that sums are exact in any order."""
    values = torch.randint(-3, 4, (rows, columns)).float()
    if layout == "transposed":
        return values.t().contiguous().t()
    if layout == "rows apart":
        return torch.zeros(rows, columns + 7)[:, 3 : columns + 3].copy_(values)
    if layout == "columns apart":
        return torch.zeros(rows, 2 * columns)[:, ::2].copy_(values)
    return values


LAYOUTS = ["dense", "transposed", "rows apart", "columns apart"]


@pytest.mark.parametrize("b_layout", LAYOUTS)
@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_every_size(a_layout, b_layout):
    for m, n, k in itertools.product(ROWS, COLUMNS, DEPTHS):
        a, b = matrix(m, k, a_layout), matrix(k, n, b_layout)
        assert torch.equal((a @ b).double(), a.double() @ b.double()), (m, n, k)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_with_a_bias(layout):
    for m, n, k in itertools.product(ROWS, COLUMNS, DEPTHS):
        x, weight, bias = matrix(m, k, layout), matrix(n, k, "dense"), matrix(1, n, layout)[0]
        expected = x.double() @ weight.double().t() + bias.double()
        assert torch.equal(linear(x, weight, bias).double(), expected), (m, n, k)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("a_layout", LAYOUTS)
def test_halves_are_rounded_once(a_layout, dtype):
    for m, n, k in itertools.product((33, 100), (48, 200), (36, 101, 1501, 5000)):
        a, b = matrix(m, k, a_layout), matrix(n, k, "dense")
        bias = matrix(1, n, "dense")[0]
        product = a.double() @ b.double().t()
        a, b, bias = a.to(dtype), b.to(dtype), bias.to(dtype)
        assert torch.equal(a @ b.t(), product.to(dtype)), (m, n, k)
        assert torch.equal(linear(a, b, bias), (product + bias.double()).to(dtype)), (m, n, k)
        assert torch.equal(a @ b.t().contiguous(), product.to(dtype)), (m, n, k)


@pytest.mark.parametrize("b_layout", LAYOUTS)
def test_more_rows_and_columns_than_a_task(b_layout):
    for m, n, k in ((1100, 150, 40), (70, 1300, 40), (1030, 80, 1030)):
        for a_layout in LAYOUTS:
            a, b = matrix(m, k, a_layout), matrix(k, n, b_layout)
            assert torch.equal((a @ b).double(), a.double() @ b.double()), (m, n, k, a_layout)


@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_the_number_of_threads_changes_nothing(threads):
    a, b = torch.randn(300, 700), torch.randn(700, 260)
    expected = a @ b
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        assert torch.equal(a @ b, expected)
        assert torch.equal(a.t().contiguous().t() @ b, expected)
    finally:
        torch.set_num_threads(before)
