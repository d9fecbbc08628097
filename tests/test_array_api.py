"""The Python array API standard, 2024.12: its names and signatures, and what its functions give."""

import inspect

import numpy as np
import pytest

import rushlight as torch
from support import check

xp = torch.ones(1).__array_namespace__()

SIGNATURES = """
abs(x, /) acos(x, /) acosh(x, /) asin(x, /) asinh(x, /) atan(x, /) atanh(x, /) bitwise_invert(x, /)
ceil(x, /) conj(x, /) cos(x, /) cosh(x, /) exp(x, /) expm1(x, /) floor(x, /) imag(x, /)
isfinite(x, /) isinf(x, /) isnan(x, /) log(x, /) log10(x, /) log1p(x, /) log2(x, /)
logical_not(x, /) negative(x, /) positive(x, /) real(x, /) reciprocal(x, /) round(x, /) sign(x, /)
signbit(x, /) sin(x, /) sinh(x, /) sqrt(x, /) square(x, /) tan(x, /) tanh(x, /) trunc(x, /)
add(x1, x2, /) atan2(x1, x2, /) bitwise_and(x1, x2, /) bitwise_left_shift(x1, x2, /)
bitwise_or(x1, x2, /) bitwise_right_shift(x1, x2, /) bitwise_xor(x1, x2, /) copysign(x1, x2, /)
divide(x1, x2, /) equal(x1, x2, /) floor_divide(x1, x2, /) greater(x1, x2, /)
greater_equal(x1, x2, /) hypot(x1, x2, /) less(x1, x2, /) less_equal(x1, x2, /)
logaddexp(x1, x2, /) logical_and(x1, x2, /) logical_or(x1, x2, /) logical_xor(x1, x2, /)
maximum(x1, x2, /) minimum(x1, x2, /) multiply(x1, x2, /) nextafter(x1, x2, /)
not_equal(x1, x2, /) pow(x1, x2, /) remainder(x1, x2, /) subtract(x1, x2, /)
clip(x, /, min=None, max=None)
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None) empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing='xy')
ones(shape, *, dtype=None, device=None) ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0) triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None) zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None) can_cast(from_, to, /) finfo(type, /) iinfo(type, /)
isdtype(dtype, kind) result_type(*arrays_and_dtypes)
broadcast_arrays(*arrays) broadcast_to(x, /, shape) concat(arrays, /, *, axis=0)
expand_dims(x, /, axis=0) flip(x, /, *, axis=None) moveaxis(x, source, destination, /)
permute_dims(x, /, axes) repeat(x, repeats, /, *, axis=None) reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None) squeeze(x, /, axis) stack(arrays, /, *, axis=0)
tile(x, repetitions, /) unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False) argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False) nonzero(x, /)
searchsorted(x1, x2, /, *, side='left', sorter=None) where(condition, x1, x2, /)
take(x, indices, /, *, axis=None) take_along_axis(x, indices, /, *, axis=-1)
unique_all(x, /) unique_counts(x, /) unique_inverse(x, /) unique_values(x, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False) mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False) prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False) any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
matmul(x1, x2, /) matrix_transpose(x, /) tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
linalg.cholesky(x, /, *, upper=False) linalg.cross(x1, x2, /, *, axis=-1) linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0) linalg.eigh(x, /) linalg.eigvalsh(x, /) linalg.inv(x, /)
linalg.matmul(x1, x2, /) linalg.matrix_norm(x, /, *, keepdims=False, ord='fro')
linalg.matrix_power(x, n, /) linalg.matrix_rank(x, /, *, rtol=None) linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /) linalg.pinv(x, /, *, rtol=None) linalg.qr(x, /, *, mode='reduced')
linalg.slogdet(x, /) linalg.solve(x1, x2, /) linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /) linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None) linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
fft.fft(x, /, *, n=None, axis=-1, norm='backward')
fft.ifft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftn(x, /, *, s=None, axes=None, norm='backward')
fft.ifftn(x, /, *, s=None, axes=None, norm='backward')
fft.rfft(x, /, *, n=None, axis=-1, norm='backward')
fft.irfft(x, /, *, n=None, axis=-1, norm='backward')
fft.rfftn(x, /, *, s=None, axes=None, norm='backward')
fft.irfftn(x, /, *, s=None, axes=None, norm='backward')
fft.hfft(x, /, *, n=None, axis=-1, norm='backward')
fft.ihfft(x, /, *, n=None, axis=-1, norm='backward')
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None) fft.ifftshift(x, /, *, axes=None)
"""
DECLARED = [part + ")" for part in " ".join(SIGNATURES.split()).split(") ") if part]
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "float32", "float64", "complex64",
    "complex128",
)  # fmt: skip
RANDOM = np.random.default_rng(0)


