"""Unsigned integers, float8 and complex32 hold, convert and compute what PyTorch's do."""

import io
import itertools
import warnings

import numpy as np
import pytest
import torch

import rushlight

UNSIGNED = ["uint16", "uint32", "uint64"]
FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"]
STORED = [*UNSIGNED, *FLOAT8, "complex32"]
COMPUTED = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip
PAIRS = list(itertools.product(STORED, [*STORED, *COMPUTED]))
pytestmark = [
    pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning"),
    pytest.mark.filterwarnings("ignore:Casting complex values:UserWarning"),
]


def here(name):
    return getattr(rushlight, name)


def there(name):
    return getattr(torch, name)


def raw(t):
    """The bytes of a tensor of either library."""
    library = torch if isinstance(t, torch.Tensor) else rushlight
    return bytes(np.array(t.detach().contiguous().reshape(-1).view(library.uint8).numpy()))


def check(ours, theirs):
    assert str(ours.dtype) == str(theirs.dtype)
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert raw(ours) == raw(theirs)


def floats():
    """Every kind of float: a dense set, the neighbours of every rounding, the ends."""
    rng = np.random.default_rng(0)
    every = np.arange(0, 2**32, 1 << 13, dtype=np.uint64)
    near = np.arange(0, 2**32, 1 << 16, dtype=np.uint64)[:, None] + np.arange(-2, 3)
    scaled = np.exp2(rng.uniform(-40, 20, 200_000)) * rng.choice([-1, 1], 200_000)
    special = np.array([np.inf, -np.inf, np.nan, -np.nan, 0.0, -0.0], np.float32)
    parts = [every.astype(np.uint32).view(np.float32), near.astype(np.uint32).view(np.float32)]
    return np.concatenate([*(p.ravel() for p in parts), scaled.astype(np.float32), special])


@pytest.mark.parametrize("name", FLOAT8)
def test_every_float_rounds_as_in_torch(name):
    x = floats()
    check(rushlight.from_numpy(x).to(here(name)), torch.from_numpy(x).to(there(name)))


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("wide", ["float32", "float64", "float16", "bfloat16", "complex64", "bool"])
def test_every_code_converts_as_in_torch(name, wide):
    codes = np.arange(256, dtype=np.uint8)
    ours = rushlight.from_numpy(codes).view(here(name)).to(here(wide))
    theirs = torch.from_numpy(codes).view(there(name)).to(there(wide))
    if wide == "bool":
        assert ours.tolist() == theirs.tolist()
    else:
        kind = "complex128" if wide == "complex64" else "float64"
        a, b = ours.to(here(kind)).numpy(), theirs.to(there(kind)).numpy()
        np.testing.assert_array_equal(a, b)


def samples(name):
    """Numbers that every type can hold, or wraps or rounds in a defined way."""
    if name == "bool":
        return [0, 1, 1, 0]
    if name in ("uint64", "uint32", "uint16", "uint8"):
        return [0, 1, 100, 255]
    return [0, 1, 3, 100]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_conversions_both_ways(a, b):
    for first, second in ((a, b), (b, a)):
        data = samples(first)
        ours = rushlight.tensor(data).to(here(first)).to(here(second))
        theirs = torch.tensor(data).to(there(first)).to(there(second))
        check(ours, theirs)
        target, reference = rushlight.zeros(4, dtype=here(second)), theirs.new_zeros(4)
        target.copy_(rushlight.tensor(data).to(here(first)))
        reference.copy_(torch.tensor(data).to(there(first)))
        check(target, reference)


LARGE = [0, 1, 2**15, 2**16 - 1, 2**31, 2**32 - 1, 2**40 + 1, 2**63, 2**64 - 1]


@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize("other", [*COMPUTED, *STORED])
def test_large_unsigned_numbers_convert_as_in_torch(name, other):
    data = [n for n in LARGE if n <= torch.iinfo(there(name)).max]
    ours, theirs = rushlight.tensor(data, dtype=here(name)), torch.tensor(data, dtype=there(name))
    assert ours.tolist() == theirs.tolist() == data
    check(ours.to(here(other)), theirs.to(there(other)))


