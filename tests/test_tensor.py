"""Making tensors, reading them back, and the Python operators on them."""

import array
import math
import operator
import subprocess
import sys

import numpy as np
import pytest

import rushlight as torch
from support import check, leaf, values

INF = float("inf")


class TestFromData:
    @pytest.mark.parametrize(
        ("data", "shape", "dtype"),
        [
            (3, (), torch.int64),
            (3.0, (), torch.float32),
            (True, (), torch.bool),
            (2 + 1j, (), torch.complex64),
            ([], (0,), torch.float32),
            ([[]], (1, 0), torch.float32),
            ([[], []], (2, 0), torch.float32),
            ([1, 2], (2,), torch.int64),
            ([1, 2.0], (2,), torch.float32),
            ([True, False], (2,), torch.bool),
            ([True, 2], (2,), torch.int64),
            ([True, 2.5], (2,), torch.float32),
            ([1, 2j], (2,), torch.complex64),
            ([[1, 2], [3, 4]], (2, 2), torch.int64),
            (((1.0,), (2.0,)), (2, 1), torch.float32),
            ([[[1]], [[2]], [[3]]], (3, 1, 1), torch.int64),
            (range(4), (4,), torch.int64),
        ],
    )
    def test_shape_and_dtype_follow_the_nested_data(self, data, shape, dtype):
        t = torch.tensor(data)
        assert t.shape == shape
        assert t.dtype == dtype

    def test_explicit_dtype_converts(self):
        assert torch.tensor([1.9, -1.9], dtype=torch.int32).tolist() == [1, -1]
        assert torch.tensor([0, 2], dtype=torch.bool).tolist() == [False, True]
        assert torch.tensor([1, 2], dtype=torch.float64).dtype == torch.float64

    def test_lists_of_tensors_and_numpy_scalars(self):
        assert torch.tensor([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]
        t = torch.tensor([np.float64(1.5), np.float64(2.5)])
        assert t.tolist() == [1.5, 2.5]
        assert t.dtype == torch.float64

    @pytest.mark.parametrize("kind", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "?", "c8"])
    def test_numpy_arrays_keep_their_dtype_and_are_copied(self, kind):
        a = np.array([[1, 0], [0, 1]], dtype=kind)
        t = torch.tensor(a)
        assert str(t.dtype) == f"torch.{a.dtype.name}"
        a[0, 0] = 0
        assert t[0, 0].item() == 1

    def test_any_buffer_is_accepted(self):
        assert torch.tensor(array.array("d", [1.5, 2.5])).tolist() == [1.5, 2.5]
        assert torch.tensor(memoryview(b"\x01\x02")).tolist() == [1, 2]

    def test_tensor_of_a_tensor_is_a_detached_copy_and_says_so(self):
        x = leaf([1.0])
        with pytest.warns(UserWarning, match="clone"):
            y = torch.tensor(x)
        assert y.is_leaf
        assert not y.requires_grad
        assert y.data_ptr() != x.data_ptr()

    def test_requires_grad_makes_a_leaf(self):
        t = torch.tensor([1.0], requires_grad=True)
        assert t.requires_grad
        assert t.is_leaf
        assert t.grad_fn is None

    def test_special_values(self):
        t = torch.tensor([INF, -INF, math.nan, -0.0])
        a, b, c, d = t.tolist()
        assert (a, b) == (INF, -INF)
        assert math.isnan(c)
        assert math.copysign(1, d) == -1

    def test_largest_integers_are_exact(self):
        big = [2**63 - 1, -(2**63)]
        assert torch.tensor(big).tolist() == big

    def test_as_tensor_returns_the_same_tensor_and_shares_numpy(self):
        t = torch.tensor([1.0])
        assert torch.as_tensor(t) is t
        a = np.zeros(3)
        torch.as_tensor(a)[0] = 5
        assert a[0] == 5

    @pytest.mark.parametrize(
        ("data", "error"),
        [
            ([[1, 2], [3]], ValueError),
            ([[1], 2], TypeError),
            ([1, [2]], TypeError),
            ("abc", TypeError),
            ([None], RuntimeError),
            (object(), RuntimeError),
            ([object()], RuntimeError),
            ({1: 2}, RuntimeError),
        ],
    )
    def test_bad_data_raises(self, data, error):
        with pytest.raises(error):
            torch.tensor(data)

    def test_integers_that_do_not_fit_raise(self):
        with pytest.raises((ValueError, RuntimeError), match=r"(?i)overflow"):
            torch.tensor(2**64)

    def test_integers_cannot_require_grad(self):
        with pytest.raises(RuntimeError, match="floating point"):
            torch.tensor([1], requires_grad=True)