def found(name, namespace=xp):
    for part in name.split("."):
        namespace = getattr(namespace, part)
    return namespace


@pytest.mark.parametrize("text", DECLARED, ids=lambda t: t.partition("(")[0])
def test_signatures_are_the_standards(text):
    name, _, parameters = text.rstrip(")").partition("(")
    scope = {}
    exec(f"def declared({parameters}): pass", scope)
    given = inspect.signature(found(name)).parameters.values()
    expected = inspect.signature(scope["declared"]).parameters.values()
    assert [(p.name, p.kind, p.default) for p in given] == [
        (p.name, p.kind, p.default) for p in expected
    ]


def test_constants_and_dtypes():
    assert (xp.e, xp.pi, xp.inf, xp.newaxis) == (np.e, np.pi, np.inf, None)
    assert xp.nan != xp.nan
    assert xp.__array_api_version__ == "2024.12"
    assert all(str(getattr(xp, d)) == f"torch.{d}" for d in DTYPES)


def test_what_the_namespace_says_of_itself():
    info = xp.__array_namespace_info__()
    assert info.capabilities()["boolean indexing"]
    assert info.default_dtypes()["real floating"] is xp.float32
    assert set(info.dtypes()) == set(DTYPES)
    assert list(info.dtypes(kind=("bool", "unsigned integer"))) == ["bool", "uint8"]
    assert info.default_device() in info.devices()
    with pytest.raises(ValueError, match="kind must be one of"):
        info.dtypes(kind="float")


def test_versions():
    assert torch.ones(1).__array_namespace__(api_version="2022.12") is xp
    with pytest.raises(ValueError, match=r"2099\.12"):
        torch.ones(1).__array_namespace__(api_version="2099.12")


def array(dtype, *shape):
    if dtype == "bool":
        return RANDOM.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return RANDOM.integers(1, 5, shape).astype(dtype)
    real = RANDOM.uniform(0.1, 0.9, shape)
    return (real + (1j * RANDOM.uniform(0.1, 0.9, shape) if "complex" in dtype else 0)).astype(
        dtype
    )


def equal(actual, expected):
    """Values, shapes and dtypes; uint64 is int64, as there is none."""
    if isinstance(expected, (tuple, list)):
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            equal(a, b)
        return
    expected = np.asarray(expected)
    if expected.dtype == np.uint64:
        expected = expected.astype(np.int64)
    actual = np.asarray(actual.resolve_conj())
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "fc":
        tolerance = 1e-5 if expected.dtype.itemsize <= 8 and expected.dtype != "float64" else 1e-12
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(actual, expected)


def both(function, namespace, *args, **kwargs):
    """(Ours, NumPy's) of arrays; NumPy's functions have the standard's names."""
    given = [torch.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in args]
    return found(function)(*given, **kwargs), found(function, namespace)(*args, **kwargs)


NUMERIC = DTYPES[1:]
INTEGRAL = DTYPES[:6]
REAL = DTYPES[1:8]
FLOATING = DTYPES[6:]
REAL_FLOATING = DTYPES[6:8]
UNARY = {
    NUMERIC: "abs negative positive square sign conj real imag isfinite isinf isnan",
    REAL: "ceil floor trunc round",
    FLOATING: "acos acosh asin asinh atan atanh cos cosh exp expm1 log log10 log1p log2 sin sinh "
    "sqrt tan tanh reciprocal",
    INTEGRAL: "bitwise_invert",
    ("bool",): "logical_not",
    REAL_FLOATING: "signbit",
}
BINARY = {
    NUMERIC: "add subtract multiply equal not_equal",
    REAL: "greater greater_equal less less_equal maximum minimum floor_divide remainder pow",
    REAL_FLOATING: "atan2 copysign hypot logaddexp nextafter",
    FLOATING: "divide",
    INTEGRAL: "bitwise_and bitwise_or bitwise_xor",
    INTEGRAL[1:]: "bitwise_left_shift bitwise_right_shift",
    ("bool",): "logical_and logical_or logical_xor",
}


def with_types(table):
    return [(name, dtypes) for dtypes, names in table.items() for name in names.split()]


def kind(dtype):
    return "u" if dtype == "uint8" else np.dtype(dtype).kind