@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize("wide", ["float32", "float64", "int64", "int8"])
def test_what_becomes_unsigned(name, wide):
    data = [0, 1, -1, 7, 100, -100]
    ours = rushlight.tensor(data, dtype=here(wide)).to(here(name))
    check(ours, torch.tensor(data, dtype=there(wide)).to(there(name)))


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_promotion(a, b):
    for first, second in ((a, b), (b, a)):
        try:
            expected = str(torch.promote_types(there(first), there(second)))
        except RuntimeError:
            with pytest.raises(RuntimeError, match="not supported, attempted to promote"):
                rushlight.promote_types(here(first), here(second))
        else:
            assert str(rushlight.promote_types(here(first), here(second))) == expected
        assert rushlight.can_cast(here(first), here(second)) == torch.can_cast(
            there(first), there(second)
        )


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("number", [True, 1, 1.5, 1j])
def test_result_type_beside_a_number(name, number):
    ours, theirs = rushlight.zeros(2, dtype=here(name)), torch.zeros(2, dtype=there(name))
    try:
        expected = str(torch.result_type(theirs, number))
    except RuntimeError:
        with pytest.raises(RuntimeError, match="Unknown Complex ScalarType"):
            rushlight.result_type(ours, number)
    else:
        assert str(rushlight.result_type(ours, number)) == expected


@pytest.mark.parametrize("name", STORED)
def test_facts(name):
    ours, theirs = here(name), there(name)
    for fact in ("itemsize", "is_floating_point", "is_complex", "is_signed"):
        assert getattr(ours, fact) == getattr(theirs, fact)
    x, y = rushlight.zeros(2, dtype=ours), torch.zeros(2, dtype=theirs)
    for fact in ("element_size", "is_floating_point", "is_complex", "is_signed", "type"):
        assert getattr(x, fact)() == getattr(y, fact)()
    limits = "iinfo" if name in UNSIGNED else "finfo"
    a, b = getattr(rushlight, limits)(ours), getattr(torch, limits)(theirs)
    for fact in ("bits", "min", "max", "dtype"):
        assert getattr(a, fact) == getattr(b, fact), fact
    if limits == "finfo":
        assert (a.eps, a.tiny, a.resolution) == (b.eps, b.tiny, b.resolution)


def both(name, shape=(2, 3)):
    count = int(np.prod(shape))
    ours = rushlight.arange(count).reshape(shape).to(here(name))
    return ours, torch.arange(count).reshape(shape).to(there(name))


MOVES = {
    "slice": lambda L, x: x[:, 1:],
    "index": lambda L, x: x[L.tensor([1, 0, 1])],
    "mask": lambda L, x: x[L.tensor([True, False])],
    "row": lambda L, x: x[1],
    "reshape": lambda L, x: x.reshape(3, 2),
    "transpose": lambda L, x: x.t().contiguous(),
    "clone": lambda L, x: x.clone(),
    "cat": lambda L, x: L.cat([x, x], 1),
    "stack": lambda L, x: L.stack([x, x]),
    "expand": lambda L, x: x[:1].expand(4, 3).contiguous(),
    "repeat": lambda L, x: x.repeat(2, 2),
    "roll": lambda L, x: x.roll(1, 0),
    "columns": lambda L, x: x[:, L.tensor([2, 0])],
    "zeros_like": lambda L, x: L.zeros_like(x),
    "ones_like": lambda L, x: L.ones_like(x),
    "full_like": lambda L, x: L.full_like(x, 2),
    "new_full": lambda L, x: x.new_full((2,), 2),
    "fill_": lambda L, x: x.clone().fill_(2),
    "zero_": lambda L, x: x.clone().zero_(),
    "where": lambda L, x: L.where(L.tensor([True, False, True]), x, x.new_full((), 2)),
    "pad": lambda L, x: L.nn.functional.pad(x, (1, 1), value=2),
    "eq": lambda L, x: x == x[:1],
    "ne": lambda L, x: x != 1,
    "any": lambda L, x: x.any(1),
    "all": lambda L, x: x.all(),
    "isnan": lambda L, x: x.isnan(),
    "unbind": lambda L, x: x.unbind(0)[1],
    "split": lambda L, x: x.split(2, 1)[1],
    "view": lambda L, x: x.view(L.uint8),
    "diag": lambda L, x: x.diagonal(),
    "empty": lambda L, x: L.empty(0, dtype=x.dtype),
}


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("move", MOVES)
def test_moves(name, move):
    ours, theirs = both(name)
    check(MOVES[move](rushlight, ours), MOVES[move](torch, theirs))