class TestFactories:
    @pytest.mark.parametrize("size", [(), (0,), (3,), (2, 3), (2, 0, 4)])
    @pytest.mark.parametrize(("make", "fill"), [(torch.zeros, 0), (torch.ones, 1)])
    def test_sizes_as_varargs_tuple_or_keyword(self, make, fill, size):
        for t in (make(size), make(list(size)), make(torch.Size(size)), make(size=size)):
            check(t, np.full(size, fill))
        if size:
            check(make(*size), np.full(size, fill))

    def test_default_dtype_is_float32(self):
        for t in (torch.zeros(1), torch.ones(1), torch.empty(1), torch.eye(2), torch.rand(1)):
            assert t.dtype == torch.float32

    def test_set_default_dtype_changes_factories_and_inference(self):
        torch.set_default_dtype(torch.float64)
        try:
            assert torch.get_default_dtype() == torch.float64
            assert torch.zeros(1).dtype == torch.float64
            assert torch.tensor(1.0).dtype == torch.float64
            assert torch.tensor(1j).dtype == torch.complex128
            assert (torch.tensor(1) / 2).dtype == torch.float64
        finally:
            torch.set_default_dtype(torch.float32)
        assert torch.zeros(1).dtype == torch.float32

    def test_default_dtype_must_be_floating(self):
        with pytest.raises(TypeError, match="floating"):
            torch.set_default_dtype(torch.int32)

    def test_full_infers_its_dtype(self):
        assert torch.full((2,), 3).dtype == torch.int64
        assert torch.full((2,), 3.0).dtype == torch.float32
        assert torch.full((2,), True).dtype == torch.bool
        check(torch.full((2, 2), 1.5, dtype=torch.float64), [[1.5, 1.5], [1.5, 1.5]])

    @pytest.mark.parametrize(
        "args",
        [(5,), (2, 7), (2, 9, 3), (5, 0, -2), (0.0, 1.0, 0.25), (3, 3), (1, 2.6, 0.5), (-3, 3)],
    )
    def test_arange_matches_numpy(self, args):
        t = torch.arange(*args, dtype=torch.float64)
        check(t, np.arange(*args, dtype=np.float64))

    def test_arange_dtype(self):
        assert torch.arange(3).dtype == torch.int64
        assert torch.arange(3.0).dtype == torch.float32

    @pytest.mark.parametrize("args", [(0, 5, 0), (0, 5, -1), (5, 0, 1)])
    def test_arange_rejects_a_step_that_never_arrives(self, args):
        with pytest.raises(RuntimeError):
            torch.arange(*args)

    @pytest.mark.parametrize("args", [(0, 1, 5), (1, -1, 2), (3, 3, 3), (0, 1, 1), (0, 1, 0)])
    def test_linspace_matches_numpy(self, args):
        check(torch.linspace(*args, dtype=torch.float64), np.linspace(*args))

    @pytest.mark.parametrize("args", [(3,), (2, 4), (4, 2), (0,)])
    def test_eye_matches_numpy(self, args):
        check(torch.eye(*args), np.eye(*args))

    def test_like_factories_follow_shape_and_dtype(self):
        x = torch.ones(2, 3, dtype=torch.float64)
        for make in (torch.zeros_like, torch.ones_like, torch.empty_like, torch.rand_like):
            t = make(x)
            assert t.shape == (2, 3)
            assert t.dtype == torch.float64
        assert torch.zeros_like(x, dtype=torch.int32).dtype == torch.int32
        check(torch.full_like(x, 7.0), np.full((2, 3), 7.0))

    def test_like_factories_follow_the_strides_of_dense_tensors(self):
        assert torch.zeros_like(torch.ones(2, 3).t()).stride() == (1, 3)
        assert torch.zeros_like(torch.ones(3).expand(2, 3)).stride() == (3, 1)

    def test_like_factories_do_not_inherit_requires_grad(self):
        assert not torch.zeros_like(leaf([1.0])).requires_grad
        assert torch.zeros_like(leaf([1.0]), requires_grad=True).requires_grad

    def test_new_factories(self):
        x = torch.ones(2, dtype=torch.float64)
        for t in (x.new_zeros(3), x.new_ones((3,)), x.new_empty(3), x.new_full((3,), 2.0)):
            assert t.dtype == torch.float64
            assert t.shape == (3,)
        assert x.new_tensor([1, 2]).dtype == torch.float64

    @pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.empty, torch.rand])
    def test_negative_sizes_raise(self, make):
        with pytest.raises(RuntimeError, match="negative"):
            make(2, -1)


