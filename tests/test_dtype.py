"""dtypes: what results have, what conversions do, what each dtype says of itself."""

import itertools

import numpy as np
import pytest

import rushlight as torch
from support import leaf, values

# Each category in the order of promotion; a mixed pair takes the higher category's dtype.
UNSIGNED = [torch.uint8]
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
INTEGRAL = UNSIGNED + SIGNED
FLOATING = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
COMPLEX = [torch.complex64, torch.complex128]
ALL = [torch.bool, *INTEGRAL, *FLOATING, *COMPLEX]

# Facts that the rules below would not give, written out.
FACTS = {
    (torch.uint8, torch.int8): torch.int16,
    (torch.uint8, torch.int16): torch.int16,
    (torch.uint8, torch.int64): torch.int64,
    (torch.float16, torch.bfloat16): torch.float32,
    (torch.float16, torch.float32): torch.float32,
    (torch.bfloat16, torch.float64): torch.float64,
    (torch.float64, torch.complex64): torch.complex128,
    (torch.float32, torch.complex64): torch.complex64,
    (torch.float16, torch.complex64): torch.complex64,
    (torch.int64, torch.float16): torch.float16,
    (torch.int64, torch.complex64): torch.complex64,
    (torch.bool, torch.uint8): torch.uint8,
    (torch.bool, torch.bfloat16): torch.bfloat16,
    (torch.complex64, torch.complex128): torch.complex128,
}
ALIASES = {
    "half": torch.float16,
    "float": torch.float32,
    "double": torch.float64,
    "bfloat16": torch.bfloat16,
    "char": torch.int8,
    "short": torch.int16,
    "int": torch.int32,
    "long": torch.int64,
    "byte": torch.uint8,
    "bool": torch.bool,
    "cfloat": torch.complex64,
    "cdouble": torch.complex128,
}


def category(dtype):
    if dtype == torch.bool:
        return 0
    return 1 if dtype in INTEGRAL else 2 if dtype in FLOATING else 3


def promoted(a, b):
    """The dtype of an operation between two tensors of one or more dimensions."""
    if a == b:
        return a
    if (a, b) in FACTS or (b, a) in FACTS:
        return FACTS.get((a, b)) or FACTS[b, a]
    low, high = sorted((a, b), key=category)
    if category(low) != category(high):
        wide = high == torch.complex128 or (category(high) == 3 and low == torch.float64)
        return torch.complex128 if wide else high
    return max(a, b, key=ALL.index)


class TestPromotion:
    @pytest.mark.parametrize(("a", "b"), list(itertools.product(ALL, ALL)))
    def test_two_dtypes(self, a, b):
        x, y = torch.ones(2, dtype=a), torch.ones(2, dtype=b)
        expected = promoted(a, b)
        assert torch.promote_types(a, b) == expected
        assert torch.result_type(x, y) == expected
        assert (x + y).dtype == expected
        assert (x * y).dtype == expected

    @pytest.mark.parametrize(("a", "b"), list(itertools.product(ALL, ALL)))
    def test_a_zero_dimensional_tensor_only_lifts_the_category(self, a, b):
        many, single = torch.ones(2, dtype=a), torch.ones((), dtype=b)
        if a == torch.float16 and b.is_complex:
            return  # a half-precision complex dtype is not part of the table
        expected = promoted(a, b) if category(b) > category(a) else a
        if a in FLOATING and b.is_complex:
            expected = torch.complex128 if a == torch.float64 else torch.complex64
        assert (many * single).dtype == expected
        assert (single * many).dtype == expected

    @pytest.mark.parametrize("a", ALL)
    @pytest.mark.parametrize("scalar", [True, 2, 2.5, 2j], ids=repr)
    def test_a_python_scalar_lifts_to_the_default_of_its_category(self, a, scalar):
        kind = {bool: 0, int: 1, float: 2, complex: 3}[type(scalar)]
        expected = a
        if kind > category(a):
            expected = [None, torch.int64, torch.float32, torch.complex64][kind]
            if kind == 3 and category(a) == 2:
                expected = torch.complex128 if a == torch.float64 else torch.complex64
        if (a, kind) == (torch.float16, 3):
            return  # a half-precision complex dtype is not part of the table
        t = torch.ones(2, dtype=a)
        assert (t * scalar).dtype == expected
        assert (scalar * t).dtype == expected
        assert (torch.ones((), dtype=a) * scalar).dtype == expected

    @pytest.mark.parametrize("a", [torch.bool, *INTEGRAL])
    def test_true_division_and_functions_of_integers_give_the_default_float(self, a):
        t = torch.ones(2, dtype=a)
        for result in (t / t, t / 2, torch.sin(t), torch.exp(t), torch.sqrt(t), t.sigmoid()):
            assert result.dtype == torch.float32

    @pytest.mark.parametrize("a", ALL)
    def test_comparisons_are_bool_whatever_the_operands(self, a):
        t = torch.ones(2, dtype=a)
        assert (t == t).dtype == (t != 1).dtype == torch.bool

    @pytest.mark.parametrize("a", ALL)
    def test_sums_of_small_integers_widen(self, a):
        expected = torch.int64 if category(a) < 2 else a
        t = torch.ones(2, dtype=a)
        assert t.sum().dtype == t.cumsum(0).dtype == t.prod().dtype == expected
        assert t.sum(dtype=torch.complex128).dtype == torch.complex128

    def test_mean_of_integers_raises(self):
        with pytest.raises(RuntimeError, match="floating point or complex"):
            torch.ones(2, dtype=torch.int64).mean()

    def test_where_and_cat_promote(self):
        x, y = torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.float64)
        assert torch.where(x > 0, x, y).dtype == torch.float64
        assert torch.cat([x, y]).dtype == torch.float64
        assert torch.stack([x, y]).dtype == torch.float64

    def test_matmul_does_not_promote(self):
        with pytest.raises(RuntimeError, match="same dtype"):
            torch.ones(2, 2) @ torch.ones(2, 2, dtype=torch.float64)

    def test_can_cast(self):
        assert torch.can_cast(torch.int32, torch.float16)
        assert torch.can_cast(torch.float64, torch.float32)
        assert not torch.can_cast(torch.float32, torch.int64)
        assert not torch.can_cast(torch.complex64, torch.float32)
        assert not torch.can_cast(torch.int8, torch.bool)

    def test_in_place_keeps_the_dtype(self):
        t = torch.ones(2, dtype=torch.float16)
        t += torch.ones(2, dtype=torch.float64)
        assert t.dtype == torch.float16
        assert t.tolist() == [2, 2]