INTEGER = {
    "mul": lambda L, x: x * x,
    "mul number": lambda L, x: x * 3,
    "mul_": lambda L, x: x.clone().mul_(3),
    "div": lambda L, x: x / 2,
    "beside a float": lambda L, x: L.ones(3) * x + x,
    "and": lambda L, x: x & 3,
    "or": lambda L, x: x | 8,
    "xor": lambda L, x: x ^ x,
    "sqrt": lambda L, x: x.sqrt(),
    "sum": lambda L, x: x.sum(),
    "sum over a dimension": lambda L, x: x.sum(1, keepdim=True),
    "sum as float": lambda L, x: x.sum(dtype=L.float64),
    "prod": lambda L, x: x.prod(0),
    "cumsum": lambda L, x: x.cumsum(1),
    "cumprod": lambda L, x: x.cumprod(1),
    "floor": lambda L, x: x.floor(),
    "ceil": lambda L, x: x.ceil(),
    "trunc": lambda L, x: x.trunc(),
    "round": lambda L, x: x.round(),
    "isfinite": lambda L, x: x.isfinite(),
    "isinf": lambda L, x: x.isinf(),
    "nan_to_num": lambda L, x: x.nan_to_num(),
    "sort": lambda L, x: x.sort(1, descending=True).values,
    "argsort": lambda L, x: x.argsort(dim=1, stable=True),
    "unique": lambda L, x: x.unique(),
    "unique_consecutive": lambda L, x: L.unique_consecutive(x),
    "mean as float": lambda L, x: x.mean(dtype=L.float32),
    "positive": lambda L, x: +x,
    "eq a large number": lambda L, x: x == L.iinfo(x.dtype).max,
}


