"""Complex numbers and integers on the device.

Special values, operands of other dtypes, layouts, derivatives; quotients, powers and products.
"""

import itertools

import pytest

import rushlight as torch
from on_cuda.check_ops import TOLERANCE, moved
from rushlight import _C
from samples import function

INF, NAN = float("inf"), float("nan")
PARTS = {1: (-INF, -120.0, -2.5, -1.0, -0.6, -0.0, 0.0, 1e-3, 0.4, 1.0, 40.0, 1e18, INF, NAN),
         2: (-2.5, -0.0, 0.0, 1.0, INF, NAN), 3: (-1.5, 0.0, INF)}  # fmt: skip
OPS = {e["name"]: len(e["partials"]) for e in _C._registry()
       if "C64" in e.get("texts", ()) and hasattr(torch, e["name"])}  # fmt: skip
BOTH = pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])


def close(there, here, computed=None):
    """Part by part, as near as the dtype they were computed in allows.

    The sign of an infinity beside a NaN is not specified.
    """
    there = there.cpu()
    assert there.dtype == here.dtype
    if not here.is_complex():
        limit = TOLERANCE.get(computed or here.dtype, 0)
        return torch.isclose(there.double(), here.double(), limit, limit, equal_nan=True)
    limit = TOLERANCE[computed or here.dtype]
    size = here.abs().nan_to_num(0, 0).unsqueeze(-1)
    lost = (there.isnan() & here.isnan()).unsqueeze(-1)
    a, b = (torch.where(lost, p.abs(), p) for p in map(torch.view_as_real, (there, here)))
    same = (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= limit * (size + 1))
    return same.all(-1)


def grid(inputs, dtype):
    numbers = [complex(*pair) for pair in itertools.product(PARTS[inputs], repeat=2)]
    rows = list(itertools.product(numbers, repeat=inputs))
    return [torch.tensor(column, dtype=dtype) for column in zip(*rows, strict=True)]


@BOTH
@pytest.mark.parametrize("name", sorted(OPS))
def test_special_values(name, dtype):
    columns = grid(OPS[name], dtype)
    if name == "where":
        columns[0] = columns[0] == 0
    here, there = function(name)(*columns), function(name)(*moved(columns))
    wrong = torch.where(~close(there, here))[0].tolist()
    assert not wrong, [([c[i] for c in columns], there[i], here[i]) for i in wrong[:5]]


@BOTH
def test_other_dtypes(dtype):
    z = torch.randn(7, 5, dtype=dtype)
    others = [torch.randn(7, 5, dtype=d) for d in (torch.float32, torch.float64, torch.bfloat16)]
    others += [torch.arange(1, 6), torch.rand(7, 1) > 0.5, torch.randn((), dtype=torch.complex64)]
    others += [2.5, 3, True, 1.5 - 2j, z.T.contiguous().T, z[:, :1], z[::7]]
    for other in others:
        w = moved(other)
        for f in (torch.add, torch.mul, torch.eq, lambda a, b: b / a, torch.pow):
            assert close(f(z.to("cuda"), w), f(z, other)).all()
    for d in (torch.complex64, torch.complex128, torch.float32, torch.int64, torch.bool):
        out = torch.zeros(7, 5, dtype=d)
        if not d.is_complex:
            assert close(z.to("cuda").abs().to(d), z.abs().to(d)).all()
        else:
            there = torch.mul(z.to("cuda"), z.to("cuda"), out=out.to("cuda"))
            assert close(there, torch.mul(z, z, out=out), dtype).all()