@pytest.mark.parametrize(("name", "dtypes"), with_types(UNARY))
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_functions_of_an_element(name, dtypes):
    for dtype in dtypes:
        for shape in ((2, 3), (), (0, 2)):
            equal(*both(name, np, np.asarray(array(dtype, *shape))))
    with pytest.raises(TypeError):
        found(name)(1.5)


@pytest.mark.parametrize(("name", "dtypes"), with_types(BINARY))
def test_functions_of_two_elements(name, dtypes):
    for first in dtypes:
        for second in dtypes:
            if kind(first) != kind(second) and not {kind(first), kind(second)} <= {"i", "u"}:
                continue  # kinds are mixed as tensors mix them
            a, b = array(first, 2, 3), np.asarray(array(second, 3))
            equal(*both(name, np, a, b))
            equal(*both(name, np, a, np.asarray(b[0])))  # what has no dimensions counts, too
            equal(*both(name, np, np.asarray(b[0]), a))
        number = {"b": True, "i": 2, "u": 2, "f": 2.0, "c": 2.0}[kind(first)]
        equal(*both(name, np, array(first, 3), number))


@pytest.mark.parametrize("name", ["all", "any", "max", "mean", "min", "prod", "std", "sum", "var",
                                  "count_nonzero"])  # fmt: skip
@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), (0, 1, 2), ()])
def test_reductions(name, axis):
    dtypes = {"max": REAL, "min": REAL, "mean": FLOATING, "std": FLOATING, "var": FLOATING}
    for dtype in dtypes.get(name, NUMERIC):
        for keepdims in (False, True):
            equal(*both(name, np, array(dtype, 2, 3, 4), axis=axis, keepdims=keepdims))


def test_reductions_of_nothing_and_with_dtypes():
    equal(xp.sum(xp.zeros((0, 2)), axis=0), np.zeros(2, np.float32))
    equal(xp.prod(xp.zeros((0,))), np.float32(1))
    equal(xp.sum(xp.ones(3, dtype=xp.int8), dtype=xp.float64), np.float64(3))
    equal(xp.var(xp.asarray([1.0, 2.0]), correction=1), np.float32(0.5))
    with pytest.raises(IndexError, match="axis 2"):
        xp.sum(xp.ones(3), axis=2)