@pytest.mark.parametrize("name", UNSIGNED)
@pytest.mark.parametrize("what", INTEGER)
def test_arithmetic_that_torch_has(name, what):
    top = torch.iinfo(there(name)).max
    data = [[0, 1, top], [top // 2 + 1, 7, top - 1]]
    ours, theirs = rushlight.tensor(data, dtype=here(name)), torch.tensor(data, dtype=there(name))
    a, b = INTEGER[what](rushlight, ours), INTEGER[what](torch, theirs)
    if b.dtype.is_floating_point:
        assert str(a.dtype) == str(b.dtype)
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)
    else:
        check(a, b)


@pytest.mark.parametrize("name", UNSIGNED)
def test_equality_of_wholes(name):
    ours, theirs = both(name)
    assert rushlight.equal(ours, ours.clone()) == torch.equal(theirs, theirs.clone())
    assert rushlight.allclose(ours, ours) == torch.allclose(theirs, theirs)
    assert rushlight.equal(ours, ours * 2) == torch.equal(theirs, theirs * 2)


@pytest.mark.parametrize("name", FLOAT8[:4])
def test_products_and_sizes_of_float8(name):
    data = [[0.5, -3.0, 7.0], [100.0, 0.01, -0.0]]
    ours, theirs = rushlight.tensor(data).to(here(name)), torch.tensor(data).to(there(name))
    check(ours * ours, theirs * theirs)
    check(ours.abs(), theirs.abs())


COMPLEX = {
    "add": lambda L, x: x + x,
    "sub": lambda L, x: x - 1,
    "mul": lambda L, x: x * 2j,
    "neg": lambda L, x: -x,
    "sgn": lambda L, x: (x * 0 + 2).sgn(),
    "abs": lambda L, x: x.abs(),
    "real": lambda L, x: x.real.clone(),
    "imag": lambda L, x: x.imag.clone(),
    "conj": lambda L, x: x.conj().resolve_conj(),
    "view_as_real": lambda L, x: L.view_as_real(x).clone(),
    "of halves": lambda L, x: L.complex(x.real.clone(), x.imag.clone()),
    "half beside a complex": lambda L, x: x.real * 1j,
    "view_as_complex": lambda L, x: L.view_as_complex(L.view_as_real(x)).clone(),
}


@pytest.mark.parametrize("what", COMPLEX)
def test_complex_halves(what):
    data = [1 + 2j, 0.5j, 3.0, 0.1 - 0.3j]
    ours = rushlight.tensor(data, dtype=rushlight.complex32)
    theirs = torch.tensor(data, dtype=torch.complex32)
    check(COMPLEX[what](rushlight, ours), COMPLEX[what](torch, theirs))


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2"])
def test_gradients_pass_the_type(name):
    grads = []
    for library in (rushlight, torch):
        x = library.tensor([1.1, 2.3, -500.0, 1e-4], requires_grad=True)
        y = x.to(getattr(library, name))
        (y.to(library.float32) * library.tensor([1.1, 1.0, 3.0, 7.7])).sum().backward()
        grads.append((x.grad.tolist(), type(y.grad_fn).__name__))
    assert grads[0] == grads[1]


@pytest.mark.parametrize("name", STORED)
@pytest.mark.parametrize("data", [[0], [1, 2, 4], [[1, 64], [2, 0.5]], 3])
def test_printed(name, data):
    if name in UNSIGNED:
        data = np.array(data).astype("int64").tolist()
    ours = rushlight.tensor(data, dtype=here(name))
    assert repr(ours) == repr(torch.tensor(data, dtype=there(name)))


@pytest.mark.parametrize("name", STORED)
def test_files_both_ways(name):
    ours, theirs = both(name)
    for value, writer, reader in ((ours, rushlight, torch), (theirs, torch, rushlight)):
        file = io.BytesIO()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            writer.save({"x": value, "part": value[1:]}, file)
            file.seek(0)
            loaded = reader.load(file)
        assert str(loaded["x"].dtype) == f"torch.{name}"
        assert raw(loaded["x"]) == raw(value)
        loaded["x"].zero_()
        assert raw(loaded["part"]) == raw(loaded["x"][1:])


@pytest.mark.parametrize("name", [*UNSIGNED, *FLOAT8[:4]])
def test_safetensors_both_ways(name):
    pytest.importorskip("safetensors")
    from safetensors import torch as theirs

    from rushlight import safetensors as ours

    x, y = both(name)
    check(ours.load(theirs.save({"x": y}))["x"], y)
    check(x, theirs.load(ours.save({"x": x}))["x"])


@pytest.mark.parametrize("name", STORED)
def test_dlpack_both_ways(name):
    ours, theirs = both(name)
    check(rushlight.from_dlpack(theirs), theirs)
    check(ours, torch.from_dlpack(ours))


@pytest.mark.parametrize("name", UNSIGNED)
def test_numpy_both_ways(name):
    array = np.array([0, 1, np.iinfo(name).max], name)
    ours = rushlight.from_numpy(array)
    check(ours, torch.from_numpy(array))
    assert ours.numpy().dtype == array.dtype
    assert rushlight.tensor(array).dtype is here(name)
    assert rushlight.asarray(array).dtype is here(name)


REFUSED = {
    "add": lambda L, x: x + x,
    "exp": lambda L, x: x.exp(),
    "sum": lambda L, x: x.sum(),
    "lt": lambda L, x: x < x,
    "matmul": lambda L, x: x[0] @ x[0],
    "mean": lambda L, x: x.mean(),
    "sort": lambda L, x: x.sort(),
    "max": lambda L, x: x.max(),
    "relu": lambda L, x: L.relu(x),
    "uniform_": lambda L, x: x.uniform_(),
    "cumsum": lambda L, x: x.cumsum(0),
    "pow": lambda L, x: x**2,
    "clamp": lambda L, x: x.clamp(0, 1),
    "cumsum into": lambda L, x: L.ones(3).cumsum(0, dtype=x.dtype),
    "index_add": lambda L, x: x.index_add(0, L.tensor([0]), x[:1]),
    "bincount": lambda L, x: L.bincount(x[0]),
}


@pytest.mark.parametrize("name", FLOAT8)
@pytest.mark.parametrize("what", REFUSED)
def test_what_torch_refuses_is_refused(name, what):
    ours, theirs = both(name)
    with pytest.raises(NotImplementedError):
        REFUSED[what](torch, theirs)
    with pytest.raises(NotImplementedError, match=r"not implemented for 'Float8_"):
        REFUSED[what](rushlight, ours)