class TestConversion:
    @pytest.mark.parametrize(("name", "dtype"), list(ALIASES.items()))
    def test_named_conversions(self, name, dtype):
        t = torch.tensor([0, 1, 3], dtype=torch.int16)
        assert getattr(t, name)().dtype == dtype
        assert t.to(dtype).dtype == t.type(dtype).dtype == dtype

    @pytest.mark.filterwarnings("ignore:Casting complex values to real")
    @pytest.mark.parametrize(("a", "b"), list(itertools.product(ALL, ALL)))
    def test_small_whole_numbers_survive_every_conversion(self, a, b):
        data = [0, 1] if torch.bool in (a, b) else [0, 1, 7, 100]
        converted = torch.tensor(data, dtype=a).to(b)
        assert [complex(v) for v in converted.tolist()] == data

    def test_same_dtype_returns_the_same_object_unless_copy_is_asked(self):
        t = torch.zeros(2)
        assert t.to(torch.float32) is t
        assert t.float() is t
        assert t.type(torch.float32) is t
        copied = t.to(torch.float32, copy=True)
        assert copied is not t
        assert copied.data_ptr() != t.data_ptr()

    def test_to_takes_dtype_device_tensor_and_keywords(self):
        t = torch.zeros(2)
        assert t.to("cpu") is t
        assert t.to(torch.device("cpu")) is t
        assert t.to(torch.zeros(1, dtype=torch.int8)).dtype == torch.int8
        assert t.to("cpu", torch.float64).dtype == torch.float64
        assert t.to(device="cpu", dtype=torch.float16).dtype == torch.float16
        assert t.type_as(torch.zeros(1, dtype=torch.int8)).dtype == torch.int8

    def test_type_without_argument_names_the_type(self):
        assert torch.zeros(1).type() == "torch.FloatTensor"
        assert torch.zeros(1, dtype=torch.int64).type() == "torch.LongTensor"
        assert torch.zeros(1, dtype=torch.bool).type() == "torch.BoolTensor"
        assert torch.zeros(1).type("torch.DoubleTensor").dtype == torch.float64

    def test_conversion_is_differentiable_and_casts_the_gradient_back(self):
        x = leaf([1.0, 2.0], torch.float32)
        y = x.double()
        assert y.dtype == torch.float64
        assert not y.is_leaf
        (y * y).sum().backward()
        assert x.grad.dtype == torch.float32
        assert x.grad.tolist() == [2, 4]

    def test_conversion_to_integers_truncates(self):
        t = torch.tensor([1.9, -1.9, 0.5, -0.5])
        assert t.long().tolist() == [1, -1, 0, 0]
        assert t.bool().tolist() == [True, True, True, True]

    def test_conversion_to_integers_cuts_the_graph(self):
        y = leaf([1.5]).long()
        assert y.grad_fn is None
        assert not y.requires_grad

    def test_strided_conversion_keeps_the_layout(self):
        t = torch.arange(6.0).reshape(2, 3).t()
        u = t.double()
        assert u.stride() == (1, 3)
        assert values(u).tolist() == values(t).tolist()

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_half_precision_rounds_to_nearest_even(self, dtype):
        bits = 11 if dtype == torch.float16 else 8
        one_ulp = 2.0 ** (1 - bits)
        data = [1 + one_ulp / 2, 1 + 3 * one_ulp / 2, 1 + one_ulp * 0.75, 1 - one_ulp / 8]
        got = torch.tensor(data, dtype=torch.float64).to(dtype).tolist()
        assert got == [1.0, 1 + 2 * one_ulp, 1 + one_ulp, 1.0]

    def test_half_precision_overflow_and_subnormals(self):
        t = torch.tensor([65504.0, 65520.0, 2.0**-24, 2.0**-26])
        assert t.half().tolist() == [65504.0, float("inf"), 2.0**-24, 0.0]

    def test_float16_matches_numpy_on_a_grid(self):
        grid = np.concatenate([np.linspace(-7e4, 7e4, 501), np.linspace(-1e-4, 1e-4, 501)])
        with np.errstate(over="ignore"):
            expected = grid.astype(np.float32).astype(np.float16).astype(np.float32)
        got = torch.tensor(grid.astype(np.float32)).half().float()
        assert values(got).tolist() == expected.tolist()

    def test_bad_targets_raise(self):
        for bad in (lambda t: t.to("nowhere"), lambda t: t.to({}), lambda t: t.to("cpu", 1.5)):
            with pytest.raises((RuntimeError, TypeError)):
                bad(torch.zeros(1))