A = array("float64", 2, 3, 4)
VALUES = [
    ("argmax", (A,), {}), ("argmax", (A,), {"axis": 1, "keepdims": True}),
    ("argmin", (A,), {"keepdims": True}), ("argmin", (A,), {"axis": -1}),
    ("broadcast_to", (A, (5, 2, 3, 4)), {}), ("concat", ([A, A],), {"axis": None}),
    ("cumulative_prod", (A,), {"axis": 1, "include_initial": True}),
    ("cumulative_sum", (A,), {"axis": -1}), ("cumulative_sum", (A[0, 0],), {}),
    ("cumulative_sum", (array("int8", 3),), {}),
    ("diff", (A,), {}), ("diff", (A,), {"axis": 1, "n": 2}),
    ("expand_dims", (A,), {"axis": -1}), ("expand_dims", (A, 1), {}), ("flip", (A,), {}),
    ("flip", (A,), {"axis": (0, 2)}), ("matrix_transpose", (A,), {}),
    ("moveaxis", (A, 0, -1), {}), ("moveaxis", (A, (0, 1), (2, 0)), {}),
    ("nonzero", (A > 0.5,), {}),
    ("permute_dims", (A, (2, 0, 1)), {}), ("repeat", (A, 2), {}), ("repeat", (A, 3), {"axis": 1}),
    ("reshape", (A, (6, -1)), {}), ("reshape", (A, (24,)), {"copy": True}), ("roll", (A, 5), {}),
    ("roll", (A, 1), {"axis": (0, 1)}), ("roll", (A, (1, 2)), {"axis": (0, 2)}),
    ("sort", (A,), {}), ("sort", (A,), {"axis": 0}), ("argsort", (A,), {"axis": 1}),
    ("squeeze", (A[:1], 0), {}), ("tile", (A, (2, 1, 2, 1)), {}),
    ("take", (A, np.array([1, -1])), {"axis": 1}),
    ("take_along_axis", (A, np.array([[[0, -1]]])), {"axis": 2}),
    ("tril", (A,), {"k": 1}), ("triu", (A,), {"k": -1}), ("unstack", (A,), {"axis": 1}),
    ("unique_all", (array("int16", 9),), {}), ("unique_counts", (array("bool", 5),), {}),
    ("unique_inverse", (array("float32", 2, 2),), {}), ("unique_values", (A,), {}),
    ("unique_values", (np.array([2 + 1j, 1j, 2 + 1j]),), {}), ("where", (A > 0.5, A, 0.0), {}),
    ("clip", (A, 0.3, 0.6), {}), ("clip", (A,), {"min": 0.3}),
    ("clip", (array("int8", 4),), {"max": 2}),
    ("searchsorted", (np.array([1.0, 2.0, 4.0]), np.array([[0.5, 2.0], [4.0, 9.0]])), {}),
    ("searchsorted", (np.array([1.0, 2.0]), np.array([2.0])), {"side": "right"}),
    ("searchsorted", (np.array([2.0, 1.0]), np.array([1.5])), {"sorter": np.array([1, 0])}),
    ("tensordot", (A, A), {"axes": ((0, 1), (0, 1))}), ("matmul", (A, A[0].T.copy()), {}),
    ("vecdot", (A + 1j, A[0]), {}), ("vecdot", (A, A), {"axis": -2}),
    ("arange", (5,), {}), ("arange", (5, 1), {}), ("arange", (5, 1, -2), {}),
    ("full_like", (A, 3), {}), ("zeros_like", (A,), {}), ("ones_like", (A,), {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), VALUES)
def test_values(name, args, kwargs):
    def ours(value):
        if isinstance(value, np.ndarray):
            return torch.from_numpy(value.copy())
        return [ours(v) for v in value] if isinstance(value, list) else value

    actual = found(name)(*map(ours, args), **{k: ours(v) for k, v in kwargs.items()})
    equal(actual, found(name, np)(*args, **kwargs))


S = array("complex128", 2, 3, 3)
H = S @ S.conj().swapaxes(1, 2) + np.eye(3)
LINALG = [
    ("cholesky", (H,), {}), ("cholesky", (H,), {"upper": True}),
    ("cross", (A[:, :, :3], S.real), {}),
    ("det", (S,), {}), ("diagonal", (A,), {"offset": 1}), ("eigvalsh", (H,), {}), ("inv", (S,), {}),
    ("matrix_norm", (A,), {}), ("matrix_norm", (A,), {"ord": "nuc", "keepdims": True}),
    ("matrix_norm", (A,), {"ord": -2}), ("matrix_power", (S, -2), {}), ("matrix_rank", (A,), {}),
    ("outer", (A[0, 0], A[1, 1]), {}), ("pinv", (A,), {"rtol": 0.2}), ("slogdet", (S,), {}),
    ("solve", (S, S.conj()), {}), ("solve", (S, S[0]), {}), ("solve", (S, S[0, 0]), {}),
    ("svdvals", (A,), {}), ("trace", (A,), {"offset": -1}), ("trace", (array("int8", 2, 2),), {}),
    ("vector_norm", (A,), {}), ("vector_norm", (A,), {"axis": (0, 2), "ord": 3, "keepdims": True}),
    ("vector_norm", (A,), {"axis": 1, "ord": np.inf}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "kwargs"), LINALG)
def test_linear_algebra(name, args, kwargs):
    equal(*both(f"linalg.{name}", np, *args, **kwargs))


def test_factors():
    a = torch.from_numpy(S.copy())
    values, vectors = xp.linalg.eigh(torch.from_numpy(H))
    check(vectors @ (values.unsqueeze(-1) * vectors.mH), torch.from_numpy(H))
    u, s, vh = xp.linalg.svd(a, full_matrices=False)
    check(u * s.unsqueeze(-2) @ vh, a)
    q, r = xp.linalg.qr(a, mode="complete")
    check(q @ r, a)
    assert xp.linalg.svd(torch.ones(2, 3)).Vh.shape == (3, 3)


FFT = [(n, k) for n in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
       for k in ({}, {"n": 5}, {"axis": 0, "norm": "ortho"})]  # fmt: skip
FFT += [(n, k) for n in ("fftn", "ifftn", "rfftn", "irfftn")
        for k in ({}, {"axes": (0, 2)}, {"s": (2, 5), "axes": (1, 2)})]  # fmt: skip
FFT += [("fftshift", {"axes": 1}), ("fftshift", {}), ("ifftshift", {"axes": (0, 2)})]


@pytest.mark.parametrize(("name", "kwargs"), FFT)
def test_fourier_transforms(name, kwargs):
    real = name in ("rfft", "ihfft", "rfftn")
    equal(*both(f"fft.{name}", np, A if real else A + 0.5j, **kwargs))


def test_frequencies():
    equal(xp.fft.fftfreq(5, d=0.5, dtype=xp.float64), np.fft.fftfreq(5, 0.5))
    equal(xp.fft.rfftfreq(4, dtype=xp.float64), np.fft.rfftfreq(4))


def test_creation():
    equal(xp.eye(3, 4, k=1, dtype=xp.int8), np.eye(3, 4, k=1, dtype=np.int8))
    equal(xp.eye(2, k=-5), np.zeros((2, 2), np.float32))
    equal(xp.linspace(0, 1, 4, endpoint=False), np.linspace(0, 1, 4, False, dtype=np.float32))
    equal(xp.linspace(0, 3j, 4, dtype=xp.complex128), np.linspace(0, 3j, 4))
    equal(xp.full(2, True), np.array([True, True]))
    assert [xp.full((), v).dtype for v in (1, 1.0, 1j)] == [xp.int64, xp.float32, xp.complex64]
    assert xp.empty((2, 3), dtype=xp.int16).shape == (2, 3)
    grids = xp.meshgrid(xp.arange(2), xp.arange(3)), np.meshgrid(np.arange(2), np.arange(3))
    equal(*grids)
    assert type(grids[0]) is type(xp.broadcast_arrays(xp.ones(1))) is list


def test_asarray_and_from_dlpack_share_memory():
    a = np.zeros(3)
    for t in (xp.asarray(a), xp.from_dlpack(a), xp.asarray(torch.from_numpy(a), copy=False)):
        t[0] += 1
    assert a[0] == 3
    xp.asarray(a, copy=True)[0] = 9
    assert a[0] == 3
    with pytest.raises(ValueError, match="no memory to share"):
        xp.asarray([1, 2], copy=False)


def test_dtypes_as_values():
    assert xp.result_type(xp.int8, xp.ones(1, dtype=xp.int16), 3) is xp.int16
    assert xp.result_type(xp.float32, 2.0) is xp.float32
    assert xp.result_type(xp.float64, 1j) is xp.complex128
    assert xp.can_cast(xp.float32, xp.float64)
    assert not xp.can_cast(xp.ones(1, dtype=xp.float64), xp.float32)
    assert (xp.finfo(xp.complex64).bits, xp.finfo(xp.ones(1)).dtype) == (32, xp.float32)
    assert (xp.iinfo(xp.uint8).max, xp.iinfo(xp.int16).min) == (255, -(2**15))
    assert xp.isdtype(xp.int8, "signed integer")
    assert not xp.isdtype(xp.int8, ("bool", "complex floating"))
    x = xp.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.float32) is not x
    with pytest.raises(TypeError, match="real part"):
        xp.astype(x * 1j, xp.float32)
    with pytest.raises(ValueError, match="at least one array"):
        xp.result_type(1, 2)


