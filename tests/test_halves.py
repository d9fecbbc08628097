"""Matrix products of halves: summed as floats and rounded once, on every path a machine may take.

RUSHLIGHT_BF16 chooses the path of bfloat16: "amx" and "avx512_bf16" where the machine has them,
"plain" (their scheme in ordinary code) and "float" (widened) everywhere.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from support import values

SHAPES = [
    (1, 1, 1), (2, 3, 4), (8, 16, 16), (17, 33, 29), (64, 32, 64), (31, 63, 65), (100, 70, 130),
    (128, 300, 96), (7, 4200, 18), (120, 4200, 40), (33, 16, 200),
]  # fmt: skip


def made(rows, cols, dtype, layout, seed):
    """A matrix in a layout: rows, columns, every second element."""
    x = torch.tensor(np.random.default_rng(seed).standard_normal((rows, 2 * cols))).to(dtype)
    if layout == "columns":
        return x[:, :cols].T.contiguous().T
    return x[:, ::2] if layout == "strided" else x[:, :cols].contiguous()


def check_product(actual, a, b, scale=1.0, added=0.0):
    """Within half a unit in the last place of the exact result, and what summing floats costs."""
    x, y = values(a).astype(np.float64), values(b).astype(np.float64)
    exact, size = scale * (x @ y) + added, np.abs(x) @ np.abs(y) + np.abs(added)
    unit = 2.0**-8 if actual.dtype == torch.bfloat16 else 2.0**-11
    error = np.abs(values(actual) - exact)
    assert np.all(error <= 1.001 * unit * np.abs(exact) + 2e-6 * size + 6e-8)


def check_all(dtype, shapes=SHAPES):
    for i, (m, k, n) in enumerate(shapes):
        for left, right in [("rows", "rows"), ("columns", "rows"), ("rows", "columns"),
                            ("columns", "columns"), ("strided", "strided")]:  # fmt: skip
            a, b = made(m, k, dtype, left, i), made(k, n, dtype, right, i + 50)
            check_product(a @ b, a, b)
            c = made(m, n, dtype, "rows", i + 90)
            added = 0.5 * values(c).astype(np.float64)
            check_product(torch.addmm(c, a, b, beta=0.5, alpha=2.0), a, b, 2.0, added)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_products_are_rounded_once(dtype):
    check_all(dtype)


@pytest.mark.parametrize("path", ["plain", "float", "avx512_bf16", "amx"])
def test_every_path_of_bfloat16(path):
    """One that the machine lacks falls back to floats."""
    here = os.path.dirname(os.path.abspath(__file__))
    code = "import test_halves as t, rushlight; t.check_all(rushlight.bfloat16, t.SHAPES[:8])"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=here,
        env={**os.environ, "RUSHLIGHT_BF16": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_the_number_of_threads_changes_nothing(dtype):
    a, b = made(200, 300, dtype, "rows", 0), made(300, 260, dtype, "columns", 1)
    before = torch.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(values(a @ b))
    torch.set_num_threads(before)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("size", [3, 40, 130])
def test_infinities_and_nans_stay_in_their_row_and_column(dtype, size):
    a, b = made(size, size, dtype, "rows", 0), made(size, size, dtype, "rows", 1)
    a[1, 2] = float("nan")
    a[2, 0] = float("inf")
    c = values(a @ b)
    assert np.isnan(c[1]).all()
    assert not np.isfinite(c[2]).any()
    others = np.delete(np.arange(size), [1, 2])
    assert np.isfinite(c[others]).all()


def test_a_sum_larger_than_the_largest_half_is_infinite():
    a = torch.full((100, 64), 200.0, dtype=torch.float16)
    c = a @ a.T
    assert c.dtype == torch.float16
    assert bool(torch.isinf(c).all())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_batches_and_empty_sums(dtype):
    a, b = made(12 * 8, 20, dtype, "rows", 0), made(12 * 20, 9, dtype, "rows", 1)
    found = a.reshape(3, 4, 8, 20) @ b.reshape(3, 4, 20, 9)
    for i in range(12):
        one = found.reshape(12, 8, 9)[i]
        check_product(one, a[8 * i : 8 * i + 8], b[20 * i : 20 * i + 20])
    empty = torch.ones(3, 0, dtype=dtype) @ torch.ones(0, 4, dtype=dtype)
    assert empty.tolist() == [[0.0] * 4] * 3
    assert (torch.ones(0, 5, dtype=dtype) @ torch.ones(5, 4, dtype=dtype)).shape == (0, 4)


def test_the_gradient_of_a_small_norm_is_finite():
    x = torch.full((2, 2), 1e-6, dtype=torch.float16, requires_grad=True)
    torch.linalg.vector_norm(x, 2, -1).sum().backward()
    np.testing.assert_allclose(values(x.grad), 0.5**0.5, rtol=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("wrap", [float, lambda n: torch.tensor(n, dtype=torch.float64)])
def test_a_number_beside_halves_is_rounded_first(dtype, wrap):
    h = torch.tensor([0.1], dtype=dtype)
    number = wrap(0.1)
    assert (h == number).item()
    assert not (h > number).item()
    assert (h - number).item() == (h % number).item() == 0
    assert h.clone().sub_(number).item() == 0
    assert torch.sub(h, number, out=torch.empty(1, dtype=dtype)).item() == 0
    assert torch.func.vmap(lambda x: x - number)(h[None]).item() == 0
    # Products and quotients keep its digits.
    many = torch.arange(1, 200).to(dtype)
    wanted = (many.double() * 0.1).float().to(dtype)
    assert torch.equal(many * number, wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_that_only_the_wider_type_holds(dtype):
    x = torch.ones(200_000, 3, dtype=getattr(torch, dtype))
    for wide in (torch.float32, torch.float64):
        assert x.sum(dtype=wide).item() == 600_000
        assert x.sum(0, dtype=wide).tolist() == [200_000] * 3
        assert (4 * x).mean(dtype=wide).item() == 4
    third = torch.full((1000,), 1 / 3)
    exact = 1000 * third[0].item()
    assert third.sum(dtype=torch.float64).item() == pytest.approx(exact, rel=1e-13)