class TestProperties:
    @pytest.mark.parametrize(
        ("dtype", "size"),
        [
            (torch.bool, 1),
            (torch.uint8, 1),
            (torch.int16, 2),
            (torch.float16, 2),
            (torch.bfloat16, 2),
            (torch.int32, 4),
            (torch.float64, 8),
            (torch.complex64, 8),
            (torch.complex128, 16),
        ],
    )
    def test_item_size(self, dtype, size):
        assert dtype.itemsize == size
        assert torch.zeros(1, dtype=dtype).element_size() == size

    @pytest.mark.parametrize("dtype", ALL)
    def test_kind_flags(self, dtype):
        assert dtype.is_floating_point == (category(dtype) == 2)
        assert dtype.is_complex == (category(dtype) == 3)
        assert dtype.is_signed == (dtype not in (torch.bool, torch.uint8))

    def test_names_and_aliases(self):
        assert repr(torch.float32) == str(torch.float32) == "torch.float32"
        assert torch.float is torch.float32
        assert torch.double is torch.float64
        assert torch.long is torch.int64
        assert torch.half is torch.float16
        assert torch.cfloat is torch.complex64

    def test_dtypes_hash_compare_and_pickle(self):
        import copy
        import pickle

        assert {torch.float32: 1}[torch.float32] == 1
        assert torch.float32 != torch.float64
        assert pickle.loads(pickle.dumps(torch.int8)) is torch.int8
        assert copy.deepcopy(torch.bool) is torch.bool
        assert isinstance(torch.int8, torch.dtype)

    def test_machine_limits(self):
        f = torch.finfo(torch.float32)
        assert f.eps == np.finfo(np.float32).eps
        assert f.bits == 32
        assert f.max == float(np.finfo(np.float32).max)
        assert torch.finfo(torch.bfloat16).eps == 2.0**-7
        assert torch.iinfo(torch.int16).max == 32767
        assert torch.iinfo(torch.int8).min == -128


def test_limits_of_pythons_numbers():
    assert torch.finfo(float) == torch.finfo(complex) == torch.finfo(torch.float64)
    assert torch.iinfo(int) == torch.iinfo(torch.int64)
    assert torch.finfo() == torch.finfo(torch.float32) != torch.finfo(float)
    assert len({torch.finfo(float), torch.finfo(torch.float64)}) == 1
    for wrong in (int, "float32", torch.int8):
        with pytest.raises(TypeError):
            torch.finfo(wrong)
    for wrong in (float, bool, None):
        with pytest.raises(TypeError):
            torch.iinfo(wrong)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128])
def test_a_complex_number_is_infinite_when_a_part_is(dtype):
    inf, nan = float("inf"), float("nan")
    parts = [(1, 2), (inf, 0), (0, -inf), (inf, nan), (nan, inf), (nan, 0), (-inf, inf)]
    x = torch.tensor([complex(*p) for p in parts], dtype=dtype)
    assert torch.isinf(x).tolist() == [False, True, True, True, True, False, True]


def test_complex_numbers_divided_by_zero_are_infinite():
    z = torch.tensor([1 + 1j, -1 + 2j, 0j]) / torch.tensor([0j, 0j, 0j])
    inf = float("inf")
    assert torch.view_as_real(z)[:2].tolist() == [[inf, inf], [-inf, inf]]
    assert z[2].isnan()
    assert torch.view_as_real(torch.tensor([0j]).reciprocal())[0, 0] == inf