@BOTH
def test_layouts(dtype):
    z = torch.randn(6, 4, 8, dtype=dtype)
    there = z.to("cuda")
    for f in (
        lambda t: t[1:, ::2].exp(),
        lambda t: t.transpose(0, 2) * t.transpose(0, 2).conj(),
        lambda t: t[..., 1:] + t[..., :-1],
        lambda t: t.reshape(-1)[3:] * t.reshape(-1)[:-3],
        lambda t: t.real * t.imag + t.abs(),
        lambda t: torch.view_as_complex(torch.view_as_real(t).clone()) - t,
        lambda t: t[:, :1] * t + t[0, 0, 0],
        lambda t: t[:0].sqrt(),
    ):
        assert close(f(there), f(z)).all()


@BOTH
def test_second_derivatives(dtype):
    def twice(z):
        z = z.detach().requires_grad_()
        value = (z.tanh() * z.conj() / (z + 3)).abs().sum()
        (first,) = torch.autograd.grad(value, z, create_graph=True)
        (second,) = torch.autograd.grad(first.abs().sum(), z)
        return first.detach(), second

    z = torch.randn(9, dtype=dtype)
    for there, here in zip(twice(z.to("cuda")), twice(z), strict=True):
        assert close(there, here).all()


@BOTH
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean"])
def test_many_into_few(dtype, reduce):
    """Many threads at one element: none may be lost."""
    z = torch.polar(torch.ones(3000, dtype=torch.float64), torch.randn(3000).double()).to(dtype)
    into, index = torch.ones(7, dtype=dtype), torch.randint(0, 7, (3000,))
    there = into.to("cuda").scatter_reduce(0, index.to("cuda"), z.to("cuda"), reduce)
    here = into.scatter_reduce(0, index, z, reduce)
    assert (there.cpu() - here).abs().max() <= 100 * TOLERANCE[dtype]


INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype):
    info = torch.iinfo(dtype)
    numbers = [info.min, info.max, 0, 1, 2, 3, 7, 100] + ([-1, -2, -7] if info.min else [])
    a, b = (torch.tensor(c, dtype=dtype)
            for c in zip(*itertools.product(numbers, repeat=2), strict=True))  # fmt: skip
    keep = b != 0
    for f in (
        lambda a, b: a[keep.to(a.device)] // b[keep.to(a.device)],
        lambda a, b: torch.div(a[keep.to(a.device)], b[keep.to(a.device)], rounding_mode="trunc"),
        lambda a, b: a[keep.to(a.device)] % b[keep.to(a.device)],
        lambda a, b: a ** b.clamp(min=0),
        lambda a, b: torch.signbit(a),
        lambda a, b: ~a,
        lambda a, b: ~(a > b),
        torch.dot,
    ):
        assert torch.equal(f(a.to("cuda"), b.to("cuda")).cpu(), f(a, b))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64])
def test_deterministic_algorithms_join_in_the_order_of_the_host(dtype):
    torch.manual_seed(0)
    index = torch.randint(-7, 7, (300,))
    src, into = torch.randn(2, 300, 5, dtype=dtype), torch.randn(2, 7, 5, dtype=dtype)
    wide = torch.randint(0, 7, (2, 300, 5))

    def joined(device):
        i, s, y, w = (t.to(device) for t in (index, src, into, wide))
        results = [
            y.index_add(1, i % 7, s),
            y.index_add(1, i % 7, s, alpha=2),
            y.scatter_add(1, w, s),
            y.scatter_add(1, w.mT.contiguous().mT[:, 10:200], s),
            y.index_put((w[0, :, 0] % 2, i), s[0], accumulate=True),
        ]
        table = y[0].clone().requires_grad_()
        looked_up = torch.nn.functional.embedding(i % 7, table)
        results += torch.autograd.grad(looked_up, table, s[0])
        if not dtype.is_complex:
            results.append(y.scatter_reduce(1, w, s, "prod"))
        return results

    torch.use_deterministic_algorithms(True)
    try:
        for here, there, again in zip(joined("cpu"), joined("cuda"), joined("cuda"), strict=True):
            assert torch.equal(there, again)
            torch.testing.assert_close(there.cpu(), here)
    finally:
        torch.use_deterministic_algorithms(False)