class TestPythonProtocols:
    def test_item_reads_any_single_element(self):
        assert torch.tensor([[2.5]]).item() == 2.5
        assert type(torch.tensor(1).item()) is int
        assert type(torch.tensor(1.0).item()) is float
        assert type(torch.tensor(True).item()) is bool
        assert torch.tensor(1 + 2j).item() == 1 + 2j

    @pytest.mark.parametrize("t", [torch.zeros(2), torch.zeros(0)])
    def test_item_of_many_or_none_raises(self, t):
        with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
            t.item()

    def test_tolist_nests_as_the_shape(self):
        assert torch.tensor(3).tolist() == 3
        assert torch.zeros(2, 0).tolist() == [[], []]
        assert torch.arange(4).reshape(2, 2).t().tolist() == [[0, 2], [1, 3]]

    def test_len_and_iteration_walk_the_first_dimension(self):
        t = torch.arange(6).reshape(3, 2)
        assert len(t) == 3
        assert [row.tolist() for row in t] == [[0, 1], [2, 3], [4, 5]]
        *_, c = t
        assert c.tolist() == [4, 5]
        with pytest.raises(TypeError, match="0-d"):
            len(torch.tensor(1))
        with pytest.raises(TypeError, match="0-d"):
            iter(torch.tensor(1))

    def test_truth_value_of_one_element(self):
        assert torch.tensor([[1]])
        assert not torch.tensor(0.0)
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(torch.zeros(2))
        with pytest.raises(RuntimeError, match="ambiguous"):
            bool(torch.zeros(0))

    def test_float_int_complex_and_index(self):
        assert float(torch.tensor(2)) == 2.0
        assert int(torch.tensor(2.9)) == 2
        assert complex(torch.tensor(1.5)) == 1.5 + 0j
        assert [10, 20, 30][torch.tensor(1)] == 20
        assert operator.index(torch.tensor([2])) == 2
        assert list(range(torch.tensor(3))) == [0, 1, 2]
        for large in (2**53 + 1, 2**63 - 1):
            with pytest.raises(IndexError, match=str(large)):
                torch.arange(4).select(0, torch.tensor(large))
        with pytest.raises(TypeError, match="integer"):
            operator.index(torch.tensor(1.0))
        with pytest.raises((RuntimeError, ValueError)):
            float(torch.zeros(2))

    def test_float_of_a_tensor_that_requires_grad_warns(self):
        program = "import rushlight as torch; print(float(torch.ones((), requires_grad=True)))"
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        assert run.stdout.strip() == "1.0"
        assert "requires_grad=True to a scalar may lead to unexpected behavior" in run.stderr

    def test_hash_and_contains(self):
        t = torch.tensor([1.0, 2.0])
        assert hash(t) == hash(t)
        assert {t: 1}[t] == 1
        assert 2.0 in t
        assert 3.0 not in t

    def test_format_of_zero_dimensions(self):
        assert f"{torch.tensor(2.5):.2f}" == "2.50"

    def test_attributes(self):
        t = torch.zeros(2, 3)
        assert t.ndim == t.dim() == 2
        assert t.size() == t.shape == torch.Size([2, 3]) == (2, 3)
        assert t.size(-1) == 3
        assert t.numel() == t.nelement() == 6
        assert t.element_size() == 4
        assert t.is_floating_point()
        assert not t.is_complex()
        assert t.device == torch.device("cpu")
        assert str(t.device) == "cpu"
        assert isinstance(t.shape, tuple)
        assert t.shape.numel() == 6
        assert repr(t.shape) == "torch.Size([2, 3])"
        with pytest.raises(IndexError, match="Dimension out of range"):
            t.size(2)

    def test_unknown_attributes_raise(self):
        with pytest.raises(AttributeError, match="no_such_thing"):
            torch.zeros(1).no_such_thing

    def test_attributes_can_be_added_and_subclasses_made(self):
        class Named(torch.Tensor):
            pass

        t = torch.zeros(1)
        t.note = "kept"
        assert t.note == "kept"
        n = torch.zeros(2).as_subclass(Named)
        assert isinstance(n, Named)
        assert isinstance(n, torch.Tensor)


BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]
INPLACE = {
    operator.add: operator.iadd,
    operator.sub: operator.isub,
    operator.mul: operator.imul,
    operator.truediv: operator.itruediv,
    operator.floordiv: operator.ifloordiv,
    operator.mod: operator.imod,
    operator.pow: operator.ipow,
}
LEFT = np.array([[2.5, 1.0, 3.25], [0.5, 4.0, 2.0]])
RIGHT = np.array([1.5, 2.0, 0.75])


class TestOperators:
    @pytest.mark.parametrize("op", BINARY)
    def test_tensor_with_tensor_broadcasts_as_numpy(self, op):
        check(op(torch.tensor(LEFT), torch.tensor(RIGHT)), op(LEFT, RIGHT))
        check(op(torch.tensor(RIGHT), torch.tensor(LEFT)), op(RIGHT, LEFT))

    @pytest.mark.parametrize("op", BINARY)
    @pytest.mark.parametrize("scalar", [2, 1.5, 0.25])
    def test_python_scalars_on_either_side(self, op, scalar):
        check(op(torch.tensor(LEFT), scalar), op(LEFT, scalar))
        check(op(scalar, torch.tensor(LEFT)), op(scalar, LEFT))

    @pytest.mark.parametrize("op", list(INPLACE))
    def test_in_place_operators_keep_the_object(self, op):
        t = torch.tensor(LEFT)
        same, pointer = t, t.data_ptr()
        t = INPLACE[op](t, torch.tensor(RIGHT))
        assert t is same
        assert t.data_ptr() == pointer
        check(t, op(LEFT, RIGHT))

    def test_unary_operators(self):
        t = torch.tensor([-1.5, 2.0])
        assert (-t).tolist() == [1.5, -2.0]
        assert (+t).tolist() == t.tolist()
        assert abs(t).tolist() == [1.5, 2.0]
        assert (~torch.tensor([True, False])).tolist() == [False, True]
        assert (~torch.tensor([0, 5])).tolist() == [-1, -6]

    def test_bitwise_operators(self):
        a, b = torch.tensor([12, 10]), torch.tensor([10, 3])
        assert (a & b).tolist() == [8, 2]
        assert (a | b).tolist() == [14, 11]
        assert (a ^ b).tolist() == [6, 9]
        assert (torch.tensor([True, True]) & torch.tensor([True, False])).tolist() == [True, False]

    def test_matmul_operator(self):
        a, b = torch.tensor(LEFT), torch.tensor(LEFT.T.copy())
        check(a @ b, LEFT @ LEFT.T)

    @pytest.mark.parametrize("a", [-7, 7])
    @pytest.mark.parametrize("b", [-2, 2])
    def test_integer_division_and_modulo_round_as_python(self, a, b):
        assert (torch.tensor(a) // torch.tensor(b)).item() == a // b
        assert (torch.tensor(a) % torch.tensor(b)).item() == a % b
        assert (torch.tensor(a) / torch.tensor(b)).item() == a / b

    def test_comparison_gives_bool_tensors(self):
        assert (torch.tensor([1, 2]) == torch.tensor([1, 3])).dtype == torch.bool
        assert (torch.tensor([1.0]) == None) is False  # noqa: E711

    def test_operands_that_are_not_numbers_raise_type_error(self):
        t = torch.zeros(2)
        for bad in ("x", None, object(), {}):
            with pytest.raises(TypeError):
                t + bad
            with pytest.raises(TypeError):
                bad + t

    def test_shapes_that_do_not_broadcast_raise(self):
        with pytest.raises(RuntimeError, match="must match the size"):
            torch.zeros(2, 3) + torch.zeros(2, 4)

    def test_in_place_result_must_fit_shape_and_dtype(self):
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            torch.zeros(3).add_(torch.zeros(2, 3))
        with pytest.raises(RuntimeError, match="can't be cast"):
            torch.zeros(3, dtype=torch.int64).add_(1.5)

    def test_bool_subtraction_and_negation_raise(self):
        b = torch.tensor([True])
        for bad in (lambda: b - b, lambda: -b, lambda: 1 - b):
            with pytest.raises(RuntimeError, match="bool"):
                bad()

    def test_integer_division_by_zero_raises_and_float_does_not(self):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            torch.tensor([1]) // torch.tensor([0])
        assert (torch.tensor([1.0]) / 0).tolist() == [INF]

    def test_values_reads_every_layout(self):
        assert values(torch.arange(6).reshape(2, 3).t()).tolist() == [[0, 3], [1, 4], [2, 5]]


@pytest.mark.parametrize("convert", [int, float, complex])
def test_only_one_element_is_a_number(convert):
    assert convert(torch.ones(1, 1)) == 1
    for shape in ((3,), (0,), (2, 2)):
        with pytest.raises(ValueError, match="only one element tensors can be converted"):
            convert(torch.ones(shape))
    if convert is not complex:
        assert convert(torch.tensor(2 + 0j)) == 2
        with pytest.raises(RuntimeError, match="without overflow"):
            convert(torch.tensor(1j))


@pytest.mark.parametrize("name", ["isclose", "allclose", "equal"])
def test_comparisons_of_tensors_want_tensors(name):
    for function in (getattr(torch, name), getattr(torch.Tensor, name)):
        with pytest.raises(TypeError, match=r"argument 'other' .* must be Tensor, not float"):
            function(torch.ones(2), 1.0)


def test_names_of_older_pythons():
    x = torch.tensor([4.0])
    assert x.__div__(2).item() == 2
    assert x.__rdiv__(2).item() == 0.5
    assert x.__idiv__(2) is x
    assert (x.__nonzero__(), x.__long__()) == (True, 2)
    assert x.__module__ == torch.Tensor.__module__ == "rushlight"


def test_operators_that_numbers_have_and_tensors_do_not():
    with pytest.raises(TypeError):
        pow(torch.tensor(7), 2, 5)
    with pytest.raises(RuntimeError, match="bool tensor is not supported"):
        +torch.tensor(True)
    x = torch.ones(1)
    assert +x is x
    assert hash(x) == id(x)


def test_sizes_hold_integers():
    size = torch.Size((torch.tensor(2), np.int64(3), 4))
    assert size == (2, 3, 4)
    assert all(type(n) is int for n in size)
    for bad in ([1.5], ["a"], [torch.ones(2)], [None]):
        with pytest.raises(TypeError, match=r"torch.Size\(\) takes an iterable of 'int'"):
            torch.Size(bad)
    with pytest.raises(TypeError):
        torch.Size([1]).__add__(("a",))


def test_the_legacy_constructor_stays_in_the_graph():
    x = torch.ones(2, requires_grad=True)
    torch.Tensor(x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_truth_is_an_exponent():
    x = torch.tensor([1 + 2j, 3j], requires_grad=True)
    (g,) = torch.autograd.grad(torch.view_as_real(x**True).sum(), x, create_graph=True)
    assert g.tolist() == [1 + 1j, 1 + 1j]