def test_what_is_refused():
    x = xp.ones((2, 3))
    for call in (
        lambda: xp.squeeze(x, 0),
        lambda: xp.take(x, xp.asarray([0])),
        lambda: xp.cumulative_sum(x),
        lambda: xp.matrix_transpose(xp.ones(2)),
        lambda: xp.nonzero(xp.asarray(1.0)),
        lambda: xp.vecdot(x, x, axis=0),
        lambda: xp.flip(x, axis=(0, 0)),
        lambda: xp.matmul(x, xp.asarray(1.0)),
    ):
        with pytest.raises(ValueError):
            call()
    for call in (lambda: xp.flip(x, axis=2), lambda: xp.expand_dims(x, axis=4)):
        with pytest.raises(IndexError, match="out of range"):
            call()
    with pytest.raises(TypeError, match="at least one array"):
        xp.add(1, 2)


def test_members_of_tensors():
    x = torch.ones(2, 3)
    assert x.to_device("cpu", stream=None).device == torch.device("cpu")
    assert x.mT.shape == (3, 2)
    assert (x.ndim, x.dtype, tuple(x.shape)) == (2, xp.float32, (2, 3))


def test_gradients_flow():
    x = torch.tensor([[3.0, 1.0], [2.0, 4.0]], dtype=torch.float64, requires_grad=True)

    def program(x):
        y = xp.concat([xp.sort(x, axis=0), xp.take(x, xp.asarray([1, 0]), axis=1)], axis=1)
        z = xp.sum(xp.clip(y, max=3.5) * 2.0, axis=(0, 1)) + xp.linalg.det(x)
        spectrum = xp.abs(xp.fft.rfft(xp.cumulative_sum(x, axis=1, include_initial=True)))
        return z + xp.mean(spectrum) + xp.std(x, correction=1) + xp.prod(x, axis=(0, 1))

    assert torch.autograd.gradcheck(program, (x,))
    assert torch.autograd.gradgradcheck(program, (x,))
